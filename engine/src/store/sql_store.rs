//! The store, once for both databases.

use async_trait::async_trait;
use jiff::Timestamp;

use super::engine::{Arg, Engine, Row, SessionParts};
use super::lately::LatelyChanged;
use super::range::{Micros, Range, cut};
use super::records::{
    AgentRecord, EnvironmentRecord, EventRecord, FileRecord, MessageRecord, ResourceRecord, SessionRecord, WorkStatus,
};
use super::revisions::Revisions;
use super::{
    EventWindow, Inserted, Listed, SessionFilter, Store, StoreError, TimeBounds, Window, is_unique, rows, sql,
};
use crate::ids::{AgentId, EnvironmentId, EventId, ResourceId, SessionId, VideoId};
use crate::sessions::change::{self, ChangeOutcome, SessionChange};

#[derive(Debug)]
pub(super) struct SqlStore {
    engine: Box<dyn Engine>,
    lately: LatelyChanged,
    revisions: Revisions,
}

impl SqlStore {
    pub(super) fn new(engine: Box<dyn Engine>) -> Self {
        Self { engine, lately: LatelyChanged::default(), revisions: Revisions::new() }
    }

    /// The first row of a reading statement.
    async fn one<T>(
        &self,
        statement: &'static str,
        args: Vec<Arg>,
        read: fn(Row) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.engine.rows(statement, args).await?.into_iter().next().map(read).transpose()
    }

    async fn all<T>(
        &self,
        statement: &'static str,
        args: Vec<Arg>,
        read: fn(Row) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        self.engine.rows(statement, args).await?.into_iter().map(read).collect()
    }

    /// A list by its range; `more` are the parameters from `$6` on.
    async fn list<T>(
        &self,
        (up, down): (&'static str, &'static str),
        range: &Range,
        more: Vec<Arg>,
        read: fn(Row) -> Result<T, StoreError>,
    ) -> Result<Listed<T>, StoreError> {
        let mut args = range.args();
        args.extend(more);
        let items = self.all(if range.upwards { up } else { down }, args, read).await?;
        Ok(range.listed(items))
    }

    async fn touched(&self, statement: &'static str, args: Vec<Arg>) -> Result<bool, StoreError> {
        Ok(self.engine.execute(statement, args).await? > 0)
    }
}

#[async_trait]
impl Store for SqlStore {
    async fn ping(&self) -> Result<(), StoreError> {
        self.engine.rows(sql::PING, Vec::new()).await.map(drop)
    }

    async fn close(&self) {
        self.engine.close().await;
    }

    async fn insert_agent(&self, agent: &AgentRecord) -> Result<Inserted<AgentRecord>, StoreError> {
        let mut transaction = self.engine.begin().await?;
        let args =
            vec![agent.id.as_str().into(), agent.version.into(), agent.created_at.into(), agent.archived_at.into()];
        if transaction.execute(sql::INSERT_AGENT, args).await? > 0 {
            transaction.execute(sql::INSERT_AGENT_VERSION, rows::agent_version_args(agent)).await?;
            transaction.commit().await?;
            return Ok(Inserted::New);
        }
        let standing = transaction.rows(sql::NEWEST_AGENT, vec![agent.id.as_str().into()]).await?;
        let standing = standing.into_iter().next().map(rows::agent).transpose()?;
        standing.map_or_else(
            || Err(StoreError::Corrupt { table: "agents", reason: format!("`{}` has no versions", agent.id) }),
            |agent| Ok(Inserted::Existing(Box::new(agent))),
        )
    }

    async fn agent(&self, id: &AgentId, version: Option<u32>) -> Result<Option<AgentRecord>, StoreError> {
        let id: Arg = id.as_str().into();
        match version {
            None => self.one(sql::NEWEST_AGENT, vec![id], rows::agent).await,
            Some(version) => self.one(sql::AGENT_VERSION, vec![id, version.into()], rows::agent).await,
        }
    }

    async fn add_agent_version(&self, next: &AgentRecord) -> Result<bool, StoreError> {
        let mut transaction = self.engine.begin().await?;
        let args = vec![next.id.as_str().into(), next.version.into()];
        if transaction.execute(sql::MOVE_NEWEST_VERSION, args).await? == 0 {
            return Ok(false);
        }
        transaction.execute(sql::INSERT_AGENT_VERSION, rows::agent_version_args(next)).await?;
        transaction.commit().await?;
        Ok(true)
    }

    async fn archive_agent(&self, id: &AgentId, at: Timestamp) -> Result<Option<AgentRecord>, StoreError> {
        self.engine.execute(sql::ARCHIVE_AGENT, vec![id.as_str().into(), at.into()]).await?;
        self.agent(id, None).await
    }

    async fn agents(
        &self,
        window: &Window,
        include_archived: bool,
        created: TimeBounds,
    ) -> Result<Listed<AgentRecord>, StoreError> {
        let range = Range::new(window, created);
        self.list((sql::AGENTS_UP, sql::AGENTS_DOWN), &range, vec![include_archived.into()], rows::agent).await
    }

    async fn agent_versions(
        &self,
        id: &AgentId,
        below: Option<u32>,
        limit: u32,
    ) -> Result<Listed<AgentRecord>, StoreError> {
        let below = below.map_or(i64::MAX, i64::from);
        let args = vec![id.as_str().into(), below.into(), Arg::count(u64::from(limit) + 1)];
        let mut items = self.all(sql::AGENT_VERSIONS, args, rows::agent).await?;
        let has_more = cut(&mut items, limit);
        Ok(Listed { items, has_more })
    }

    async fn insert_environment(
        &self,
        environment: &EnvironmentRecord,
    ) -> Result<Inserted<EnvironmentRecord>, StoreError> {
        // What stood in the way may be gone before it can be read; then the insert takes the next time.
        loop {
            if self.touched(sql::INSERT_ENVIRONMENT, rows::environment_args(environment)).await? {
                return Ok(Inserted::New);
            }
            let of_id = self.environment(&environment.id).await?;
            let standing = match of_id {
                Some(standing) => Some(standing),
                None => self.one(sql::ENVIRONMENT_BY_NAME, vec![(&environment.name).into()], rows::environment).await?,
            };
            if let Some(standing) = standing {
                return Ok(Inserted::Existing(Box::new(standing)));
            }
        }
    }

    async fn environment(&self, id: &EnvironmentId) -> Result<Option<EnvironmentRecord>, StoreError> {
        self.one(sql::ENVIRONMENT, vec![id.as_str().into()], rows::environment).await
    }

    async fn environment_name_taken(&self, name: &str, but: &EnvironmentId) -> Result<bool, StoreError> {
        let holder = self.one(sql::ENVIRONMENT_BY_NAME, vec![name.into()], rows::environment).await?;
        Ok(holder.is_some_and(|holder| holder.id != *but))
    }

    async fn update_environment(&self, next: &EnvironmentRecord, expected: Timestamp) -> Result<bool, StoreError> {
        let mut args = rows::environment_args(next);
        args.push(expected.into());
        match self.touched(sql::UPDATE_ENVIRONMENT, args).await {
            Err(error) if is_unique(&error) => Ok(false),
            result => result,
        }
    }

    async fn delete_environment(&self, id: &EnvironmentId) -> Result<bool, StoreError> {
        self.touched(sql::DELETE_ENVIRONMENT, vec![id.as_str().into()]).await
    }

    async fn environments(
        &self,
        window: &Window,
        include_archived: bool,
    ) -> Result<Listed<EnvironmentRecord>, StoreError> {
        let range = Range::new(window, TimeBounds::default());
        let both = (sql::ENVIRONMENTS_UP, sql::ENVIRONMENTS_DOWN);
        self.list(both, &range, vec![include_archived.into()], rows::environment).await
    }

    async fn insert_file(&self, file: &FileRecord) -> Result<Inserted<FileRecord>, StoreError> {
        loop {
            if self.touched(sql::INSERT_FILE, rows::file_args(file)).await? {
                return Ok(Inserted::New);
            }
            if let Some(standing) = self.file(&file.id).await? {
                return Ok(Inserted::Existing(Box::new(standing)));
            }
        }
    }

    async fn file(&self, id: &VideoId) -> Result<Option<FileRecord>, StoreError> {
        self.one(sql::FILE, vec![id.as_str().into()], rows::file).await
    }

    async fn update_file(&self, next: &FileRecord, expected: Timestamp) -> Result<bool, StoreError> {
        let mut args = rows::file_args(next);
        args.push(expected.into());
        self.touched(sql::UPDATE_FILE, args).await
    }

    async fn delete_file(&self, id: &VideoId) -> Result<bool, StoreError> {
        self.touched(sql::DELETE_FILE, vec![id.as_str().into()]).await
    }

    async fn files(&self, window: &Window) -> Result<Listed<FileRecord>, StoreError> {
        let range = Range::new(window, TimeBounds::default());
        self.list((sql::FILES_UP, sql::FILES_DOWN), &range, Vec::new(), rows::file).await
    }

    async fn files_by_id(&self, ids: &[VideoId]) -> Result<Vec<FileRecord>, StoreError> {
        let found = self.all(self.engine.dialect().files_by_id, vec![Arg::json(ids)], rows::file).await?;
        Ok(ids.iter().filter_map(|id| found.iter().find(|file| file.id == *id).cloned()).collect())
    }

    async fn files_with_description(
        &self,
        statuses: &[WorkStatus],
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<FileRecord>, StoreError> {
        let args = vec![Arg::json(statuses), before.into(), limit.into()];
        self.all(self.engine.dialect().files_with_description, args, rows::file).await
    }

    async fn insert_session(&self, session: &SessionRecord, resources: &[ResourceRecord]) -> Result<(), StoreError> {
        let _changing = self.revisions.change(&session.id);
        let mut transaction = self.engine.begin().await?;
        transaction.execute(sql::INSERT_SESSION, rows::session_args(session)).await?;
        for resource in resources {
            transaction.execute(sql::INSERT_RESOURCE, rows::resource_args(resource)).await?;
        }
        transaction.commit().await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>, StoreError> {
        self.one(sql::SESSION, vec![id.as_str().into()], rows::session).await
    }

    async fn sessions(&self, window: &Window, filter: &SessionFilter) -> Result<Listed<SessionRecord>, StoreError> {
        let dialect = self.engine.dialect();
        let more = vec![
            filter.include_archived.into(),
            filter.agent_id.as_ref().map(AgentId::as_str).into(),
            filter.agent_version.into(),
            Arg::json(&filter.statuses),
        ];
        let range = Range::new(window, filter.created);
        self.list((dialect.sessions_up, dialect.sessions_down), &range, more, rows::session).await
    }

    fn revision(&self, id: &SessionId) -> Option<u64> {
        (!self.engine.is_shared()).then(|| self.revisions.of(id))
    }

    async fn sessions_with_resources(
        &self,
        ids: &[SessionId],
    ) -> Result<Vec<(SessionRecord, Vec<ResourceRecord>)>, StoreError> {
        let statement = self.engine.dialect().sessions_with_resources;
        self.all(statement, vec![Arg::json(ids)], rows::session_with_resources).await
    }

    async fn sessions_in_state(&self, state: &'static str, limit: u32) -> Result<Vec<SessionRecord>, StoreError> {
        self.all(sql::SESSIONS_IN_STATE, vec![state.into(), limit.into()], rows::session).await
    }

    async fn change_session(
        &self,
        id: &SessionId,
        change: SessionChange,
        now: Timestamp,
    ) -> Result<ChangeOutcome, StoreError> {
        let mut known = self.lately.session(id);
        loop {
            let is_fresh = known.is_none();
            let session = match known.take() {
                Some(session) => session,
                None => match self.session(id).await? {
                    Some(session) => session,
                    None => return Ok(ChangeOutcome::Gone),
                },
            };
            let _changing = self.revisions.change(id);
            let was = session.updated_at;
            let changed = match change::apply(session, change.clone(), now) {
                Ok(changed) => changed,
                Err(session) if is_fresh => return Ok(ChangeOutcome::Refused(session)),
                Err(_outdated) => continue,
            };
            let parts = SessionParts { events: !changed.events.is_empty(), messages: !changed.messages.is_empty() };
            if self.engine.write_session(parts, rows::changed_args(&changed, was)).await? {
                self.lately.keep(&changed.session);
                return Ok(ChangeOutcome::Done(Box::new(changed)));
            }
            // Somebody else was first. They got on, so this ends.
        }
    }

    async fn delete_session(&self, id: &SessionId) -> Result<bool, StoreError> {
        let _changing = self.revisions.change(id);
        self.lately.forget(id);
        self.touched(sql::DELETE_SESSION, vec![id.as_str().into()]).await
    }

    async fn mark_read(&self, id: &SessionId, seq: u64) -> Result<(), StoreError> {
        self.touched(sql::MARK_READ, vec![id.as_str().into(), Arg::count(seq)]).await?;
        self.lately.mark_read(id, seq);
        Ok(())
    }

    async fn events(&self, id: &SessionId, window: &EventWindow) -> Result<Listed<EventRecord>, StoreError> {
        let after = window.after_seq.map(Arg::count);
        let (low, high) = if window.descending {
            (Arg::count(0), after.unwrap_or(Arg::from(i64::MAX)))
        } else {
            (after.unwrap_or(Arg::count(0)), Arg::from(i64::MAX))
        };
        let processed = Micros::from(window.filter.processed);
        let args = vec![
            id.as_str().into(),
            low,
            high,
            Arg::count(u64::from(window.limit) + 1),
            processed.from.into(),
            processed.to.into(),
            Arg::json(&window.filter.types),
        ];
        let dialect = self.engine.dialect();
        let statement = if window.descending { dialect.events_down } else { dialect.events_up };
        let mut items = self.all(statement, args, rows::event).await?;
        let has_more = cut(&mut items, window.limit);
        Ok(Listed { items, has_more })
    }

    async fn event_seq(&self, id: &SessionId, event: &EventId) -> Result<Option<u64>, StoreError> {
        let args = vec![id.as_str().into(), event.as_str().into()];
        self.one(sql::EVENT_SEQ, args, |row| row.of("events").number()).await
    }

    async fn event(&self, id: &SessionId, event: &EventId) -> Result<Option<EventRecord>, StoreError> {
        self.one(sql::EVENT, vec![id.as_str().into(), event.as_str().into()], rows::event).await
    }

    async fn messages(&self, id: &SessionId, from_index: u64) -> Result<Vec<MessageRecord>, StoreError> {
        self.all(sql::MESSAGES, vec![id.as_str().into(), Arg::count(from_index)], rows::message).await
    }

    async fn insert_resource(&self, resource: &ResourceRecord) -> Result<(), StoreError> {
        let _changing = self.revisions.change(&resource.session_id);
        self.touched(sql::INSERT_RESOURCE, rows::resource_args(resource)).await.map(drop)
    }

    async fn resource(&self, session: &SessionId, id: &ResourceId) -> Result<Option<ResourceRecord>, StoreError> {
        self.one(sql::RESOURCE, vec![session.as_str().into(), id.as_str().into()], rows::resource).await
    }

    async fn resources(&self, session: &SessionId, window: &Window) -> Result<Listed<ResourceRecord>, StoreError> {
        let range = Range::new(window, TimeBounds::default());
        let both = (sql::RESOURCES_UP, sql::RESOURCES_DOWN);
        self.list(both, &range, vec![session.as_str().into()], rows::resource).await
    }

    async fn resources_of(&self, sessions: &[SessionId]) -> Result<Vec<ResourceRecord>, StoreError> {
        self.all(self.engine.dialect().resources_of, vec![Arg::json(sessions)], rows::resource).await
    }

    async fn delete_resource(&self, session: &SessionId, id: &ResourceId) -> Result<bool, StoreError> {
        let _changing = self.revisions.change(session);
        self.touched(sql::DELETE_RESOURCE, vec![session.as_str().into(), id.as_str().into()]).await
    }
}
