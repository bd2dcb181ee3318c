//! The broker of many engines: Redis 6.2 and newer.
//!
//! Two connections a process: one for commands, shared by all, which keeps the order of the calls; one that listens, from
//! which signals fan out to the readers of this process. Time is Redis' own, so that engines whose clocks differ agree on
//! when a lease or a delay is over.
//!
//! Keys: `<name>:owner` for each lease, `ambient:fence`, and the job stream with what `jobs` keeps beside it. Channels:
//! `session:<id>:events` and the stream's `<stream>:wake`.

mod jobs;
mod leases;
mod listener;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionAddr, ErrorKind, IntoConnectionInfo, RedisError, ServerErrorKind};
use tokio::sync::Notify;

use super::{Broker, BrokerError, BrokerOptions, Job, Lease, Signal, Signals, TakenJob, token};
use crate::ids::SessionId;
use jobs::Jobs;
use listener::Listener;

/// How long Redis may take to accept a connection or to answer a command. Beyond it a caller gets an error.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);

/// How long the system waits for the other side to acknowledge what was sent before it gives a connection up.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);

/// The first version with `XPENDING … IDLE`.
const OLDEST_VERSION: (u32, u32) = (6, 2);

/// See the module.
pub(super) struct RedisBroker {
    commands: ConnectionManager,
    listener: Listener,
    jobs: Jobs,
    /// Begins each lease's token, for who looks into Redis.
    engine: String,
}

impl fmt::Debug for RedisBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBroker").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// Connects, so that what is wrong with the address shows now, by its true name.
pub(super) async fn connect(url: &str, options: &BrokerOptions) -> Result<RedisBroker, BrokerError> {
    let info = url.into_connection_info().map_err(|error| BrokerError::Address {
        reason: format!("it does not parse ({error}): write `redis://:PASSWORD@HOST:PORT/0`, or `rediss://` for TLS"),
    })?;
    let place = match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => format!("`{host}:{port}`"),
        other => format!("`{other}`"),
    };
    let refused = |source: RedisError| refused(&place, source);
    let tcp = TcpSettings::default().set_nodelay(true).set_user_timeout(SILENCE_LIMIT);
    let client = Client::open(info.set_tcp_settings(tcp)).map_err(refused)?;
    let config = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(ANSWER_LIMIT))
        .set_response_timeout(Some(ANSWER_LIMIT))
        .set_number_of_retries(1);
    let mut commands = client.get_connection_manager_with_config(config).await.map_err(refused)?;
    check_version(&mut commands, &place).await?;

    // `WORKER_ID` may be the same for many processes: what tells them apart is made here.
    let engine = format!("{}-{}", options.engine_id, &token()[..8]);
    let woken = Arc::new(Notify::new());
    let jobs = Jobs::new(options, engine.clone(), Arc::clone(&woken));
    let listener = Listener::start(client, jobs.wake_channel(), woken);
    Ok(RedisBroker { commands, listener, jobs, engine })
}

/// Says which of the usual mistakes it is.
fn refused(place: &str, source: RedisError) -> BrokerError {
    let reason = if source.is_connection_refusal() {
        format!("nothing listens at {place}: is Redis running there?")
    } else if source.kind() == ErrorKind::AuthenticationFailed
        || matches!(source.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM"))
        || source.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
    {
        format!("Redis at {place} refused the login: check user and password in `REDIS_URL`")
    } else {
        format!("no connection to Redis at {place}")
    };
    BrokerError::Connect { reason, source }
}

/// A Redis that is too old is refused now instead of in the middle of a job. One that does not say (some hosts forbid
/// `INFO`) is taken.
async fn check_version(commands: &mut ConnectionManager, place: &str) -> Result<(), BrokerError> {
    let info: String = match redis::cmd("INFO").arg("server").query_async(commands).await {
        Ok(info) => info,
        Err(error) if error.is_io_error() || matches!(error.code(), Some("NOAUTH")) => {
            return Err(refused(place, error));
        }
        Err(_forbidden) => return Ok(()),
    };
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or_default();
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) < OLDEST_VERSION => Err(BrokerError::Address {
            reason: format!("Redis at {place} is version {version}, and the engine needs 6.2 or newer"),
        }),
        _ => Ok(()),
    }
}

#[async_trait]
impl Broker for RedisBroker {
    async fn ping(&self) -> Result<(), BrokerError> {
        let mut commands = self.commands.clone();
        redis::cmd("PING").query_async(&mut commands).await.map_err(BrokerError::Unavailable)
    }

    async fn acquire(&self, name: &str, ttl: Duration) -> Result<Option<Lease>, BrokerError> {
        let token = format!("{}:{}", self.engine, token());
        leases::acquire(&mut self.commands.clone(), name, token, ttl).await
    }

    async fn extend(&self, lease: &Lease, ttl: Duration) -> Result<bool, BrokerError> {
        leases::extend(&mut self.commands.clone(), lease, ttl).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), BrokerError> {
        leases::release(&mut self.commands.clone(), lease).await
    }

    async fn is_held(&self, name: &str) -> Result<bool, BrokerError> {
        leases::is_held(&mut self.commands.clone(), name).await
    }

    async fn publish(&self, session: &SessionId, signal: Signal) -> Result<(), BrokerError> {
        let text = serde_json::to_string(&signal).expect("a signal is always JSON");
        let mut commands = self.commands.clone();
        redis::cmd("PUBLISH")
            .arg(listener::channel_of(session))
            .arg(text)
            .query_async(&mut commands)
            .await
            .map_err(BrokerError::Unavailable)
    }

    async fn subscribe(&self, session: &SessionId) -> Result<Signals, BrokerError> {
        self.listener.listen(session).await
    }

    async fn enqueue(&self, job: &Job, delay: Duration) -> Result<(), BrokerError> {
        self.jobs.enqueue(&mut self.commands.clone(), job, delay).await
    }

    async fn take(&self, patience: Duration, lease: Duration) -> Result<Option<TakenJob>, BrokerError> {
        self.jobs.take(&mut self.commands.clone(), patience, lease).await
    }

    async fn keep(&self, job: &TakenJob) -> Result<bool, BrokerError> {
        self.jobs.keep(&mut self.commands.clone(), job).await
    }

    async fn finish(&self, job: &TakenJob) -> Result<(), BrokerError> {
        self.jobs.finish(&mut self.commands.clone(), job).await
    }
}
