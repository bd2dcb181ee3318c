//! `process.Process`: commands in a sandbox.
//!
//! proto3's JSON leaves out what is at its default, so an `end` without `exitCode` is exit code 0, and a message that holds none of its alternatives is one
//! of a newer server: it reads as `Unknown` and is to be skipped.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Token;
use super::json::{Base64, is_default, null_as_default};

/// Path of the unary call [`ListProcesses`] → [`ProcessList`].
pub const LIST: &str = "/process.Process/List";
/// Path of the stream [`StartProcess`] → [`EventMessage`]s.
pub const START: &str = "/process.Process/Start";
/// Path of the stream [`ConnectProcess`] → [`EventMessage`]s.
pub const CONNECT: &str = "/process.Process/Connect";
/// Path of the unary call [`UpdateProcess`] → [`Empty`].
pub const UPDATE: &str = "/process.Process/Update";
/// Path of the unary call [`SendInput`] → [`Empty`].
pub const SEND_INPUT: &str = "/process.Process/SendInput";
/// Path of the client's stream of [`StreamInput`]s → [`Empty`].
pub const STREAM_INPUT: &str = "/process.Process/StreamInput";
/// Path of the unary call [`SendSignal`] → [`Empty`].
pub const SEND_SIGNAL: &str = "/process.Process/SendSignal";
/// Path of the unary call [`CloseStdin`] → [`Empty`].
pub const CLOSE_STDIN: &str = "/process.Process/CloseStdin";

/// A message without fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// Asks for all processes.
pub type ListProcesses = Empty;

/// What runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessConfig {
    /// The program.
    #[serde(default, deserialize_with = "null_as_default")]
    pub cmd: String,
    /// Its arguments, without itself.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables on top of the sandbox's. They often hold keys, so they do not show in `Debug`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub envs: BTreeMap<String, Token>,
    /// Where it runs; absent means the template's folder, else the user's home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Columns and rows of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtySize {
    /// Columns.
    #[serde(default)]
    pub cols: u32,
    /// Rows.
    #[serde(default)]
    pub rows: u32,
}

/// A terminal for a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pty {
    /// Its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<PtySize>,
}

/// Starts a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartProcess {
    /// What to run.
    #[serde(default)]
    pub process: ProcessConfig,
    /// A terminal, if it shall have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<Pty>,
    /// A name by which it can be selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Whether it gets an open standard input; absent means yes, as clients of old expect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<bool>,
}

/// Which process is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "SelectorFields", into = "SelectorFields")]
pub enum Selector {
    /// By its number.
    Pid(u32),
    /// By the tag it was started with.
    Tag(String),
}

#[derive(Serialize, Deserialize)]
struct SelectorFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
}

impl TryFrom<SelectorFields> for Selector {
    type Error = &'static str;

    fn try_from(fields: SelectorFields) -> Result<Self, Self::Error> {
        match fields {
            SelectorFields { pid: Some(pid), tag: None } => Ok(Self::Pid(pid)),
            SelectorFields { pid: None, tag: Some(tag) } => Ok(Self::Tag(tag)),
            SelectorFields { pid: None, tag: None } => Err("a selector with neither `pid` nor `tag`"),
            SelectorFields { pid: Some(_), tag: Some(_) } => Err("a selector with both `pid` and `tag`"),
        }
    }
}

impl From<Selector> for SelectorFields {
    fn from(selector: Selector) -> Self {
        match selector {
            Selector::Pid(pid) => Self { pid: Some(pid), tag: None },
            Selector::Tag(tag) => Self { pid: None, tag: Some(tag) },
        }
    }
}

/// Joins a process that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectProcess {
    /// Which one.
    pub process: Selector,
}

/// Changes a terminal's size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateProcess {
    /// Which process.
    pub process: Selector,
    /// The terminal as it shall be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<Pty>,
}

/// Ends a process's standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseStdin {
    /// Which process.
    pub process: Selector,
}

/// Bytes for a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "InputFields", into = "InputFields")]
pub enum ProcessInput {
    /// For its standard input.
    Stdin(Bytes),
    /// For its terminal.
    Pty(Bytes),
}

#[derive(Serialize, Deserialize)]
struct InputFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdin: Option<Base64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pty: Option<Base64>,
}

impl TryFrom<InputFields> for ProcessInput {
    type Error = &'static str;

    fn try_from(fields: InputFields) -> Result<Self, Self::Error> {
        match fields {
            InputFields { stdin: Some(Base64(bytes)), pty: None } => Ok(Self::Stdin(bytes)),
            InputFields { stdin: None, pty: Some(Base64(bytes)) } => Ok(Self::Pty(bytes)),
            InputFields { stdin: None, pty: None } => Err("an input with neither `stdin` nor `pty`"),
            InputFields { stdin: Some(_), pty: Some(_) } => Err("an input with both `stdin` and `pty`"),
        }
    }
}

impl From<ProcessInput> for InputFields {
    fn from(input: ProcessInput) -> Self {
        match input {
            ProcessInput::Stdin(bytes) => Self { stdin: Some(Base64(bytes)), pty: None },
            ProcessInput::Pty(bytes) => Self { stdin: None, pty: Some(Base64(bytes)) },
        }
    }
}

/// Gives a process some input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendInput {
    /// Which process.
    pub process: Selector,
    /// The bytes.
    pub input: ProcessInput,
}

/// One message of a client's stream of input: the first is `Start`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StreamInputFields", into = "StreamInputFields")]
pub enum StreamInput {
    /// Says which process is meant.
    Start(ConnectProcess),
    /// Some bytes.
    Data(ProcessInput),
    /// Keeps the connection.
    Keepalive,
    /// Something newer than this crate.
    Unknown,
}

#[derive(Default, Serialize, Deserialize)]
struct StreamInputFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<ConnectProcess>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<StreamInputData>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keepalive: Option<Empty>,
}

#[derive(Serialize, Deserialize)]
struct StreamInputData {
    input: ProcessInput,
}

impl From<StreamInputFields> for StreamInput {
    fn from(fields: StreamInputFields) -> Self {
        match fields {
            StreamInputFields { start: Some(start), .. } => Self::Start(start),
            StreamInputFields { data: Some(data), .. } => Self::Data(data.input),
            StreamInputFields { keepalive: Some(Empty {}), .. } => Self::Keepalive,
            StreamInputFields { start: None, data: None, keepalive: None } => Self::Unknown,
        }
    }
}

impl From<StreamInput> for StreamInputFields {
    fn from(message: StreamInput) -> Self {
        match message {
            StreamInput::Start(start) => Self { start: Some(start), ..Self::default() },
            StreamInput::Data(input) => Self { data: Some(StreamInputData { input }), ..Self::default() },
            StreamInput::Keepalive => Self { keepalive: Some(Empty {}), ..Self::default() },
            StreamInput::Unknown => Self::default(),
        }
    }
}

/// A signal that a client may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Signal {
    /// Asks the process to end.
    #[serde(rename = "SIGNAL_SIGTERM")]
    Terminate,
    /// Ends it.
    #[serde(rename = "SIGNAL_SIGKILL")]
    Kill,
    /// Any other: a server answers `unimplemented`.
    #[default]
    #[serde(rename = "SIGNAL_UNSPECIFIED", other)]
    Unspecified,
}

/// Sends a signal to one process, not to its group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendSignal {
    /// Which process.
    pub process: Selector,
    /// Which signal.
    #[serde(default)]
    pub signal: Signal,
}

/// One process that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// What it runs.
    #[serde(default)]
    pub config: ProcessConfig,
    /// Its number.
    #[serde(default)]
    pub pid: u32,
    /// The tag it was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// All processes that were started by this service and run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessList {
    /// Them.
    #[serde(default, deserialize_with = "null_as_default")]
    pub processes: Vec<ProcessInfo>,
}

/// How a process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessEnd {
    /// Its exit code; -1 when a signal ended it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub exit_code: i32,
    /// Whether it ended by itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub exited: bool,
    /// `exit status N` or `signal: killed`.
    #[serde(default)]
    pub status: String,
    /// The same text unless it ended with 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a process's stream tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "EventFields", into = "EventFields")]
pub enum ProcessEvent {
    /// It runs. The first event of every stream.
    Start {
        /// Its number.
        pid: u32,
    },
    /// It wrote to its standard output.
    Stdout(Bytes),
    /// It wrote to its standard error.
    Stderr(Bytes),
    /// It wrote to its terminal.
    Pty(Bytes),
    /// It ended, after all it wrote.
    End(ProcessEnd),
    /// Nothing happened for a while.
    Keepalive,
    /// Something newer than this crate.
    Unknown,
}

#[derive(Default, Serialize, Deserialize)]
struct EventFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<StartFields>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<DataFields>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<ProcessEnd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keepalive: Option<Empty>,
}

#[derive(Serialize, Deserialize)]
struct StartFields {
    #[serde(default)]
    pid: u32,
}

#[derive(Default, Serialize, Deserialize)]
struct DataFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdout: Option<Base64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stderr: Option<Base64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pty: Option<Base64>,
}

impl From<EventFields> for ProcessEvent {
    fn from(fields: EventFields) -> Self {
        match fields {
            EventFields { start: Some(StartFields { pid }), .. } => Self::Start { pid },
            EventFields { end: Some(end), .. } => Self::End(end),
            EventFields { data: Some(DataFields { stdout: Some(Base64(bytes)), .. }), .. } => Self::Stdout(bytes),
            EventFields { data: Some(DataFields { stderr: Some(Base64(bytes)), .. }), .. } => Self::Stderr(bytes),
            EventFields { data: Some(DataFields { pty: Some(Base64(bytes)), .. }), .. } => Self::Pty(bytes),
            EventFields { keepalive: Some(Empty {}), .. } => Self::Keepalive,
            EventFields { start: None, data: _, end: None, keepalive: None } => Self::Unknown,
        }
    }
}

impl From<ProcessEvent> for EventFields {
    fn from(event: ProcessEvent) -> Self {
        let data = |data| Self { data: Some(data), ..Self::default() };
        match event {
            ProcessEvent::Start { pid } => Self { start: Some(StartFields { pid }), ..Self::default() },
            ProcessEvent::Stdout(bytes) => data(DataFields { stdout: Some(Base64(bytes)), ..DataFields::default() }),
            ProcessEvent::Stderr(bytes) => data(DataFields { stderr: Some(Base64(bytes)), ..DataFields::default() }),
            ProcessEvent::Pty(bytes) => data(DataFields { pty: Some(Base64(bytes)), ..DataFields::default() }),
            ProcessEvent::End(end) => Self { end: Some(end), ..Self::default() },
            ProcessEvent::Keepalive => Self { keepalive: Some(Empty {}), ..Self::default() },
            ProcessEvent::Unknown => Self::default(),
        }
    }
}

/// One message of the streams of `Start` and `Connect`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventMessage {
    /// What happened.
    pub event: ProcessEvent,
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{
        EventMessage, ProcessEnd, ProcessEvent, ProcessInput, Selector, SendInput, SendSignal, Signal, StartProcess,
        StreamInput,
    };

    #[test]
    fn events_are_written_and_read_as_proto3_does() {
        for (text, event) in [
            (r#"{"event":{"start":{"pid":7}}}"#, ProcessEvent::Start { pid: 7 }),
            (r#"{"event":{"data":{"stdout":"aGk="}}}"#, ProcessEvent::Stdout(Bytes::from_static(b"hi"))),
            (r#"{"event":{"data":{"stderr":"/+8="}}}"#, ProcessEvent::Stderr(Bytes::from_static(b"\xff\xef"))),
            (r#"{"event":{"data":{"pty":""}}}"#, ProcessEvent::Pty(Bytes::new())),
            (r#"{"event":{"keepalive":{}}}"#, ProcessEvent::Keepalive),
            (
                r#"{"event":{"end":{"exited":true,"status":"exit status 0"}}}"#,
                ProcessEvent::End(ProcessEnd {
                    exit_code: 0,
                    exited: true,
                    status: "exit status 0".into(),
                    error: None,
                }),
            ),
            (
                r#"{"event":{"end":{"exitCode":-1,"status":"signal: killed","error":"signal: killed"}}}"#,
                ProcessEvent::End(ProcessEnd {
                    exit_code: -1,
                    exited: false,
                    status: "signal: killed".into(),
                    error: Some("signal: killed".into()),
                }),
            ),
        ] {
            let message = EventMessage { event };
            assert_eq!(serde_json::to_string(&message).unwrap(), text);
            assert_eq!(serde_json::from_str::<EventMessage>(text).unwrap(), message);
        }
    }

    #[test]
    fn lenient_base64_and_novel_events_are_read() {
        for (text, event) in [
            (r#"{"data":{"stderr":"_-8"}}"#, ProcessEvent::Stderr(Bytes::from_static(b"\xff\xef"))),
            (r#"{"data":{}}"#, ProcessEvent::Unknown),
            (r#"{"stopped":{"pid":1}}"#, ProcessEvent::Unknown),
            (r#"{"start":{},"data":null}"#, ProcessEvent::Start { pid: 0 }),
        ] {
            assert_eq!(serde_json::from_str::<ProcessEvent>(text).unwrap(), event, "{text}");
        }
        assert!(serde_json::from_str::<ProcessEvent>(r#"{"data":{"stdout":"%%"}}"#).is_err());
    }

    #[test]
    fn a_selector_is_one_thing() {
        let request: SendSignal = serde_json::from_str(r#"{"process":{"pid":3},"signal":"SIGNAL_SIGKILL"}"#).unwrap();
        assert_eq!(request, SendSignal { process: Selector::Pid(3), signal: Signal::Kill });
        let other: SendSignal = serde_json::from_str(r#"{"process":{"tag":"t"},"signal":"SIGNAL_SIGHUP"}"#).unwrap();
        assert_eq!(other, SendSignal { process: Selector::Tag("t".into()), signal: Signal::Unspecified });
        assert!(serde_json::from_str::<Selector>("{}").is_err());
        assert!(serde_json::from_str::<Selector>(r#"{"pid":1,"tag":"t"}"#).is_err());
    }

    #[test]
    fn inputs_come_back() {
        let text = r#"{"process":{"pid":3},"input":{"stdin":"aGk="}}"#;
        let input: SendInput = serde_json::from_str(text).unwrap();
        assert_eq!(input.input, ProcessInput::Stdin(Bytes::from_static(b"hi")));
        assert_eq!(serde_json::to_string(&input).unwrap(), text);
        for text in
            [r#"{"start":{"process":{"pid":3}}}"#, r#"{"data":{"input":{"pty":"aGk="}}}"#, r#"{"keepalive":{}}"#]
        {
            let message: StreamInput = serde_json::from_str(text).unwrap();
            assert_ne!(message, StreamInput::Unknown);
            assert_eq!(serde_json::to_string(&message).unwrap(), text);
        }
    }

    #[test]
    fn a_start_may_leave_everything_out() {
        let start: StartProcess = serde_json::from_str(r#"{"process":{"cmd":"/bin/bash","cwd":null}}"#).unwrap();
        assert_eq!((start.process.cmd.as_str(), start.stdin), ("/bin/bash", None));
    }
}
