//! What handlers work with.

use std::sync::Arc;

use ambient_settings::Settings;

use super::auth::KeyCheck;
use super::health::ReadyChecks;
use crate::broker::Broker;
use crate::clock::Clock;
use crate::ingest::upload::Uploads;
use crate::secrets::Secrets;
use crate::store::Store;

/// Everything a handler may need. Cheap to clone.
#[derive(Clone, Debug)]
pub struct App {
    /// As loaded at start.
    pub settings: Arc<Settings>,
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// Signals and jobs.
    pub broker: Arc<dyn Broker>,
    /// The time.
    pub clock: Clock,
    /// Takes in videos.
    pub uploads: Uploads,
    /// Seals agents' keys.
    pub secrets: Secrets,
    /// Who may use the API.
    pub key: KeyCheck,
    /// What `/readyz` asks.
    pub ready: ReadyChecks,
}
