//! Every statement, as a constant.
//!
//! Both databases read the same words: `$1` placeholders, `on conflict`, row values, `->>`. Where they differ (how a JSON
//! list becomes rows, how several tables are written at once) the text stands once in `dialect!`, which fills the
//! difference in.
//!
//! A list is one `range`: `(created_at, id)` strictly between two places, in either direction. The way an item's page,
//! the bounds on its time and the direction of travel fold into it is `super::range`'s.

use super::engine::SessionParts;

/// Columns of an agent version, in the order that `super::rows` reads.
macro_rules! agent_columns {
    () => {
        "v.agent_id, v.version, v.name, v.description, v.model, v.system, v.tools, v.metadata, v.endpoint, \
         a.created_at, v.updated_at, a.archived_at"
    };
}

macro_rules! environment_columns {
    () => {
        "id, name, description, config, metadata, scope, created_at, updated_at, archived_at"
    };
}

macro_rules! file_columns {
    () => {
        "id, filename, mime_type, extension, size_bytes, sha256, source, source_status, source_error, bucket_key, \
         media, description_status, description, description_error, description_attempts, metadata, expires_at, \
         created_at, updated_at"
    };
}

macro_rules! session_columns {
    () => {
        "id, state, state_detail, title, metadata, agent_id, agent_version, agent, mode, environment_id, video_id, \
         max_turns, sandbox, usage, active_micros, run_began_at, fence, interrupted_fence, last_seq, run_start_seq, \
         read_seq, message_count, pending_actions, last_event_at, created_at, updated_at, archived_at"
    };
}

macro_rules! resource_columns {
    () => {
        "id, session_id, file_id, mount_path, created_at, updated_at"
    };
}

macro_rules! event_columns {
    () => {
        "session_id, seq, id, at, body"
    };
}

/// A list's two directions: `select`, its conditions on `(created_at, id)` given as the parameters `$1` to `$4`, the
/// limit as `$5`.
macro_rules! both_ways {
    ($up:ident, $down:ident, $select:expr, $at:literal, $id:literal, $also:literal) => {
pub(super) const $up: &str = both_ways!(@one $select, $at, $id, $also, "");
pub(super) const $down: &str = both_ways!(@one $select, $at, $id, $also, " desc");
    };
    (@one $select:expr, $at:literal, $id:literal, $also:literal, $way:literal) => {
        concat!(
            $select,
            " where (",
            $at,
            ", ",
            $id,
            ") > ($1, $2) and (",
            $at,
            ", ",
            $id,
            ") < ($3, $4)",
            $also,
            " order by ",
            $at,
            $way,
            ", ",
            $id,
            $way,
            " limit $5"
        )
    };
}

pub(super) const PING: &str = "select cast(1 as bigint)";

pub(super) const INSERT_AGENT: &str = "insert into agents (id, newest_version, created_at, archived_at) \
     values ($1, $2, $3, $4) on conflict do nothing";
pub(super) const INSERT_AGENT_VERSION: &str = "insert into agent_versions (agent_id, version, name, description, \
     model, system, tools, metadata, endpoint, updated_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
pub(super) const NEWEST_AGENT: &str = concat!(
    "select ",
    agent_columns!(),
    " from agents a join agent_versions v on v.agent_id = a.id and v.version = a.newest_version where a.id = $1"
);
pub(super) const AGENT_VERSION: &str = concat!(
    "select ",
    agent_columns!(),
    " from agents a join agent_versions v on v.agent_id = a.id where a.id = $1 and v.version = $2"
);
/// Only from the version before, so that two updates of one version cannot both win.
pub(super) const MOVE_NEWEST_VERSION: &str = "update agents set newest_version = $2 \
     where id = $1 and newest_version = $2 - 1 and archived_at is null";
pub(super) const ARCHIVE_AGENT: &str = "update agents set archived_at = $2 where id = $1 and archived_at is null";
both_ways!(
    AGENTS_UP,
    AGENTS_DOWN,
    concat!(
        "select ",
        agent_columns!(),
        " from agents a join agent_versions v on v.agent_id = a.id and v.version = a.newest_version"
    ),
    "a.created_at",
    "a.id",
    " and ($6 = 1 or a.archived_at is null)"
);
pub(super) const AGENT_VERSIONS: &str = concat!(
    "select ",
    agent_columns!(),
    " from agents a join agent_versions v on v.agent_id = a.id where a.id = $1 and v.version < $2 \
     order by v.version desc limit $3"
);

pub(super) const INSERT_ENVIRONMENT: &str = concat!(
    "insert into environments (",
    environment_columns!(),
    ") values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict do nothing"
);
pub(super) const ENVIRONMENT: &str = concat!("select ", environment_columns!(), " from environments where id = $1");
pub(super) const ENVIRONMENT_BY_NAME: &str =
    concat!("select ", environment_columns!(), " from environments where name = $1 and archived_at is null");
pub(super) const UPDATE_ENVIRONMENT: &str = "update environments set name = $2, description = $3, config = $4, \
     metadata = $5, scope = $6, created_at = $7, updated_at = $8, archived_at = $9 where id = $1 and updated_at = $10";
pub(super) const DELETE_ENVIRONMENT: &str = "delete from environments where id = $1";
both_ways!(
    ENVIRONMENTS_UP,
    ENVIRONMENTS_DOWN,
    concat!("select ", environment_columns!(), " from environments"),
    "created_at",
    "id",
    " and ($6 = 1 or archived_at is null)"
);

pub(super) const INSERT_FILE: &str = concat!(
    "insert into files (",
    file_columns!(),
    ") values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) on conflict do nothing"
);
pub(super) const FILE: &str = concat!("select ", file_columns!(), " from files where id = $1");
pub(super) const UPDATE_FILE: &str = "update files set filename = $2, mime_type = $3, extension = $4, \
     size_bytes = $5, sha256 = $6, source = $7, source_status = $8, source_error = $9, bucket_key = $10, media = $11, \
     description_status = $12, description = $13, description_error = $14, description_attempts = $15, \
     metadata = $16, expires_at = $17, created_at = $18, updated_at = $19 where id = $1 and updated_at = $20";
pub(super) const DELETE_FILE: &str = "delete from files where id = $1";
both_ways!(FILES_UP, FILES_DOWN, concat!("select ", file_columns!(), " from files"), "created_at", "id", "");

pub(super) const INSERT_SESSION: &str = concat!(
    "insert into sessions (",
    session_columns!(),
    ") values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, \
     $23, $24, $25, $26, $27)"
);
pub(super) const SESSION: &str = concat!("select ", session_columns!(), " from sessions where id = $1");
/// What a change can change, and no more: the agent never changes, and `read_seq` has a statement of its own. `$18` is
/// the session's new time of change and `$19` the one that it had.
macro_rules! update_session {
    () => {
        "update sessions set state = $2, state_detail = $3, title = $4, metadata = $5, sandbox = $6, usage = $7, \
         active_micros = $8, run_began_at = $9, fence = $10, interrupted_fence = $11, last_seq = $12, \
         run_start_seq = $13, message_count = $14, pending_actions = $15, last_event_at = $16, archived_at = $17, \
         updated_at = $18 where id = $1 and updated_at = $19 returning id"
    };
}

/// `$20` is a JSON list of `[seq, id, at, type, body]`; `$source` gives its items as `value`.
macro_rules! insert_events {
    ($source:literal) => {
        concat!(
            "insert into events (session_id, seq, id, at, type, body) select $1, cast(value ->> 0 as bigint), \
             value ->> 1, cast(value ->> 2 as bigint), value ->> 3, value ->> 4 from ",
            $source
        )
    };
}

/// `$21` is the run, `$22` a JSON list of `[position, body]`; `$source` gives its items as `value`.
macro_rules! insert_messages {
    ($source:literal) => {
        concat!(
            "insert into messages (session_id, position, run_id, body) \
             select $1, cast(value ->> 0 as bigint), $21, value ->> 1 from ",
            $source
        )
    };
}

/// SQLite's script that writes a session. Each insert looks at whether the statement before it found anything, so that a
/// session which somebody else changed first gets nothing.
macro_rules! sqlite_write_session {
    ($($insert:expr),*) => {
        concat!("begin immediate; ", update_session!(), "; ", $($insert, "; ",)* "commit")
    };
}

pub(super) const SESSIONS_IN_STATE: &str =
    concat!("select ", session_columns!(), " from sessions where state = $1 order by created_at, id limit $2");
pub(super) const DELETE_SESSION: &str = "delete from sessions where id = $1";
pub(super) const MARK_READ: &str = "update sessions set read_seq = $2 where id = $1 and read_seq < $2";

pub(super) const EVENT: &str = concat!("select ", event_columns!(), " from events where session_id = $1 and id = $2");
pub(super) const EVENT_SEQ: &str = "select seq from events where session_id = $1 and id = $2";
pub(super) const MESSAGES: &str =
    "select position, run_id, body from messages where session_id = $1 and position >= $2 order by position";

pub(super) const INSERT_RESOURCE: &str =
    concat!("insert into resources (", resource_columns!(), ") values ($1, $2, $3, $4, $5, $6)");
pub(super) const RESOURCE: &str =
    concat!("select ", resource_columns!(), " from resources where session_id = $1 and id = $2");
pub(super) const DELETE_RESOURCE: &str = "delete from resources where session_id = $1 and id = $2";
both_ways!(
    RESOURCES_UP,
    RESOURCES_DOWN,
    concat!("select ", resource_columns!(), " from resources"),
    "created_at",
    "id",
    " and session_id = $6"
);

/// The statements that the two databases word differently.
#[derive(Debug)]
pub(super) struct Dialect {
    /// Writes a session that is as it was, gives a row if it was: with nothing, with events, with messages, with both.
    write_session: [&'static str; 4],
    pub(super) sessions_up: &'static str,
    pub(super) sessions_down: &'static str,
    pub(super) events_up: &'static str,
    pub(super) events_down: &'static str,
    pub(super) files_by_id: &'static str,
    pub(super) files_with_description: &'static str,
    /// `$1` a JSON list of sessions. Each row ends with a JSON list of `[id, file_id, mount_path, created_at, updated_at]`.
    pub(super) sessions_with_resources: &'static str,
    /// `$1` a JSON list of sessions.
    pub(super) resources_of: &'static str,
}

impl Dialect {
    /// The statement that writes a session with these parts.
    pub(super) fn write_session(&self, parts: SessionParts) -> &'static str {
        self.write_session[usize::from(parts.events) + 2 * usize::from(parts.messages)]
    }
}

/// `$texts` opens a JSON list of texts into rows with a text `value`; the parameter follows. `$resources` is the JSON list
/// of a session's resources in their order, null or empty when it has none.
macro_rules! dialect {
    ($name:ident, texts: ($texts:literal, $texts_end:literal), resources: $resources:literal, write_session: $write_session:expr) => {
        pub(super) const $name: Dialect = Dialect {
            write_session: $write_session,
    sessions_up: dialect!(@sessions $texts, $texts_end, ""),
    sessions_down: dialect!(@sessions $texts, $texts_end, " desc"),
    events_up: dialect!(@events $texts, $texts_end, ""),
    events_down: dialect!(@events $texts, $texts_end, " desc"),
            files_by_id: concat!(
                "select ",
                file_columns!(),
                " from files where id in (select value from ",
                $texts,
                "$1",
                $texts_end,
                ")"
            ),
            files_with_description: concat!(
                "select ",
                file_columns!(),
                " from files where description_status in (select value from ",
                $texts,
                "$1",
                $texts_end,
                ") and updated_at < $2 order by updated_at, id limit $3"
            ),
            sessions_with_resources: concat!(
                "select ",
                session_columns!(),
                ", ",
                $resources,
                " from sessions where id in (select value from ",
                $texts,
                "$1",
                $texts_end,
                ")"
            ),
            resources_of: concat!(
                "select ",
                resource_columns!(),
                " from resources where session_id in (select value from ",
                $texts,
                "$1",
                $texts_end,
                ") order by created_at, id"
            ),
        };
    };
    (@sessions $texts:literal, $texts_end:literal, $way:literal) => {
        concat!(
            "select ",
            session_columns!(),
            " from sessions where (created_at, id) > ($1, $2) \
             and (created_at, id) < ($3, $4) and ($6 = 1 or archived_at is null) \
             and ($7 is null or agent_id = $7) and ($8 is null or agent_version = $8) \
             and ($9 = '[]' or state in (select value from ",
            $texts,
            "$9",
            $texts_end,
            ")) \
             order by created_at",
            $way,
            ", id",
            $way,
            " limit $5"
        )
    };
    (@events $texts:literal, $texts_end:literal, $way:literal) => {
        concat!(
            "select ",
            event_columns!(),
            " from events where session_id = $1 and seq > $2 and seq < $3 \
             and at between $5 and $6 and ($7 = '[]' or type in (select value from ",
            $texts,
            "$7",
            $texts_end,
            ")) \
             order by seq",
            $way,
            " limit $4"
        )
    };
}

dialect!(SQLITE, texts: ("json_each(", ")"), resources: "(select json_group_array(json_array(id, file_id, mount_path, \
     created_at, updated_at)) from (select * from resources where session_id = sessions.id order by created_at, id))",
     write_session: [
    sqlite_write_session!(),
    sqlite_write_session!(insert_events!("json_each($20) where changes() = 1")),
    sqlite_write_session!(insert_messages!("json_each($22) where changes() = 1")),
    sqlite_write_session!(
        insert_events!("json_each($20) where changes() = 1"),
        insert_messages!("json_each($22) where changes() > 0")
    ),
]);

/// Postgres writes all of it in one statement, in which an insert of nothing is none.
const POSTGRES_WRITE_SESSION: &str = concat!(
    "with written as (",
    update_session!(),
    "), told as (",
    insert_events!("written, json_array_elements(cast($20 as json)) as item (value)"),
    "), said as (",
    insert_messages!("written, json_array_elements(cast($22 as json)) as item (value)"),
    ") select id from written"
);
dialect!(
    POSTGRES,
    texts: ("json_array_elements_text(cast(", " as json))"),
    resources: "(select cast(json_agg(json_build_array(id, file_id, mount_path, created_at, updated_at) \
                order by created_at, id) as text) from resources where session_id = sessions.id)",
    write_session: [POSTGRES_WRITE_SESSION; 4]
);
