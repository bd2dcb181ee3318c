//! Commands that the host itself runs in a sandbox: start commands, and the steps of builds.

use std::collections::BTreeMap;
use std::time::Duration;

use ambient_e2b::protocol::connect::{Code, ConnectError, EndOfStream};
use ambient_e2b::protocol::process::{self, EventMessage, ProcessConfig, ProcessEnd, ProcessEvent, StartProcess};
use ambient_e2b::protocol::{Frame, FrameDecoder, FrameError, Token, header};
use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{Method, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::BodyExt as _;

use super::dial::{Answer, Dial, DialFailure};

/// Most bytes of one event: a chunk of output in base64, with room.
const EVENT_LIMIT: usize = 1 << 20;

/// A command line for a login shell.
#[derive(Debug)]
pub(crate) struct ShellCommand<'a> {
    pub(crate) line: &'a str,
    pub(crate) user: &'a str,
    pub(crate) variables: &'a BTreeMap<String, String>,
    pub(crate) folder: Option<&'a str>,
    pub(crate) tag: Option<&'a str>,
    pub(crate) limit: Option<Duration>,
}

/// Where a piece of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Stdout,
    Stderr,
}

/// Why there is no end of a command to tell.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunFailure {
    #[error(transparent)]
    Dial(#[from] DialFailure),
    #[error("{}: {}", .0.code.as_str(), .0.message)]
    Refused(ConnectError),
    #[error("the answer of the agent broke off")]
    BrokenOff(#[source] hyper::Error),
    #[error("the answer of the agent cannot be read")]
    Frame(#[source] FrameError),
    #[error("the answer of the agent cannot be read")]
    Message(#[source] serde_json::Error),
    #[error("the agent told no end of the command")]
    NoEnd,
}

impl RunFailure {
    /// Whether the command was ended at its limit.
    pub(crate) fn is_too_late(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code == Code::DeadlineExceeded)
    }
}

/// The events of one command.
struct Events {
    body: Answer,
    frames: FrameDecoder,
}

impl Events {
    async fn begin(dial: &Dial, command: &ShellCommand<'_>) -> Result<Self, RunFailure> {
        let variables = command.variables.iter().map(|(name, value)| (name.clone(), Token::new(value.clone())));
        let start = StartProcess {
            process: ProcessConfig {
                cmd: "/bin/bash".to_owned(),
                args: vec!["-l".to_owned(), "-c".to_owned(), command.line.to_owned()],
                envs: variables.collect(),
                cwd: command.folder.map(str::to_owned),
            },
            pty: None,
            tag: command.tag.map(str::to_owned),
            stdin: Some(false),
        };
        let body = Frame::message(&start).map_err(RunFailure::Message)?;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(process::START)
            .header(CONTENT_TYPE, header::STREAM_CONTENT_TYPE)
            .header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(format!("{}:", command.user))));
        if let Some(limit) = command.limit {
            request = request.header(header::CONNECT_TIMEOUT_MS, limit.as_millis().to_string());
        }
        let request = request.body(Body::from(body)).expect("these headers are plain");
        let answer = dial.send(request).await?;
        if !answer.status().is_success() {
            return Err(DialFailure::Refused(answer.status()).into());
        }
        Ok(Self { body: answer.into_body(), frames: FrameDecoder::new(EVENT_LIMIT) })
    }

    async fn next(&mut self) -> Result<Option<ProcessEvent>, RunFailure> {
        loop {
            match self.frames.next_frame().map_err(RunFailure::Frame)? {
                Some(Frame::Message(message)) => {
                    let message: EventMessage = serde_json::from_slice(&message).map_err(RunFailure::Message)?;
                    return Ok(Some(message.event));
                }
                Some(Frame::End(end)) => {
                    let end: EndOfStream = serde_json::from_slice(&end).map_err(RunFailure::Message)?;
                    return end.error.map_or(Ok(None), |error| Err(RunFailure::Refused(error)));
                }
                None => match self.body.frame().await {
                    Some(Ok(frame)) => {
                        if let Ok(bytes) = frame.into_data() {
                            self.frames.push(&bytes);
                        }
                    }
                    Some(Err(error)) => return Err(RunFailure::BrokenOff(error)),
                    None => return Err(RunFailure::NoEnd),
                },
            }
        }
    }
}

impl Dial {
    /// Runs a command to its end.
    pub(crate) async fn run(
        &self,
        command: ShellCommand<'_>,
        mut output: impl FnMut(Output, Bytes),
    ) -> Result<ProcessEnd, RunFailure> {
        let mut events = Events::begin(self, &command).await?;
        let mut end = None;
        while let Some(event) = events.next().await? {
            match event {
                ProcessEvent::Stdout(bytes) => output(Output::Stdout, bytes),
                ProcessEvent::Stderr(bytes) => output(Output::Stderr, bytes),
                ProcessEvent::End(ended) => end = Some(ended),
                ProcessEvent::Start { .. } | ProcessEvent::Pty(_) | ProcessEvent::Keepalive | ProcessEvent::Unknown => {
                }
            }
        }
        end.ok_or(RunFailure::NoEnd)
    }

    /// Starts a command and leaves it to itself.
    pub(crate) async fn leave_running(&self, command: ShellCommand<'_>) -> Result<(), RunFailure> {
        let mut events = Events::begin(self, &command).await?;
        events.next().await.map(drop)
    }
}
