//! The writers of a session: store first, then everybody who listens.
//!
//! Readers go by the event numbers, so a signal that overtakes another one, or gets lost, costs them a look into the
//! store and nothing else.

use std::sync::Arc;

use crate::broker::{Broker, Preview, Signal};
use crate::clock::Clock;
use crate::events::body::EventBody;
use crate::ids::{EventId, RunId, SessionId};
use crate::sessions::change::{ChangeOutcome, Changed, Guard, SessionChange};
use crate::store::records::{MessageBody, UsageTotals};
use crate::store::{Store, StoreError};

/// Changes sessions and tells their readers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SessionWriter {
    store: Arc<dyn Store>,
    broker: Arc<dyn Broker>,
    clock: Clock,
}

impl SessionWriter {
    /// A writer to this store and broker.
    pub fn new(store: Arc<dyn Store>, broker: Arc<dyn Broker>, clock: Clock) -> Self {
        Self { store, broker, clock }
    }

    /// Makes a change, then publishes its events. A broker that fails is logged only: readers find the events in the
    /// store.
    ///
    /// # Errors
    /// When the store fails; then nothing was written.
    pub async fn change(&self, id: &SessionId, change: SessionChange) -> Result<ChangeOutcome, StoreError> {
        let interrupts = change.interrupt;
        let outcome = self.store(id, change).await?;
        if let ChangeOutcome::Done(changed) = &outcome {
            self.publish(changed).await;
            if interrupts {
                self.tell(id, Signal::Interrupt { fence: changed.session.interrupted_fence }).await;
            }
        }
        Ok(outcome)
    }

    async fn store(&self, id: &SessionId, change: SessionChange) -> Result<ChangeOutcome, StoreError> {
        self.store.change_session(id, change, self.clock.now()).await
    }

    /// Publishes the events of a change that is stored.
    async fn publish(&self, changed: &Changed) {
        if !changed.events.is_empty() {
            self.tell(&changed.session.id, Signal::Events(changed.events.clone())).await;
        }
    }

    /// Publishes a signal about a session.
    pub async fn tell(&self, id: &SessionId, signal: Signal) {
        if let Err(error) = self.broker.publish(id, signal).await {
            tracing::warn!(session.id = %id, error = %crate::store::chain(&error), "a signal was not published");
        }
    }
}

/// Why a run cannot write any more. It ends at once, without a word of its own: whoever has the session now speaks.
#[derive(Debug, thiserror::Error)]
pub enum RunWriteError {
    /// Another run or engine has the session.
    #[error("the run lost its session")]
    Lost,
    /// The store failed.
    #[error("the run could not be stored")]
    Store(#[from] StoreError),
}

/// The writer of one run. Every write carries the run's fence, so that a run that lost its lease without noticing
/// changes nothing.
#[derive(Clone, Debug)]
pub struct RunWriter {
    writer: SessionWriter,
    session: SessionId,
    run: RunId,
    fence: u64,
}

impl RunWriter {
    /// A writer for the run with this fence.
    pub fn new(writer: SessionWriter, session: SessionId, run: RunId, fence: u64) -> Self {
        Self { writer, session, run, fence }
    }

    /// Which session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Which run.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// A change that only this run may make, still empty.
    pub fn begin(&self) -> SessionChange {
        let mut change = SessionChange::new(Guard::Run { run: self.run.clone(), fence: self.fence });
        change.run = Some(self.run.clone());
        change
    }

    /// Makes a change that [`Self::begin`] began.
    ///
    /// # Errors
    /// [`RunWriteError::Lost`] when the session is no longer this run's.
    pub async fn commit(&self, change: SessionChange) -> Result<Changed, RunWriteError> {
        let changed = self.store(change).await?;
        self.publish(&changed).await;
        Ok(changed)
    }

    /// Makes a change whose events [`Self::publish`] shows to readers later.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub(super) async fn store(&self, change: SessionChange) -> Result<Changed, RunWriteError> {
        match self.writer.store(&self.session, change).await? {
            ChangeOutcome::Done(changed) => Ok(*changed),
            ChangeOutcome::Refused(_) | ChangeOutcome::Gone => Err(RunWriteError::Lost),
        }
    }

    /// Publishes the events of a change that is stored.
    pub(super) async fn publish(&self, changed: &Changed) {
        self.writer.publish(changed).await;
    }

    /// Appends one event.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn event(&self, body: EventBody) -> Result<EventId, RunWriteError> {
        let mut change = self.begin();
        let id = change.event(body);
        self.commit(change).await?;
        Ok(id)
    }

    /// Appends messages and usage without an event.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn messages(
        &self,
        messages: Vec<MessageBody>,
        usage: Option<UsageTotals>,
    ) -> Result<Changed, RunWriteError> {
        let mut change = self.begin();
        change.messages = messages;
        change.usage = usage;
        self.commit(change).await
    }

    /// Shows readers that asked for it a piece of an event to come.
    pub async fn preview(&self, preview: Preview) {
        self.writer.tell(&self.session, Signal::Preview(preview)).await;
    }
}
