//! A stand-in for E2B: a control plane that makes sandboxes out of nothing, and an agent that runs their commands on this host. It
//! remembers what it was asked, can be told to fail, and looks for `/app/…` in a folder of the test.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ambient_e2b::protocol::connect::EndOfStream;
use ambient_e2b::protocol::process::{
    EventMessage, ProcessEnd, ProcessEvent, Selector, SendSignal, Signal, StartProcess,
};
use ambient_e2b::protocol::{CreateSandbox, Frame, FrameDecoder, ListedSandbox, SandboxState, SetTimeout};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

/// How many sandboxes a page of the list holds, so that lists have several.
const PAGE: usize = 2;

/// A sandbox as the server sees it.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) id: String,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) started_at: Timestamp,
    pub(crate) is_alive: bool,
    /// How often its end was moved.
    pub(crate) renewals: usize,
}

#[derive(Debug)]
pub(crate) struct Shared {
    made: Mutex<Vec<Made>>,
    /// The body with which creates are refused, and its status.
    refusals: Mutex<Vec<(u16, Value)>>,
    /// A create takes one.
    creates: Semaphore,
    app: tempfile::TempDir,
}

/// The server. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct E2bServer {
    pub(crate) url: String,
    state: Arc<Shared>,
    _server: JoinSet<()>,
}

impl E2bServer {
    pub(crate) async fn start() -> std::io::Result<Self> {
        let state = Arc::new(Shared {
            made: Mutex::default(),
            refusals: Mutex::default(),
            creates: Semaphore::new(1000),
            app: tempfile::tempdir()?,
        });
        let router = Router::new()
            .route("/v2/sandboxes", post(create).get(list))
            .route("/v2/sandboxes/{id}/connect", post(connect))
            .route("/sandboxes/{id}", delete(kill).get(info))
            .route("/sandboxes/{id}/timeout", post(set_timeout))
            .route("/health", get(|| async { StatusCode::NO_CONTENT }))
            .route("/process.Process/Start", post(start))
            .route("/process.Process/SendSignal", post(signal))
            .with_state(Arc::clone(&state));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let _never_ends = axum::serve(listener, router).await;
        });
        Ok(Self { url, state, _server: server })
    }

    /// All sandboxes that were ever made.
    pub(crate) fn made(&self) -> Vec<Made> {
        self.state.made().clone()
    }

    pub(crate) fn living(&self) -> Vec<String> {
        self.made().into_iter().filter(|made| made.is_alive).map(|made| made.id).collect()
    }

    /// Adds one that nobody asked for now.
    pub(crate) fn add(&self, made: Made) {
        self.state.made().push(made);
    }

    /// Ends one without a word to anybody.
    pub(crate) fn lose(&self, id: &str) {
        if let Some(made) = self.state.made().iter_mut().find(|made| made.id == id) {
            made.is_alive = false;
        }
    }

    /// Refuses so many creates from now on.
    pub(crate) fn refuse(&self, times: usize, status: u16, body: &Value) {
        *self.state.refusals.lock().expect("nothing panics here") = vec![(status, body.clone()); times];
    }

    /// Refusals that no create has had yet.
    pub(crate) fn refusals(&self) -> usize {
        self.state.refusals.lock().expect("nothing panics here").len()
    }

    /// Lets no create through until [`Self::let_in`].
    pub(crate) fn hold(&self) {
        self.state.creates.forget_permits(usize::MAX);
    }

    pub(crate) fn let_in(&self) {
        self.state.creates.add_permits(1000);
    }

    /// The folder that stands for `/app`.
    pub(crate) fn app(&self) -> &std::path::Path {
        self.state.app.path()
    }
}

impl Shared {
    fn made(&self) -> MutexGuard<'_, Vec<Made>> {
        self.made.lock().expect("nothing panics while it holds the lock")
    }

    fn with<T>(&self, id: &str, change: impl FnOnce(&mut Made) -> T) -> Result<T, Box<Response>> {
        let mut made = self.made();
        let found = made.iter_mut().find(|made| made.id == id && made.is_alive);
        found.map(change).ok_or_else(|| {
            let body = json!({"code": 404, "message": format!("sandbox {id} not found")});
            Box::new((StatusCode::NOT_FOUND, axum::Json(body)).into_response())
        })
    }
}

fn instance(made: &Made) -> Value {
    json!({"templateID": "tpl", "sandboxID": made.id, "clientID": "c", "envdVersion": "0.6.13", "envdAccessToken": "t"})
}

fn listed(made: &Made) -> ListedSandbox {
    let fields = json!({
        "templateID": "tpl", "sandboxID": made.id, "clientID": "c", "startedAt": made.started_at, "endAt": made.started_at,
        "envdVersion": "0.6.13", "cpuCount": 1, "memoryMB": 1, "state": SandboxState::Running, "metadata": made.metadata,
    });
    serde_json::from_value(fields).expect("these are its fields")
}

async fn create(State(state): State<Arc<Shared>>, axum::Json(wish): axum::Json<CreateSandbox>) -> Response {
    state.creates.acquire().await.expect("it is never closed").forget();
    if let Some((status, body)) = state.refusals.lock().expect("nothing panics here").pop() {
        return (StatusCode::from_u16(status).expect("a status"), axum::Json(body)).into_response();
    }
    let made = Made {
        id: format!("i{:020x}", rand::random::<u64>()),
        metadata: wish.metadata,
        environment: wish.env_vars.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect(),
        timeout_seconds: wish.timeout,
        started_at: Timestamp::UNIX_EPOCH,
        is_alive: true,
        renewals: 0,
    };
    let answer = instance(&made);
    state.made().push(made);
    (StatusCode::CREATED, axum::Json(answer)).into_response()
}

async fn list(State(state): State<Arc<Shared>>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let wanted = query.get("metadata").map(|text| ambient_e2b::protocol::decode_metadata(text).unwrap_or_default());
    let from: usize = query.get("nextToken").and_then(|token| token.parse().ok()).unwrap_or(0);
    let all: Vec<ListedSandbox> = state
        .made()
        .iter()
        .filter(|made| made.is_alive)
        .filter(|made| wanted.iter().flatten().all(|(key, value)| made.metadata.get(key) == Some(value)))
        .map(listed)
        .collect();
    let page: Vec<_> = all.iter().skip(from).take(PAGE).collect();
    let mut headers = HeaderMap::new();
    if from + PAGE < all.len() {
        headers.insert("x-next-token", (from + PAGE).to_string().parse().expect("a number"));
    }
    (headers, axum::Json(page)).into_response()
}

async fn connect(State(state): State<Arc<Shared>>, Path(id): Path<String>) -> Response {
    match state.with(&id, |made| instance(made)) {
        Ok(answer) => axum::Json(answer).into_response(),
        Err(missing) => *missing,
    }
}

async fn info(State(state): State<Arc<Shared>>, Path(id): Path<String>) -> Response {
    match state.with(&id, |made| listed(made)) {
        Ok(answer) => axum::Json(answer).into_response(),
        Err(missing) => *missing,
    }
}

async fn kill(State(state): State<Arc<Shared>>, Path(id): Path<String>) -> Response {
    match state.with(&id, |made| made.is_alive = false) {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(missing) => *missing,
    }
}

async fn set_timeout(
    State(state): State<Arc<Shared>>,
    Path(id): Path<String>,
    axum::Json(wish): axum::Json<SetTimeout>,
) -> Response {
    let renew = |made: &mut Made| {
        made.renewals += 1;
        made.timeout_seconds = u64::try_from(wish.timeout).ok();
    };
    match state.with(&id, renew) {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(missing) => *missing,
    }
}

async fn start(State(state): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let id = headers.get("e2b-sandbox-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let Ok(made) = state.with(&id, |made| made.clone()) else {
        let body = json!({"sandboxId": id, "message": "The sandbox was not found", "code": 502});
        return (StatusCode::BAD_GATEWAY, axum::Json(body)).into_response();
    };
    let mut decoder = FrameDecoder::new(1 << 20);
    decoder.push(&body);
    let Ok(Some(Frame::Message(message))) = decoder.next_frame() else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let wish: StartProcess = serde_json::from_slice(&message).expect("a start");
    let (frames, stream) = mpsc::channel(16);
    let app = format!("{}/", state.app.path().display());
    #[expect(clippy::disallowed_methods, reason = "the stand-in for the agent of a sandbox lives with its connection")]
    tokio::spawn(run(wish, made, app, frames));
    let frames = tokio_stream::wrappers::ReceiverStream::new(stream);
    let body = Body::from_stream(futures::StreamExt::map(frames, Ok::<Bytes, std::convert::Infallible>));
    ([("content-type", "application/connect+json")], body).into_response()
}

async fn run(wish: StartProcess, made: Made, app: String, frames: mpsc::Sender<Bytes>) {
    let tell = |event: ProcessEvent| Frame::message(&EventMessage { event }).expect("an event is JSON");
    #[expect(clippy::disallowed_methods, reason = "the stand-in for the agent of a sandbox runs commands")]
    let mut command = tokio::process::Command::new(&wish.process.cmd);
    command
        .args(wish.process.args.iter().map(|argument| argument.replace("/app/", &app)))
        .env_clear()
        .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/tmp"), ("USER", "user")])
        .envs(&made.environment)
        .envs(wish.process.envs.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())))
        .current_dir("/tmp")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("bash is there");
    let pid = child.id().expect("it was just started");
    let _gone = frames.send(tell(ProcessEvent::Start { pid })).await;
    let (mut stdout, mut stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let (mut out, mut err) = (vec![0; 1021], vec![0; 1021]);
    let (mut has_out, mut has_err) = (true, true);
    // As the agent does: the end comes when both streams are closed, and not before.
    while has_out || has_err {
        let event = tokio::select! {
            count = stdout.read(&mut out), if has_out => match count {
                Ok(0) | Err(_) => { has_out = false; continue }
                Ok(count) => ProcessEvent::Stdout(Bytes::copy_from_slice(&out[..count])),
            },
            count = stderr.read(&mut err), if has_err => match count {
                Ok(0) | Err(_) => { has_err = false; continue }
                Ok(count) => ProcessEvent::Stderr(Bytes::copy_from_slice(&err[..count])),
            },
        };
        let _gone = frames.send(tell(event)).await;
    }
    let status = child.wait().await.expect("it was started");
    let end = ProcessEnd {
        exit_code: status.code().unwrap_or(-1),
        exited: status.code().is_some(),
        status: "ended".to_owned(),
        error: None,
    };
    let _gone = frames.send(tell(ProcessEvent::End(end))).await;
    let _gone = frames.send(Frame::end(&EndOfStream::default()).expect("it is JSON")).await;
}

async fn signal(axum::Json(wish): axum::Json<SendSignal>) -> Response {
    let signal = match wish.signal {
        Signal::Kill => nix::sys::signal::Signal::SIGKILL,
        Signal::Terminate | Signal::Unspecified => nix::sys::signal::Signal::SIGTERM,
    };
    let Selector::Pid(pid) = wish.process else { return StatusCode::BAD_REQUEST.into_response() };
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).expect("a process number"));
    match nix::sys::signal::kill(pid, signal) {
        Ok(()) => axum::Json(json!({})).into_response(),
        Err(_gone) => (StatusCode::NOT_FOUND, axum::Json(json!({"code": "not_found", "message": "no such process"})))
            .into_response(),
    }
}

/// How long something may take that a test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
