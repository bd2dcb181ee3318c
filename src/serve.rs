//! `ambientctl serve`: settings, logs, runtime, listener, engine; then signals.

use std::io;
use std::net::SocketAddr;

use ambient_ctl::environment::Environment;
use ambient_ctl::output::{Exit, Failure, Printer};
use ambient_engine::store::StoreError;
use ambient_engine::{Engine, StartError};
use ambient_settings::Settings;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::ServeArgs;

/// Runs the engine until a signal, and gives how that ended.
///
/// # Errors
/// When the settings have faults, the address cannot be had, or the engine does not start.
pub(crate) fn run(args: &ServeArgs, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let mut overrides = Vec::new();
    if let Some(host) = &args.host {
        overrides.push(("SERVER_HOST", host.clone()));
    }
    if let Some(port) = args.port {
        overrides.push(("SERVER_PORT", port.to_string()));
    }
    let mut settings = environment.settings(&overrides, &printer)?;
    settings.store.migrate = !args.no_migrate;
    crate::logs::start(&settings.logs)?;

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(settings.server.worker_threads.get())
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Internal, error))?;
    let ended = runtime.block_on(serve(settings, printer));
    // What the engine did not end by itself is not waited for: a blocking read may never come back.
    runtime.shutdown_background();
    ended
}

async fn serve(settings: Settings, printer: Printer) -> Result<Exit, Failure> {
    // Before the engine starts, so that a signal during the start is not lost.
    let mut signals = Signals::new().map_err(|error| Failure::new(Exit::Internal, error))?;
    let listener = bind(&settings).await?;
    let engine = ambient_engine::start(settings, listener).await.map_err(start_failure)?;
    printer.data(&format!("ambient listening on http://{}", engine.address()));

    tokio::select! {
        name = signals.next() => tracing::info!(signal = name, "stopping; a second signal ends at once"),
        () = engine.stopped() => {
            let stopped = Failure::new(Exit::Internal, StoppedByItself);
            stop(&engine, &mut signals).await;
            return Err(stopped.hint("the log says which part ended; please report it"));
        }
    }
    Ok(stop(&engine, &mut signals).await)
}

/// A clean stop, cut short by one more signal.
async fn stop(engine: &Engine, signals: &mut Signals) -> Exit {
    tokio::select! {
        all_ended = engine.shut_down() => {
            tracing::info!(all_ended, "stopped");
            Exit::Ok
        }
        name = signals.next() => {
            tracing::warn!(signal = name, "ended before the stop was done");
            Exit::Interrupted
        }
    }
}

async fn bind(settings: &Settings) -> Result<TcpListener, Failure> {
    let host = settings.server.host.trim_start_matches('[').trim_end_matches(']');
    let port = settings.server.port;
    TcpListener::bind((host, port)).await.map_err(|source| {
        let hint = match source.kind() {
            io::ErrorKind::AddrInUse => {
                "another program listens there; take another port with `--port` or `SERVER_PORT` (0 takes a free one)"
            }
            io::ErrorKind::PermissionDenied => {
                "ports below 1024 need root; take another with `--port` or `SERVER_PORT`"
            }
            _ => "set `--host` or `SERVER_HOST` to an address of this machine",
        };
        Failure::new(Exit::Usage, CannotListen { address: address_text(host, port), source }).hint(hint)
    })
}

/// What to do about a start that failed, where more can be said than the error's own words.
fn start_failure(error: StartError) -> Failure {
    match error {
        StartError::Store(StoreError::Pending { .. }) | StartError::Sandboxes(_) | StartError::Catalogue(_) => {
            Failure::new(Exit::Usage, error)
        }
        StartError::Store(_) => Failure::new(Exit::Unreachable, error)
            .hint("`DATABASE_URL` names the database; unset, it is a SQLite file in `AMBIENT_HOME`"),
        StartError::Broker(_) => Failure::new(Exit::Unreachable, error)
            .hint("`REDIS_URL` names the Redis; unset, one engine works without any"),
        StartError::Folder { .. } => {
            Failure::new(Exit::Usage, error).hint("`AMBIENT_HOME` and `VIDEO_FOLDER` say where folders are made")
        }
        StartError::Listener(_) | StartError::Client(_) | StartError::Secrets(_) | StartError::Bucket(_) => {
            Failure::new(Exit::Internal, error)
        }
    }
}

fn address_text(host: &str, port: u16) -> String {
    host.parse().map_or_else(|_name| format!("{host}:{port}"), |ip| SocketAddr::new(ip, port).to_string())
}

/// SIGTERM and SIGINT.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The name of the next one. Nothing is lost when this is dropped before it came.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on `{address}`")]
struct CannotListen {
    address: String,
    #[source]
    source: io::Error,
}

#[derive(Debug, thiserror::Error)]
#[error("the engine stopped by itself")]
struct StoppedByItself;
