//! An engine's HTTP surface for one test, and what tests ask of it.

use std::sync::Arc;
use std::time::Duration;

use ambient_engine::agent::{RunContext, RunOutcome};
use ambient_engine::api::state::{App, AppParts};
use ambient_engine::api::{health, router};
use ambient_engine::backend::inprocess::{InProcess, InProcessConfig, media_config};
use ambient_engine::broker::{Broker, BrokerOptions};
use ambient_engine::built_in;
use ambient_engine::clock::{Clock, ManualClock};
use ambient_engine::events::body::{ContentBlock, EventBody};
use ambient_engine::events::stream::Streams;
use ambient_engine::ingest::upload::Uploads;
use ambient_engine::lifecycle::Lifecycle;
use ambient_engine::secrets::Secrets;
use ambient_engine::sessions::service::{Parts, Sessions};
use ambient_engine::sessions::supervise::Runner;
use ambient_engine::store::{Migrate, Store, StoreOptions};
use ambient_media::Media;
use ambient_settings::Settings;
use camino::{Utf8Path, Utf8PathBuf};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// Why a helper gave up.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A served API. Its folder goes away with it.
pub(crate) struct Api {
    pub(crate) base: String,
    pub(crate) client: reqwest::Client,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) uploads: Uploads,
    pub(crate) secrets: Secrets,
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: ManualClock,
    pub(crate) router: axum::Router,
    lifecycle: Lifecycle,
    home: TempDir,
}

/// An answer that was read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) json: Value,
}

impl Answer {
    async fn of(response: Response) -> Result<Self, Failure> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        let json = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Self { status, headers, json })
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The `error.message`, after a look at the whole shape that an error must have.
    pub(crate) fn message(&self) -> &str {
        let error = &self.json["error"];
        let id = self.header("request-id");
        let is_whole = self.json["type"] == "error"
            && error["type"].is_string()
            && id.starts_with("req_")
            && self.json["request_id"] == id;
        assert!(is_whole, "no error in the API's shape: {self:?}");
        error["message"].as_str().unwrap_or_default()
    }

    /// Status, `error.type` and message, to compare at once.
    pub(crate) fn error(&self) -> (u16, &str, &str) {
        let message = self.message();
        (self.status, self.json["error"]["type"].as_str().unwrap_or_default(), message)
    }

    /// The body of a success.
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{:?}", self.json);
        assert!(self.header("request-id").starts_with("req_"));
        self.json
    }
}

impl Api {
    /// With settings as on a fresh machine.
    pub(crate) async fn new() -> Result<Self, Failure> {
        Self::with(|_settings| {}).await
    }

    /// With other settings.
    pub(crate) async fn with(change: impl FnOnce(&mut Settings)) -> Result<Self, Failure> {
        let home = TempDir::with_prefix("ambient-api-")?;
        let home_path = Utf8Path::from_path(home.path()).ok_or("the temporary folder is not UTF-8")?;
        let mut settings = Settings::for_tests(home_path);
        change(&mut settings);
        let settings = Arc::new(settings);
        let start = "2026-11-29T22:00:00Z".parse()?;
        let (clock, hand) = Clock::manual(start);
        let lifecycle = Lifecycle::new();
        let url = format!("sqlite://{}", home_path.join("ambient.db"));
        let store = ambient_engine::store::connect(&url, &StoreOptions::new(Migrate::Run)).await?;
        let options = BrokerOptions { engine_id: "test".into(), stream: "jobs".into(), group: "workers".into() };
        let broker = ambient_engine::broker::connect(None, &options).await?;
        let media = Media::new(media_config(&settings));
        let backend =
            Arc::new(InProcess::new(InProcessConfig::from_settings(&settings), Arc::clone(&store), media.clone()));
        let sessions = Sessions::new(Parts {
            store: Arc::clone(&store),
            broker: Arc::clone(&broker),
            clock: clock.clone(),
            lifecycle: lifecycle.clone(),
            backend,
            runner: Runner::new(script),
            max_turns: settings.agent.max_turns_per_run,
        });
        let streams = Streams::new(
            Arc::clone(&store),
            Arc::clone(&broker),
            lifecycle.draining().clone(),
            lifecycle.aborting().clone(),
        );
        let uploads = Uploads::new(
            &settings.media.video_folder,
            settings.server.max_upload_bytes,
            media,
            Arc::clone(&store),
            Arc::clone(&broker),
            clock.clone(),
            None,
        )?;
        let secrets = Secrets::new(&settings)?;
        built_in::seed(store.as_ref(), &settings, clock.now()).await?;
        health::begin_metrics();
        let app = App::new(AppParts {
            settings: Arc::clone(&settings),
            store: Arc::clone(&store),
            broker: Arc::clone(&broker),
            clock,
            lifecycle: lifecycle.clone(),
            sessions,
            streams,
            uploads: uploads.clone(),
            secrets: secrets.clone(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let base = format!("http://{}", listener.local_addr()?);
        let router = router(app);
        let served = router.clone();
        lifecycle.spawn_service("http", |draining| async move {
            let served = axum::serve(listener, served).with_graceful_shutdown(draining.cancelled_owned());
            served.await.expect("serving does not fail");
        });
        let client = reqwest::Client::new();
        Ok(Self { base, client, store, broker, uploads, secrets, settings, clock: hand, router, lifecycle, home })
    }

    /// A request with the key.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).header("x-api-key", "dev-token")
    }

    /// A request without a key.
    pub(crate) fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Answer, Failure> {
        Answer::of(request.send().await?).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        // The clock of the tests stands still; each request is a moment later than the one before.
        self.clock.advance(Duration::from_millis(1));
        self.send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Result<Answer, Failure> {
        self.clock.advance(Duration::from_millis(1));
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    /// A POST or DELETE as the Python SDK sends it without a body.
    pub(crate) async fn empty(&self, method: Method, path: &str) -> Result<Answer, Failure> {
        self.clock.advance(Duration::from_millis(1));
        self.send(self.request(method, path).header("content-type", "application/json")).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Answer, Failure> {
        self.empty(Method::DELETE, path).await
    }

    /// Uploads bytes under a name.
    pub(crate) async fn upload(&self, bytes: Vec<u8>, name: &str) -> Result<Answer, Failure> {
        let head =
            format!("Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: video/mp4");
        self.upload_form(&[(&head, &bytes)]).await
    }

    /// Uploads a form with these parts: headers and data.
    pub(crate) async fn upload_form(&self, parts: &[(&str, &[u8])]) -> Result<Answer, Failure> {
        self.clock.advance(Duration::from_millis(1));
        self.send(self.form_request(form(parts))).await
    }

    /// A request with a form as its body.
    pub(crate) fn form_request(&self, body: impl Into<reqwest::Body>) -> RequestBuilder {
        self.request(Method::POST, "/v1/files")
            .header("content-type", "multipart/form-data; boundary=b0undary")
            .body(body)
    }

    /// Uploads a small video and gives its id.
    pub(crate) async fn video(&self) -> Result<String, Failure> {
        let file = self.upload(video_bytes(0), "clip.mp4").await?.ok();
        Ok(file["id"].as_str().ok_or("an uploaded file has an id")?.to_owned())
    }

    /// Makes a session over a video.
    pub(crate) async fn session(&self) -> Result<String, Failure> {
        let video = self.video().await?;
        let session = self.post("/v1/sessions", json!({"metadata": {"video_id": video}})).await?.ok();
        Ok(session["id"].as_str().ok_or("a session has an id")?.to_owned())
    }

    /// Polls a session until it has this status.
    pub(crate) async fn until_status(&self, session: &str, status: &str) -> Result<Value, Failure> {
        let mut last = Value::Null;
        for _ in 0..1000 {
            last = self.get(&format!("/v1/sessions/{session}")).await?.ok();
            if last["status"] == status {
                return Ok(last);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(format!("the session never was {status}: {last}").into())
    }

    /// All names in the video folder, in order.
    pub(crate) fn video_folder(&self) -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        let mut folders = vec![Utf8PathBuf::from(&self.settings.media.video_folder)];
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir_utf8()? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path().to_owned());
                } else {
                    names.push(entry.path().strip_prefix(&self.settings.media.video_folder)?.to_string());
                }
            }
        }
        names.sort();
        Ok(names)
    }

    /// Ends the engine; fails when a task outlives it.
    pub(crate) async fn end(self) -> Result<(), Failure> {
        drop(self.client);
        let ended = self.lifecycle.shut_down(Duration::from_secs(5)).await;
        self.store.close().await;
        self.home.close()?;
        if ended { Ok(()) } else { Err("a task outlived the engine".into()) }
    }
}

/// A run of the tests: it answers with the last text of its session's log, or waits when that says so.
async fn script(context: RunContext) -> Result<RunOutcome, ambient_engine::sessions::writer::RunWriteError> {
    let asked = context.session.title.clone().unwrap_or_default();
    if asked == "wait" {
        context.stop.cancelled().await;
        return Ok(RunOutcome::Interrupted);
    }
    context.writer.event(EventBody::AgentMessage { content: vec![ContentBlock::text("an answer")] }).await?;
    Ok(RunOutcome::Answered)
}

/// A small MP4 that ffmpeg made; `variant` makes its bytes, and so its id, different without touching the pictures.
pub(crate) fn video_bytes(variant: u32) -> Vec<u8> {
    let mut bytes = include_bytes!("../data/clip.mp4").to_vec();
    if variant > 0 {
        // A `free` box at the end, which players skip.
        bytes.extend_from_slice(&16_u32.to_be_bytes());
        bytes.extend_from_slice(b"free");
        bytes.extend_from_slice(&u64::from(variant).to_be_bytes());
    }
    bytes
}

/// A form with the boundary `b0undary`.
pub(crate) fn form(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (headers, data) in parts {
        body.extend_from_slice(format!("--b0undary\r\n{headers}\r\n\r\n").as_bytes());
        body.extend_from_slice(data);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--b0undary--\r\n");
    body
}
