//! The calls about processes that answer once.

use ambient_e2b::protocol::connect::{Code, ConnectError};
use ambient_e2b::protocol::process::{
    CloseStdin, Empty, ListProcesses, ProcessInfo, ProcessList, SendInput, SendSignal, Signal as WantedSignal,
    StreamInput, UpdateProcess,
};
use ambient_e2b::protocol::{Frame, FrameDecoder};
use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use futures::StreamExt as _;
use nix::sys::signal::Signal;

use super::attend::InputFailure;
use super::spawn::size;
use super::table::NotFound;
use crate::agent::rpc;
use crate::agent::state::Shared;
use crate::agent::users::User;

impl From<NotFound> for ConnectError {
    fn from(missing: NotFound) -> Self {
        Self::new(Code::NotFound, missing.to_string())
    }
}

impl From<InputFailure> for ConnectError {
    fn from(failure: InputFailure) -> Self {
        Self::new(Code::Internal, crate::agent::boot::with_causes(&failure))
    }
}

/// `List`.
pub(in crate::agent) async fn list(
    agent: Shared,
    _user: User,
    _request: ListProcesses,
) -> Result<ProcessList, ConnectError> {
    let processes = agent.processes.running();
    let processes = processes.iter().map(|process| ProcessInfo {
        config: process.config().clone(),
        pid: process.pid(),
        tag: process.tag().cloned(),
    });
    Ok(ProcessList { processes: processes.collect() })
}

/// `SendInput`.
pub(in crate::agent) async fn send_input(
    agent: Shared,
    _user: User,
    request: SendInput,
) -> Result<Empty, ConnectError> {
    agent.processes.find(&request.process)?.write(&request.input).await?;
    Ok(Empty {})
}

/// `CloseStdin`.
pub(in crate::agent) async fn close_stdin(
    agent: Shared,
    _user: User,
    request: CloseStdin,
) -> Result<Empty, ConnectError> {
    if agent.processes.find(&request.process)?.close_input().await {
        return Ok(Empty {});
    }
    let message = "error closing stdin: cannot close stdin for PTY process — send Ctrl+D (0x04) instead";
    Err(ConnectError::new(Code::Unknown, message))
}

/// `SendSignal`.
pub(in crate::agent) async fn send_signal(
    agent: Shared,
    _user: User,
    request: SendSignal,
) -> Result<Empty, ConnectError> {
    let process = agent.processes.find(&request.process)?;
    let signal = match request.signal {
        WantedSignal::Terminate => Signal::SIGTERM,
        WantedSignal::Kill => Signal::SIGKILL,
        WantedSignal::Unspecified => {
            return Err(ConnectError::new(Code::Unimplemented, "invalid signal: only SIGTERM and SIGKILL can be sent"));
        }
    };
    process
        .signal(signal)
        .map_err(|error| ConnectError::new(Code::Internal, format!("error sending signal: {error}")))?;
    Ok(Empty {})
}

/// `Update`.
pub(in crate::agent) async fn update(
    agent: Shared,
    _user: User,
    request: UpdateProcess,
) -> Result<Empty, ConnectError> {
    let process = agent.processes.find(&request.process)?;
    let Some(wanted) = request.pty.and_then(|pty| pty.size) else {
        return Ok(Empty {});
    };
    match process.resize(size(wanted)) {
        Some(Ok(())) => Ok(Empty {}),
        Some(Err(error)) => Err(ConnectError::new(Code::Internal, format!("error resizing tty: {error}"))),
        None => Err(ConnectError::new(Code::Internal, "error resizing tty: tty not assigned to process")),
    }
}

/// `StreamInput`: input as it comes, one answer at the end.
pub(in crate::agent) async fn stream_input(State(agent): State<Shared>, body: Body) -> Response<Body> {
    match feed(&agent, body).await {
        Ok(()) => rpc::one_message_stream(&Empty {}),
        Err(error) => rpc::failed_stream(&error),
    }
}

async fn feed(agent: &Shared, body: Body) -> Result<(), ConnectError> {
    let mut bytes = body.into_data_stream();
    let mut frames = FrameDecoder::new(rpc::MESSAGE_LIMIT);
    let mut process = None;
    while let Some(next) = bytes.next().await {
        let next = next.map_err(|error| ConnectError::new(Code::Canceled, error.to_string()))?;
        frames.push(&next);
        loop {
            match frames.next_frame() {
                Ok(Some(Frame::Message(message))) => match rpc::parse(&message)? {
                    StreamInput::Start(start) => process = Some(agent.processes.find(&start.process)?),
                    StreamInput::Data(input) => {
                        let process = process.as_ref().ok_or_else(|| {
                            ConnectError::new(Code::InvalidArgument, "input before the process was named")
                        })?;
                        process.write(&input).await?;
                    }
                    StreamInput::Keepalive | StreamInput::Unknown => {}
                },
                Ok(Some(Frame::End(_))) => return Ok(()),
                Ok(None) => break,
                Err(error) => return Err(ConnectError::new(Code::InvalidArgument, error.to_string())),
            }
        }
    }
    Ok(())
}
