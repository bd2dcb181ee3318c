//! The agent's routes: envd's, without its checks of rights, which are the host's.

use std::os::unix::net::UnixListener;

use ambient_e2b::protocol::{filesystem as fs_calls, header, process as process_calls};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{any, get, post};
use tokio_util::task::AbortOnDropHandle;

use super::failure::{Attempting as _, StartFailure};
use super::state::{Agent, Shared};
use super::{AgentSpec, files, filesystem, ports, process, rpc, upload, watch};

/// Serves until the handle is dropped.
pub(super) fn start(listener: UnixListener, spec: AgentSpec) -> Result<AbortOnDropHandle<()>, StartFailure> {
    listener.set_nonblocking(true).attempting("serve the host's socket")?;
    let listener = tokio::net::UnixListener::from_std(listener).attempting("serve the host's socket")?;
    let agent = Agent::new(spec).attempting("watch for the ends of processes")?;
    let routes = routes(std::sync::Arc::clone(&agent));
    let served = agent.tasks.spawn(async move {
        let ended = axum::serve(listener, routes).await;
        tracing::error!(?ended, "the agent serves no more");
    });
    Ok(AbortOnDropHandle::new(served))
}

/// A route of a unary call.
macro_rules! call {
    ($work:path) => {
        post(|State(agent): State<Shared>, headers: HeaderMap, body: Body| rpc::unary(agent, headers, body, $work))
    };
}

fn routes(agent: Shared) -> Router {
    let streams = Router::new()
        .route(process_calls::START, post(process::start))
        .route(process_calls::CONNECT, post(process::connect))
        .route(process_calls::STREAM_INPUT, post(process::stream_input))
        .route(fs_calls::WATCH_DIR, post(watch::watch_dir))
        .route_layer(from_fn(|request, next| rpc::only(header::STREAM_CONTENT_TYPE, request, next)));
    let calls = Router::new()
        .route(process_calls::LIST, call!(process::list))
        .route(process_calls::UPDATE, call!(process::update))
        .route(process_calls::SEND_INPUT, call!(process::send_input))
        .route(process_calls::SEND_SIGNAL, call!(process::send_signal))
        .route(process_calls::CLOSE_STDIN, call!(process::close_stdin))
        .route(fs_calls::STAT, call!(filesystem::stat))
        .route(fs_calls::LIST_DIR, call!(filesystem::list_dir))
        .route(fs_calls::MAKE_DIR, call!(filesystem::make_dir))
        .route(fs_calls::MOVE, call!(filesystem::move_entry))
        .route(fs_calls::REMOVE, call!(filesystem::remove))
        .route(fs_calls::CREATE_WATCHER, call!(watch::create_watcher))
        .route(fs_calls::GET_WATCHER_EVENTS, call!(watch::watcher_events))
        .route(fs_calls::REMOVE_WATCHER, call!(watch::remove_watcher))
        .route_layer(from_fn(|request, next| rpc::only(header::UNARY_CONTENT_TYPE, request, next)));
    Router::new()
        .route("/health", get(|| async { StatusCode::NO_CONTENT }))
        .route("/envs", get(variables))
        .route("/files", get(files::download).post(upload::upload))
        .route("/files/compose", post(upload::compose))
        .route("/ports/{port}", any(port))
        .merge(streams)
        .merge(calls)
        .layer(from_fn_with_state(crate::READ_ON, ambient_http::read_unread))
        .with_state(agent)
}

async fn variables(State(agent): State<Shared>) -> Response<Body> {
    rpc::json(StatusCode::OK, &agent.variables)
}

async fn port(State(agent): State<Shared>, Path(port): Path<u16>, request: Request) -> Response<Body> {
    ports::carry(port, request, &agent.tasks).await
}
