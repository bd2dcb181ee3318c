//! `ambientctl mcp`: a server of the Model Context Protocol on stdin and stdout, so that other agents can ask about videos.
//!
//! It offers one tool, `analyze_video`. What happens in the engine becomes progress notifications; a call that is
//! cancelled interrupts its run, and so does the end of the connection. stdout carries the protocol and nothing else.

mod args;
mod call;
mod server;
mod stdio;
mod tool;

use std::time::Duration;

use rmcp::ServiceExt as _;

pub use args::McpArgs;

use crate::engine_client::EngineClient;
use crate::output::{Exit, Failure};
use crate::signals::Signals;

/// How long runs may take to end once the connection is gone.
const LAST_RUNS: Duration = Duration::from_secs(15);

/// Serves until the client closes stdin, or a signal comes. Runs that go on then are interrupted.
///
/// # Errors
/// When the client does not speak the protocol.
pub async fn serve(engine: &EngineClient, args: &McpArgs, signals: &mut Signals) -> Result<Exit, Failure> {
    let (server, runs) = server::Server::new(engine.clone(), args.answer.clone());
    let (reader, writer, written) = stdio::streams();
    let beginning = server.serve((reader, writer));
    let service = tokio::select! {
        begun = beginning => begun,
        _name = signals.next() => return Ok(Exit::Ok),
    };
    let service = match service {
        Ok(service) => service,
        // Whoever closes stdin before the first word wanted nothing.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(Exit::Ok),
        Err(error) => {
            return Err(Failure::new(Exit::Usage, NoHandshake { source: Box::new(error) })
                .hint("`ambientctl mcp` is for programs that speak MCP: name it in their configuration"));
        }
    };
    let ending = service.cancellation_token();
    let over = service.waiting();
    tokio::pin!(over);
    let is_over = tokio::select! {
        _ended = &mut over => true,
        _name = signals.next() => false,
    };
    runs.stop();
    if tokio::time::timeout(LAST_RUNS, runs.ended()).await.is_err() {
        tracing::warn!("a run did not end in time");
    }
    if !is_over {
        ending.cancel();
        let _whatever_it_says = over.await;
    }
    written.wait().await;
    Ok(Exit::Ok)
}

#[derive(Debug, thiserror::Error)]
#[error("what came on stdin is no Model Context Protocol")]
struct NoHandshake {
    #[source]
    source: Box<rmcp::service::ServerInitializeError>,
}
