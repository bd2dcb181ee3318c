//! Sandboxes as the engine uses them: one for each session, booted in the background, kept, replaced and ended; and commands in
//! them, of which nothing is left.

mod support {
    pub(crate) mod e2b_server;
    #[expect(dead_code, reason = "no session here has resources or words")]
    pub(crate) mod records;
}

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ambient_engine::Engine;
use ambient_engine::backend::e2b::{E2b, E2bConfig, E2bParts};
use ambient_engine::backend::inprocess::media_config;
use ambient_engine::backend::{BackendError, ClipWish, MediaBackend, ShellDone, ShellWish, Target};
use ambient_engine::broker::{self, BrokerOptions};
use ambient_engine::clock::Clock;
use ambient_engine::events::body::EventBody;
use ambient_engine::lifecycle::Lifecycle;
use ambient_engine::store::records::{MediaRef, SessionRecord};
use ambient_engine::store::{EventFilter, EventWindow, Migrate, Store, StoreOptions};
use ambient_media::{BucketReading, Media};
use ambient_settings::Settings;
use ambient_test_bucket::{ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY, TestBucket};
use anyhow::{Context, Result};
use camino::{Utf8Path, Utf8PathBuf};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use support::e2b_server::{E2bServer, Made, PATIENCE};
use support::records;
use tokio_util::sync::CancellationToken;

fn settings(home: &Utf8Path, bucket: &TestBucket, server: &E2bServer, more: &[(&str, &str)]) -> Result<Settings> {
    let fixed = [
        ("AMBIENT_HOME", home.as_str()),
        ("HOME", home.as_str()),
        ("SERVER_PORT", "0"),
        ("MODEL_CATALOGUE_URL", ""),
        ("SANDBOX_BACKEND", "e2b"),
        ("E2B_API_KEY", "e2b_0123456789abcdef"),
        ("E2B_TEMPLATE", "films-v1"),
        ("E2B_API_URL", &server.url),
        ("E2B_SANDBOX_URL", &server.url),
        ("S3_BUCKET", BUCKET),
        ("S3_ENDPOINT", bucket.endpoint()),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY),
    ];
    let pairs: BTreeMap<&str, &str> = fixed.iter().chain(more).copied().collect();
    let pairs = pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect::<Vec<_>>();
    Ok(Settings::load(pairs, None).map_err(|faults| anyhow::anyhow!("{faults:?}"))?.settings)
}

async fn eventually<T, F: Future<Output = Result<Option<T>>>>(what: &str, mut ask: impl FnMut() -> F) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        anyhow::ensure!(Instant::now() < deadline, "{what} did not come about");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A running engine with a stand-in for E2B, a bucket and one video.
struct World {
    server: E2bServer,
    engine: Engine,
    client: Client,
    video: String,
    _bucket: TestBucket,
    _home: tempfile::TempDir,
}

impl World {
    async fn new(more: &[(&str, &str)]) -> Result<Self> {
        let (bucket, server) = (TestBucket::start().await?, E2bServer::start().await?);
        let home = tempfile::tempdir()?;
        let path = Utf8PathBuf::from_path_buf(home.path().canonicalize()?).ok().context("UTF-8")?;
        let settings = settings(&path, &bucket, &server, more)?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let engine = ambient_engine::start(settings, listener).await?;
        let mut world =
            Self { server, engine, client: Client::new(), video: String::new(), _bucket: bucket, _home: home };
        world.video = world.upload().await?;
        Ok(world)
    }

    async fn upload(&self) -> Result<String> {
        let video = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/clip.mp4"))?;
        let head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"clip.mp4\"\r\n\r\n";
        let body = [head.as_bytes(), &video, b"\r\n--b--\r\n"].concat();
        let request = self
            .client
            .post(format!("http://{}/v1/files", self.engine.address()))
            .header("x-api-key", "dev-token")
            .header("content-type", "multipart/form-data; boundary=b");
        let file: Value = request.body(body).send().await?.error_for_status()?.json().await?;
        Ok(file["id"].as_str().context("a file has an id")?.to_owned())
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<(StatusCode, Value)> {
        let url = format!("http://{}{path}", self.engine.address());
        let mut request = self.client.request(method, url).header("x-api-key", "dev-token");
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await?;
        Ok((answer.status(), answer.json().await?))
    }

    async fn session(&self, agent: &str) -> Result<Value> {
        let wish = json!({"agent": agent, "environment_id": "default", "metadata": {"video_id": self.video}});
        let (status, session) = self.call(Method::POST, "/v1/sessions", Some(wish)).await?;
        anyhow::ensure!(status.is_success(), "{session}");
        Ok(session)
    }

    async fn read(&self, session: &Value) -> Result<Value> {
        let id = session["id"].as_str().context("an id")?;
        Ok(self.call(Method::GET, &format!("/v1/sessions/{id}"), None).await?.1)
    }

    async fn once(&self, session: &Value, status: &str) -> Result<Value> {
        eventually(status, || async {
            let now = self.read(session).await?;
            Ok((now["status"] == status).then_some(now))
        })
        .await
    }
}

#[tokio::test]
async fn a_session_is_pending_until_its_sandbox_is_up_and_takes_it_along() -> Result<()> {
    let world = World::new(&[("SANDBOX_WALL_SECONDS", "77")]).await?;
    world.server.hold();
    let session = world.session("ambient_v1").await?;
    assert_eq!(session["status"], "pending");
    assert_eq!(session["sandbox"], json!({"backend": "e2b", "status": "starting", "id": null}));
    let id = session["id"].as_str().context("an id")?;
    let message = json!({"events": [{"type": "user.message", "content": [{"type": "text", "text": "hello"}]}]});
    let (status, refusal) = world.call(Method::POST, &format!("/v1/sessions/{id}/events"), Some(message)).await?;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(refusal["error"]["message"], "session sandbox is still starting; retry shortly");

    world.server.let_in();
    let idle = world.once(&session, "idle").await?;
    let made = world.server.made();
    let [sandbox] = made.as_slice() else { anyhow::bail!("{made:?}") };
    assert_eq!(idle["sandbox"], json!({"backend": "e2b", "status": "ready", "id": sandbox.id}));
    assert_eq!(sandbox.timeout_seconds, Some(77));
    assert_eq!(sandbox.metadata["ambient_session"], id);
    assert!(sandbox.metadata.contains_key("ambient_engine"));
    let names: BTreeSet<_> = sandbox.environment.keys().map(String::as_str).collect();
    let told = [
        "AWS_REGION",
        "OVERVIEW_SEEK_CONCURRENCY",
        "S3_BUCKET",
        "S3_ENDPOINT",
        "S3_VIDEO_BASE_KEY",
        "SOURCE_URL_TTL",
        "STREAM_MIN_BYTES",
        "STREAM_SOURCE_VIDEO",
        "TILE_FPS",
        "TILE_MAX_DIM",
        "TILE_SECONDS",
        "TILE_WORKERS",
        "UPLOAD_CONCURRENCY",
        "VIDEO_FOLDER",
        "YOUTUBE_DOWNLOAD_TIMEOUT_SECONDS",
        "YOUTUBE_MAX_DURATION_SECONDS",
        "YOUTUBE_MAX_HEIGHT",
        "YOUTUBE_MAX_SIZE_BYTES",
    ];
    assert_eq!(names, BTreeSet::from(told));
    let (_, ready) = world.call(Method::GET, "/readyz", None).await?;
    let checks = ready["checks"].as_array().context("checks")?;
    assert!(checks.iter().any(|check| check["name"] == "sandboxes" && check["status"] == "ok"), "{ready}");

    let (status, _) = world.call(Method::DELETE, &format!("/v1/sessions/{id}"), None).await?;
    assert!(status.is_success());
    assert_eq!(world.server.living(), Vec::<String>::new(), "a deleted session's sandbox is ended at once");
    assert!(world.engine.shut_down().await);
    Ok(())
}

#[tokio::test]
async fn a_sandbox_that_does_not_boot_ends_its_session_and_says_what_to_do() -> Result<()> {
    let world = World::new(&[]).await?;
    world.server.refuse(9, 404, &json!({"code": 404, "message": "template 'films-v1' not found"}));
    let session = world.session("ambient_v1").await?;
    let over = world.once(&session, "terminated").await?;
    assert_eq!(over["sandbox"]["status"], "failed");
    let path = format!("/v1/sessions/{}/events", session["id"].as_str().context("an id")?);
    let (_, events) = world.call(Method::GET, &path, None).await?;
    let events = events["data"].as_array().context("events")?;
    let kinds: Vec<_> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(kinds, ["session.error", "session.status_terminated"]);
    let message = events[0]["error"]["message"].as_str().context("a message")?;
    assert!(message.contains("films-v1") && message.contains("ambientctl template build"), "{message}");
    assert!(world.engine.shut_down().await);
    Ok(())
}

#[tokio::test]
async fn a_bad_moment_of_the_service_ends_no_session() -> Result<()> {
    let world = World::new(&[]).await?;
    world.server.refuse(1, 500, &json!({"code": 500, "message": "no node answers"}));
    let session = world.session("ambient_v1").await?;
    world.once(&session, "idle").await?;
    assert_eq!((world.server.refusals(), world.server.living().len()), (0, 1));
    assert!(world.engine.shut_down().await);
    Ok(())
}

#[tokio::test]
async fn a_fast_session_has_no_sandbox_and_a_clean_stop_leaves_none() -> Result<()> {
    let world = World::new(&[]).await?;
    let fast = world.session("ambient_fast").await?;
    assert_eq!(fast["status"], "idle");
    assert_eq!(fast["sandbox"], json!({"backend": "e2b", "status": "ready", "id": null}));
    assert_eq!(world.server.made().len(), 0);
    let session = world.session("ambient_v1").await?;
    world.once(&session, "idle").await?;
    assert_eq!(world.server.living().len(), 1);
    assert!(world.engine.shut_down().await);
    assert_eq!(world.server.living(), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn what_a_dead_engine_left_is_ended_on_every_page_and_nothing_else() -> Result<()> {
    // The period of the reaper follows the shortest limit.
    let world = World::new(&[("SESSION_HARD_TTL_SECONDS", "4000"), ("SESSION_IDLE_TTL_SECONDS", "4")]).await?;
    let session = world.session("ambient_v1").await?;
    world.once(&session, "idle").await?;
    let ours = world.server.made().pop().context("the session's sandbox")?;
    let strangers_engine = "0123456789abcdef";
    for number in 0..5 {
        let mut metadata = ours.metadata.clone();
        metadata.insert("ambient_session".to_owned(), ambient_engine::ids::SessionId::generate().to_string());
        world.server.add(Made { id: format!("iorphan{number}"), metadata, ..ours.clone() });
    }
    let metadata = [("ambient_engine".to_owned(), strangers_engine.to_owned())].into();
    world.server.add(Made { id: "istranger".to_owned(), metadata, ..ours.clone() });
    eventually("the end of the orphans", || async {
        let left = world.server.living();
        Ok((!left.iter().any(|id| id.starts_with("iorphan"))).then_some(()))
    })
    .await?;
    eventually("the end of an idle session's sandbox", || async {
        Ok((world.server.living() == ["istranger"]).then_some(()))
    })
    .await?;
    let now = world.read(&session).await?;
    assert_eq!((&now["status"], &now["sandbox"]["status"]), (&json!("idle"), &json!("lost")));
    assert!(world.engine.shut_down().await);
    assert_eq!(world.server.living(), ["istranger"], "what is another installation's is not touched");
    Ok(())
}

#[tokio::test]
async fn an_engine_without_a_key_or_a_bucket_does_not_start() -> Result<()> {
    for (missing, word) in [("E2B_API_KEY", "E2B_API_KEY"), ("S3_BUCKET", "S3_BUCKET")] {
        let (bucket, server) = (TestBucket::start().await?, E2bServer::start().await?);
        let home = tempfile::tempdir()?;
        let path = Utf8PathBuf::from_path_buf(home.path().canonicalize()?).ok().context("UTF-8")?;
        let settings = settings(&path, &bucket, &server, &[(missing, "")])?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let refusal = ambient_engine::start(settings, listener).await.err().context("it started")?;
        assert!(refusal.to_string().contains(word), "{refusal}");
    }
    Ok(())
}

/// The backend alone, with one session that has no sandbox yet.
struct Bench {
    server: E2bServer,
    backend: E2b,
    store: Arc<dyn Store>,
    lifecycle: Lifecycle,
    session: SessionRecord,
    _bucket: TestBucket,
    _home: tempfile::TempDir,
}

impl Bench {
    async fn new(more: &[(&str, &str)]) -> Result<Self> {
        let (bucket, server) = (TestBucket::start().await?, E2bServer::start().await?);
        let home = tempfile::tempdir()?;
        let path = Utf8PathBuf::from_path_buf(home.path().canonicalize()?).ok().context("UTF-8")?;
        let settings = settings(&path, &bucket, &server, more)?;
        let url = format!("sqlite://{}", path.join("ambient.db"));
        let store = ambient_engine::store::connect(&url, &StoreOptions::new(Migrate::Run)).await?;
        let options = BrokerOptions { engine_id: "e".to_owned(), stream: "s".to_owned(), group: "g".to_owned() };
        let lifecycle = Lifecycle::new();
        let reading = BucketReading::on_host(&settings).context("a bucket")?;
        let media = Media::with_bucket(media_config(&settings), reading)?;
        let backend = E2b::new(E2bParts {
            config: E2bConfig::from_settings(&settings)?,
            store: Arc::clone(&store),
            broker: broker::connect(None, &options).await?,
            clock: Clock::system(),
            lifecycle: lifecycle.clone(),
            objects: media.objects().cloned().context("a bucket")?,
            media,
        })?;
        store.insert_agent(&records::agent(1)).await?;
        store.insert_environment(&records::environment(1)).await?;
        store.insert_file(&records::file(1)).await?;
        let session = records::session(1);
        store.insert_session(&session, &[]).await?;
        Ok(Self { server, backend, store, lifecycle, session, _bucket: bucket, _home: home })
    }

    fn target(&self) -> Target {
        Target { session: self.session.id.clone(), video: self.session.video_id.clone(), path: None }
    }

    async fn shell(&self, command: &str, timeout: Duration) -> Result<ShellDone, BackendError> {
        let wish = ShellWish { command: command.to_owned(), timeout, max_output_bytes: 100_000 };
        self.backend.shell(&self.target(), &wish, &CancellationToken::new()).await
    }

    async fn now(&self) -> Result<SessionRecord> {
        self.store.session(&self.session.id).await?.context("the session")
    }

    async fn end(self) {
        self.backend.shut_down().await;
        assert!(self.lifecycle.shut_down(Duration::from_secs(10)).await, "a job outlived the backend");
    }
}

const LONG: Duration = Duration::from_mins(1);

fn lives(pid: &str) -> bool {
    std::path::Path::new("/proc").join(pid.trim()).join("exe").read_link().is_ok()
}

#[tokio::test]
async fn a_shell_command_gives_its_output_and_knows_no_secret() -> Result<()> {
    let bench = Bench::new(&[("LLM_API_KEY", "model-secret"), ("LLM_BASE_URL", "http://127.0.0.1:9")]).await?;
    let done = bench.shell("echo out; echo err >&2; exit 7", LONG).await?;
    assert_eq!((done.exit_code, done.stdout.as_str(), done.stderr.as_str()), (7, "out\n", "err\n"));
    let sandbox = bench.now().await?.sandbox;
    assert_eq!((sandbox.backend.as_str(), sandbox.status.as_str()), ("e2b", "ready"));
    assert_eq!(sandbox.id.as_deref(), Some(bench.server.made()[0].id.as_str()), "its id is stored");
    assert!(bench.server.made()[0].renewals >= 1, "each command puts the sandbox's end off");

    let environment = bench.shell("env", LONG).await?.stdout;
    for secret in [SECRET_ACCESS_KEY, "model-secret", "e2b_0123456789abcdef", "AWS_SECRET", "AMBIENT"] {
        assert!(!environment.contains(secret), "{secret} in {environment}");
    }
    // Pieces of 1021 bytes cut many of these characters.
    let cats = bench.shell("for number in $(seq 5000); do printf 猫; done", LONG).await?;
    assert_eq!((cats.stdout.chars().count(), cats.stdout.contains('\u{fffd}')), (5000, false));
    let much = bench.shell("head -c 30000000 /dev/zero", LONG).await?;
    assert!(much.stdout.len() < 200_000 && much.stdout_cut > 0, "{} bytes kept", much.stdout.len());
    bench.end().await;
    Ok(())
}

#[tokio::test]
async fn a_daemon_does_not_hold_the_call_and_lives_on() -> Result<()> {
    let bench = Bench::new(&[]).await?;
    let folder = tempfile::tempdir()?;
    let count = folder.path().join("count");
    let command = format!(
        "(number=0; while echo tick; do number=$((number+1)); echo $number >{}; sleep 0.01; done) & echo $!",
        count.display()
    );
    let began = Instant::now();
    let done = bench.shell(&command, LONG).await?;
    assert!(began.elapsed() < LONG / 2, "it was held for {:?}", began.elapsed());
    let pid = done.stdout.lines().find(|line| *line != "tick").context("a process number")?.to_owned();
    // It goes on to write although nobody reads any more.
    let counted = || std::fs::read_to_string(&count).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let so_far = counted().unwrap_or(0);
    eventually("more of the daemon", || async { Ok(counted().filter(|now| *now > so_far + 20)) }).await?;
    bench.shell(&format!("kill {pid}"), LONG).await?;
    bench.end().await;
    Ok(())
}

#[tokio::test]
async fn nothing_is_left_of_a_command_that_took_too_long_or_was_stopped() -> Result<()> {
    let bench = Bench::new(&[]).await?;
    // Children that leave the group, their parent and their environment.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("pids");
    let command = format!(
        "echo before; setsid sleep 301 & echo $! >>{0}; env -i setsid sleep 302 & echo $! >>{0}; (sleep 303 & echo $! >>{0}); \
         echo done >>{0}; sleep 304",
        file.display()
    );
    let pids = || -> Vec<String> {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if text.contains("done") {
            text.lines().filter(|line| *line != "done").map(str::to_owned).collect()
        } else {
            Vec::new()
        }
    };
    let done = bench.shell(&command, Duration::from_secs(8)).await?;
    assert_eq!((done.exit_code, done.timed_out, done.stdout.as_str()), (124, true, "before\n"));
    assert_eq!(pids().len(), 3);
    assert!(!pids().iter().any(|pid| lives(pid)), "{:?}", pids());

    std::fs::remove_file(&file)?;
    let stop = CancellationToken::new();
    let wish = ShellWish { command, timeout: LONG, max_output_bytes: 1000 };
    let target = bench.target();
    let (outcome, ()) = tokio::join!(bench.backend.shell(&target, &wish, &stop), async {
        let begun = eventually("the command", || async { Ok((pids().len() == 3).then_some(())) });
        begun.await.expect("it begins");
        stop.cancel();
    });
    assert!(matches!(outcome, Err(BackendError::Cancelled)), "{outcome:?}");
    assert!(!pids().iter().any(|pid| lives(pid)), "{:?}", pids());
    bench.end().await;
    Ok(())
}

async fn events(bench: &Bench) -> Result<Vec<EventBody>> {
    let window = EventWindow { limit: 100, descending: false, after_seq: None, filter: EventFilter::default() };
    let listed = bench.store.events(&bench.session.id, &window).await?;
    Ok(listed.items.into_iter().map(|event| event.body).collect())
}

#[tokio::test]
async fn a_lost_sandbox_is_replaced_and_an_event_says_so() -> Result<()> {
    let bench = Bench::new(&[]).await?;
    bench.shell("true", LONG).await?;
    let first = bench.now().await?.sandbox.id.context("a sandbox")?;
    bench.server.lose(&first);
    assert_eq!(bench.shell("echo again", LONG).await?.stdout, "again\n");
    let second = bench.now().await?.sandbox.id.context("a sandbox")?;
    assert_ne!(first, second);
    let told = events(&bench).await?;
    assert!(
        told.iter().any(
            |body| matches!(body, EventBody::SessionProgress { message, .. } if message.contains("got a new one"))
        ),
        "{told:?}"
    );
    bench.end().await;
    Ok(())
}

#[tokio::test]
async fn a_lost_sandbox_stays_lost_where_that_is_wanted() -> Result<()> {
    let bench = Bench::new(&[("SANDBOX_RECREATE", "false")]).await?;
    bench.shell("true", LONG).await?;
    bench.server.lose(&bench.now().await?.sandbox.id.context("a sandbox")?);
    let error = bench.shell("true", LONG).await.err().context("it ran")?;
    assert!(error.to_string().starts_with("Sandbox not created or killed"), "{error}");
    assert_eq!(bench.now().await?.sandbox.status, "lost");
    assert_eq!(bench.server.made().len(), 1);
    bench.end().await;
    Ok(())
}

fn put_tool(bench: &Bench, text: &str) -> Result<()> {
    let path = bench.server.app().join("ambientctl");
    std::fs::write(&path, text)?;
    Ok(std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?)
}

#[tokio::test]
async fn a_clip_comes_as_an_object_of_the_bucket() -> Result<()> {
    let bench = Bench::new(&[]).await?;
    // Written down what it was told, so that the test sees it.
    let seen = bench.server.app().join("seen");
    put_tool(
        &bench,
        &format!(
            "#!/bin/bash\n[ \"$1\" = --version ] && {{ echo ambientctl {}; exit; }}\nprintf '%s\\n' \"$@\" \"$AWS_SECRET_ACCESS_KEY\" >{}\n\
             echo 'a log line' >&2\necho '===AMBIENT_RESULT==={{\"ok\":true,\"data\":{{\"clip\":{{\"clip_url\":\"http://127.0.0.1:1/{BUCKET}/vid_1/clips/a%20b.mp4?X=1\",\
             \"start_time\":1.5,\"end_time\":3,\"size_bytes\":17,\"has_audio\":false}}}},\"error\":null}}===AMBIENT_RESULT==='\n",
            env!("CARGO_PKG_VERSION"),
            seen.display()
        ),
    )?;
    let wish = ClipWish {
        start: 1.5,
        end: 3.0,
        frames_per_second: Some(2.0),
        max_dimension: 768,
        max_size_bytes: 8 << 20,
        crf: Some(30),
    };
    let made = bench.backend.clip(&bench.target(), &wish, &CancellationToken::new()).await?;
    let media = MediaRef::Object { key: "vid_1/clips/a b.mp4".to_owned(), mime_type: "video/mp4".to_owned() };
    assert_eq!((made.media, made.start, made.end, made.size_bytes), (media, 1.5, 3.0, 17));
    let told = std::fs::read_to_string(seen)?;
    let video = format!("--video-id={}", bench.session.video_id);
    let words: Vec<_> = told.lines().collect();
    assert_eq!(words[..3], ["media", "fetch-clip", video.as_str()]);
    assert!(words.contains(&"--crf=30") && words.contains(&"--upload-s3"), "{told}");
    assert_eq!(words.last(), Some(&SECRET_ACCESS_KEY), "media commands get at the bucket");

    put_tool(&bench, "#!/bin/bash\necho 'out of threads' >&2\nexit 3\n")?;
    let error =
        bench.backend.clip(&bench.target(), &wish, &CancellationToken::new()).await.err().context("a failure")?;
    assert_eq!(error.to_string(), "sandbox produced no result envelope (exit=3). stderr tail:\nout of threads");
    bench.end().await;
    Ok(())
}

#[tokio::test]
async fn a_template_without_a_media_tool_is_told_as_such() -> Result<()> {
    let bench = Bench::new(&[]).await?;
    let wish = ambient_engine::backend::FramesWish {
        start: 0.0,
        end: Some(1.0),
        frames_per_second: 1.0,
        max_frames: 1,
        max_dimension: 100,
    };
    let error =
        bench.backend.frames(&bench.target(), &wish, &CancellationToken::new()).await.err().context("a failure")?;
    let told = error.to_string();
    assert!(told.starts_with("sandbox_backend='e2b' but no media sandbox is active for this call;"), "{told}");
    assert!(told.contains("films-v1"), "{told}");
    bench.end().await;
    Ok(())
}

#[tokio::test]
async fn a_sandbox_is_kept_alive_while_a_long_command_runs() -> Result<()> {
    let bench = Bench::new(&[("SANDBOX_WALL_SECONDS", "1")]).await?;
    bench.shell("sleep 2", LONG).await?;
    let made = bench.server.made();
    assert!(made[0].renewals >= 3, "renewed {} times in two lives", made[0].renewals);
    bench.end().await;
    Ok(())
}
