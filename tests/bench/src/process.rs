//! The processes that are measured, and what the operating system says of them.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::{BenchError, RunArgs};

const FIRST_LINE_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(40);

/// A server that prints where it listens as the last word of its first line.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// `http://127.0.0.1:PORT`
    pub(crate) url: String,
}

impl Server {
    pub(crate) async fn start(command: &mut Command) -> Result<Self, BenchError> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| BenchError::Unexpected("the child has no stdout".to_owned()))?;
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(FIRST_LINE_LIMIT, lines.next_line())
            .await
            .map_err(|_elapsed| BenchError::Unexpected("a server printed no address in time".to_owned()))??
            .ok_or_else(|| BenchError::Unexpected("a server ended before it listened".to_owned()))?;
        let url = line.rsplit(' ').next().unwrap_or_default().to_owned();
        Ok(Self { child, url })
    }

    /// One of the plain servers of this program.
    pub(crate) async fn plain(words: &[&str]) -> Result<Self, BenchError> {
        let mut own = command(&std::env::current_exe()?);
        own.args(words);
        Self::start(&mut own).await
    }

    /// Its process id.
    pub(crate) fn id(&self) -> Result<u32, BenchError> {
        self.child.id().ok_or_else(|| BenchError::Unexpected("a server has ended".to_owned()))
    }

    /// Stops it as an operator would.
    pub(crate) async fn stop(mut self) -> Result<(), BenchError> {
        let id = i32::try_from(self.id()?).map_err(|error| BenchError::Unexpected(error.to_string()))?;
        kill(Pid::from_raw(id), Signal::SIGTERM).map_err(std::io::Error::from)?;
        tokio::time::timeout(STOP_LIMIT, self.child.wait())
            .await
            .map_err(|_elapsed| BenchError::Unexpected("a server did not stop".to_owned()))??;
        Ok(())
    }

    /// Resident memory now, in bytes.
    pub(crate) fn resident(&self) -> Result<u64, BenchError> {
        memory(self.id()?, "VmRSS:")
    }

    /// The highest resident memory since [`Server::forget_peak`], in bytes.
    pub(crate) fn peak(&self) -> Result<u64, BenchError> {
        memory(self.id()?, "VmHWM:")
    }

    /// Begins a new peak at what is resident now.
    pub(crate) fn forget_peak(&self) -> Result<(), BenchError> {
        Ok(std::fs::write(format!("/proc/{}/clear_refs", self.id()?), "5")?)
    }
}

fn memory(process: u32, field: &str) -> Result<u64, BenchError> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB")?.parse::<u64>().ok())
        .map(|kib| kib * 1024)
        .ok_or_else(|| BenchError::Unexpected(format!("/proc has no {field}")))
}

#[expect(clippy::disallowed_methods, reason = "a measuring program starts what it measures")]
pub(crate) fn command(program: &Path) -> Command {
    Command::new(program)
}

/// An engine in an empty home, with a model that answers at once.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) server: Server,
    pub(crate) model: Server,
    pub(crate) http: reqwest::Client,
    _home: tempfile::TempDir,
}

/// A client with the engine's key.
pub(crate) fn client() -> Result<reqwest::Client, BenchError> {
    let key = (HeaderName::from_static("x-api-key"), HeaderValue::from_static("dev-token"));
    Ok(reqwest::Client::builder().default_headers(HeaderMap::from_iter([key])).no_proxy().build()?)
}

/// The words and the environment of `serve`, as an operator without settings has them.
pub(crate) fn serve(args: &RunArgs, home: &Path, model_url: &str) -> Command {
    let mut serve = command(&args.binary);
    serve.args(["serve", "--port", "0"]).current_dir(home).env_clear().stderr(Stdio::null());
    for name in ["PATH", "HOME", "TMPDIR"] {
        if let Some(value) = std::env::var_os(name) {
            serve.env(name, value);
        }
    }
    serve.env("AMBIENT_HOME", home.join("ambient")).env("RUST_LOG", "warn").env("MODEL_CATALOGUE_URL", "").envs([
        ("LLM_BASE_URL", model_url),
        ("AGENT_BASE_URL", model_url),
        ("LLM_API_KEY", "k"),
        ("AGENT_API_KEY", "k"),
    ]);
    serve
}

impl Engine {
    pub(crate) async fn start(args: &RunArgs) -> Result<Self, BenchError> {
        let home = tempfile::tempdir()?;
        let model = Server::plain(&["model"]).await?;
        let server = Server::start(&mut serve(args, home.path(), &format!("{}/v1", model.url))).await?;
        Ok(Self { server, model, http: client()?, _home: home })
    }

    /// Time from the start of the process to its first good answer, and the server.
    pub(crate) async fn timed_start(args: &RunArgs, home: &Path) -> Result<(Duration, Server), BenchError> {
        let began = Instant::now();
        let server = Server::start(&mut serve(args, home, "http://127.0.0.1:9/v1")).await?;
        let status =
            reqwest::Client::builder().no_proxy().build()?.get(format!("{}/v1/healthz", server.url)).send().await?;
        let took = began.elapsed();
        status.error_for_status()?;
        Ok((took, server))
    }

    pub(crate) async fn stop(self) -> Result<(), BenchError> {
        self.server.stop().await?;
        self.model.stop().await
    }

    /// The clip's id once uploaded. Waits until its description is done, so that nothing runs beside a measurement.
    pub(crate) async fn upload(&self, clip: &Path) -> Result<String, BenchError> {
        let output = command(Path::new("curl"))
            .args([
                "--silent",
                "--show-error",
                "--fail-with-body",
                "--noproxy",
                "*",
                "--header",
                "x-api-key: dev-token",
                "--form",
            ])
            .arg(format!("file=@{};type=video/mp4", clip.display()))
            .arg(format!("{}/v1/files", self.server.url))
            .output()
            .await?;
        let file: Value = serde_json::from_slice(&output.stdout)
            .map_err(|_error| BenchError::Unexpected(String::from_utf8_lossy(&output.stderr).into_owned()))?;
        let id = text_at(&file, "id")?;
        for _ in 0..300 {
            let file: Value = self.get(&format!("/v1/files/{id}")).await?;
            if !matches!(file["description_status"].as_str(), Some("pending" | "processing")) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(id)
    }

    /// A new session over the video.
    pub(crate) async fn session(&self, video: &str) -> Result<String, BenchError> {
        let body = json!({ "agent": "ambient_v1", "environment_id": "default", "metadata": { "video_id": video } });
        let answer = self.http.post(format!("{}/v1/sessions", self.server.url)).json(&body).send().await?;
        text_at(&answer.error_for_status()?.json().await?, "id")
    }

    /// Sends a message.
    pub(crate) async fn send(&self, session: &str, text: &str) -> Result<(), BenchError> {
        let event = json!({ "type": "user.message", "content": [{ "type": "text", "text": text }] });
        let url = format!("{}/v1/sessions/{session}/events", self.server.url);
        self.http.post(url).json(&json!({ "events": [event] })).send().await?.error_for_status()?;
        Ok(())
    }

    /// A resource.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, BenchError> {
        let answer = self.http.get(format!("{}{path}", self.server.url)).send().await?;
        Ok(answer.error_for_status()?.json().await?)
    }
}

/// A text member of a JSON object.
pub(crate) fn text_at(value: &Value, name: &str) -> Result<String, BenchError> {
    value[name].as_str().map(str::to_owned).ok_or_else(|| BenchError::Unexpected(format!("no `{name}` in {value}")))
}
