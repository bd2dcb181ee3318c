//! The streams of `Start` and `Connect`.

use std::sync::Arc;
use std::time::Duration;

use ambient_e2b::protocol::connect::{Code, ConnectError};
use ambient_e2b::protocol::process::{ConnectProcess, EventMessage, ProcessEnd, ProcessEvent, StartProcess};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attend::{Happening, Process};
use super::ending::Ending;
use super::spawn::spawn;
use super::table::Found;
use crate::agent::rpc;
use crate::agent::state::Shared;

/// `Start`: the process outlives the stream, but not the time that the call gave it.
pub(in crate::agent) async fn start(State(agent): State<Shared>, headers: HeaderMap, body: Body) -> Response<Body> {
    let begun = async {
        let request: StartProcess = rpc::first_message(body).await?;
        let user = rpc::user(&headers, &agent)?;
        let limit = rpc::timeout(&headers);
        let with = Arc::clone(&agent);
        let started = agent.starters.run(move || spawn(&with, &user, request, limit)).await;
        started.unwrap_or_else(|| Err(ConnectError::new(Code::Internal, "the start broke off")))
    };
    match begun.await {
        Ok((process, happenings)) => {
            let out_of_time = process.out_of_time().clone();
            rpc::stream(Follow::new(&process, happenings, out_of_time, None, &headers))
        }
        Err(error) => rpc::failed_stream(&error),
    }
}

/// `Connect`: its own time limit ends the stream alone.
pub(in crate::agent) async fn connect(State(agent): State<Shared>, headers: HeaderMap, body: Body) -> Response<Body> {
    let found = async {
        let request: ConnectProcess = rpc::first_message(body).await?;
        agent
            .processes
            .find_also_ended(&request.process)
            .map_err(|missing| ConnectError::new(Code::NotFound, missing.to_string()))
    };
    match found.await {
        Ok(Found::Running(process)) => {
            let until = rpc::timeout(&headers).and_then(|limit| Instant::now().checked_add(limit));
            rpc::stream(Follow::new(&process, process.listen(), CancellationToken::new(), until, &headers))
        }
        Ok(Found::Ended(pid, ending)) => {
            let (sender, happenings) = mpsc::channel(1);
            let _has_room = sender.try_send(Happening::Ended(ending));
            rpc::stream(Follow {
                pid: Some(pid),
                happenings,
                out_of_time: CancellationToken::new(),
                until: None,
                keepalive: rpc::keepalive(&headers),
                process: None,
            })
        }
        Err(error) => rpc::failed_stream(&error),
    }
}

/// One client that follows one process.
struct Follow {
    /// Until the first event has been told.
    pid: Option<u32>,
    happenings: mpsc::Receiver<Happening>,
    out_of_time: CancellationToken,
    until: Option<Instant>,
    keepalive: Duration,
    /// Kept so that the process's pipes live as long as someone listens.
    process: Option<Arc<Process>>,
}

impl Follow {
    fn new(
        process: &Arc<Process>,
        happenings: mpsc::Receiver<Happening>,
        out_of_time: CancellationToken,
        until: Option<Instant>,
        headers: &HeaderMap,
    ) -> Self {
        Self {
            pid: Some(process.pid()),
            happenings,
            out_of_time,
            until,
            keepalive: rpc::keepalive(headers),
            process: Some(Arc::clone(process)),
        }
    }

    async fn event(&mut self) -> Result<Option<ProcessEvent>, ConnectError> {
        if let Some(pid) = self.pid.take() {
            return Ok(Some(ProcessEvent::Start { pid }));
        }
        let too_late = || ConnectError::new(Code::DeadlineExceeded, "context deadline exceeded");
        let at_deadline = async {
            match self.until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.out_of_time.cancelled() => Err(too_late()),
            happening = self.happenings.recv() => Ok(happening.map(event)),
            () = at_deadline => Err(too_late()),
            () = tokio::time::sleep(self.keepalive) => Ok(Some(ProcessEvent::Keepalive)),
        }
    }
}

impl rpc::Messages for Follow {
    async fn next(&mut self) -> Result<Option<Bytes>, ConnectError> {
        let Some(event) = self.event().await? else {
            self.process = None;
            return Ok(None);
        };
        rpc::message(&EventMessage { event }).map(Some)
    }
}

fn event(happening: Happening) -> ProcessEvent {
    match happening {
        Happening::Stdout(bytes) => ProcessEvent::Stdout(bytes),
        Happening::Stderr(bytes) => ProcessEvent::Stderr(bytes),
        Happening::Terminal(bytes) => ProcessEvent::Pty(bytes),
        Happening::Ended(ending) => {
            let status = ending.status();
            let failed = ending != Ending::Exited(0);
            ProcessEvent::End(ProcessEnd {
                exit_code: ending.exit_code(),
                exited: matches!(ending, Ending::Exited(_)),
                error: failed.then(|| status.clone()),
                status,
            })
        }
    }
}
