//! `ambientctl serve`: settings, logs, runtime, listener, engine; then signals.

use std::io;
use std::net::SocketAddr;

use ambient_ctl::environment::Environment;
use ambient_ctl::output::{Exit, Failure, Printer};
use ambient_ctl::signals::Signals;
use ambient_engine::Engine;
use ambient_settings::Settings;
use tokio::net::TcpListener;

use crate::cli::ServeArgs;
use crate::start;

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

    let threads = settings.server.worker_threads;
    start::on_threads(threads, serve(settings, printer))
}

async fn serve(settings: Settings, printer: Printer) -> Result<Exit, Failure> {
    // Before the engine starts, so that a signal during the start is not lost.
    let mut signals = Signals::new().map_err(|error| Failure::new(Exit::Internal, error))?;
    let listener = bind(&settings).await?;
    let engine = start::engine(settings, listener).await?;
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

fn address_text(host: &str, port: u16) -> String {
    host.parse().map_or_else(|_name| format!("{host}:{port}"), |ip| SocketAddr::new(ip, port).to_string())
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
