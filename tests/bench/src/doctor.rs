//! `ambientctl doctor` where everything that it looks at is there and answers on the loopback; and where one part says nothing.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ambient_test_bucket::{ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY};
use serde_json::Value;

use crate::figure::{milliseconds, print, quantile};
use crate::process::{Server, command};
use crate::servers::MODEL;
use crate::{BenchError, Figure, RunArgs, e2b};

const RUNS: usize = 11;
const SILENT_RUNS: usize = 3;
/// The stack's name on Docker.
const PROJECT: &str = "ambient-bench-doctor";
/// `--timeout` of runs with a part that says nothing.
const TIMEOUT: Duration = Duration::from_secs(2);
/// What a run has to see as well, so that each part is known to have been asked.
const SEEN: [&str; 13] = [
    "e2b-key.accepted",
    "e2b-template.ready",
    "bucket.get",
    "bucket.put",
    "bucket.list",
    "bucket.parts",
    "store.answers",
    "redis.answers",
    "redis.messages",
    "docker.engine",
    "docker.containers",
    "sessions.well",
    "version.same",
];
/// The settings that lead to a part each, and the check that tells of it.
const PARTS: [(&str, &str); 5] = [
    ("S3_ENDPOINT", "bucket"),
    ("REDIS_URL", "redis"),
    ("DATABASE_URL", "store"),
    ("LLM_BASE_URL", "llm"),
    ("E2B_API_URL", "e2b-key"),
];

/// A repository's folder: `.env`, and the compose file of a stack that runs.
struct Place<'a> {
    args: &'a RunArgs,
    home: tempfile::TempDir,
    docker: &'a Path,
    settings: BTreeMap<&'static str, String>,
}

pub(crate) async fn measure(args: &RunArgs) -> Result<Vec<Figure>, BenchError> {
    let missing = |word: &str| BenchError::Unexpected(format!("the figures of `doctor` need `{word}`"));
    let data = args.sandboxd_data.as_deref().ok_or_else(|| missing("--sandboxd-data"))?;
    let docker = args.docker.as_deref().ok_or_else(|| missing("--docker"))?;
    let database = args.postgres.clone().ok_or_else(|| missing("--postgres"))?;
    let redis = args.redis.clone().ok_or_else(|| missing("--redis"))?;
    let (host, model, bucket) =
        (e2b::host(args, data).await?, Server::plain(&["model"]).await?, Server::plain(&["bucket"]).await?);
    e2b::build(args, &host).await?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let settings = BTreeMap::from([
        ("API_KEY", "key-of-the-bench".to_owned()),
        ("AGENT_MODEL", MODEL.to_owned()),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY.to_owned()),
        ("DATABASE_URL", database),
        ("E2B_API_KEY", e2b::KEY.to_owned()),
        ("E2B_API_URL", host.url.clone()),
        ("E2B_SANDBOX_URL", host.url.clone()),
        ("E2B_TEMPLATE", e2b::TEMPLATE.to_owned()),
        ("LLM_BASE_URL", format!("{}/v1", model.url)),
        ("LLM_MODEL", MODEL.to_owned()),
        ("MODEL_CATALOGUE_URL", String::new()),
        ("REDIS_URL", redis),
        ("S3_BUCKET", BUCKET.to_owned()),
        ("S3_ENDPOINT", bucket.url.clone()),
        ("SANDBOX_BACKEND", "e2b".to_owned()),
        ("SERVER_PORT", port.to_string()),
    ]);
    let place = Place { args, home: tempfile::tempdir()?, docker, settings };
    place.write(&place.settings)?;
    let compose = format!(
        "name: {PROJECT}\nservices:\n  api:\n    image: ambient-test:1\n    command: [sleep, \"100000\"]\n    stop_signal: SIGKILL\n"
    );
    std::fs::write(place.home.path().join("docker-compose.yml"), compose)?;
    place.ambientctl(&["start", "--dir", "."]).output().await?;
    let engine = Server::start(place.ambientctl(&["serve"]).stderr(Stdio::null())).await?;
    let figures = Box::pin(figures(&place)).await;
    engine.stop().await?;
    place.docker(&["rm", "--force", &format!("{PROJECT}-api-1")]).await?;
    place.docker(&["network", "rm", &format!("{PROJECT}_default")]).await?;
    for server in [host, model, bucket] {
        server.stop().await?;
    }
    figures
}

async fn figures(place: &Place<'_>) -> Result<Vec<Figure>, BenchError> {
    let mut times = Vec::new();
    let mut whole = Vec::new();
    for _ in 0..RUNS {
        let (took, findings) = place.look(&[]).await?;
        if let Some(missed) =
            SEEN.iter().find(|id| !findings.iter().any(|found| found["id"] == **id && found["level"] == "ok"))
        {
            return Err(BenchError::Unexpected(format!("`{missed}` is not well: {findings:#?}")));
        }
        times.push(milliseconds(took));
        whole = findings;
    }
    let median = quantile(&mut times, 0.5);
    print(&format!(
        "     `doctor`, everything live: {median:.0} ms, the slowest of {RUNS} runs {:.0} ms",
        quantile(&mut times, 1.0)
    ));
    let mut figures =
        vec![Figure::below("a full `doctor` of what is live on the loopback, median", median, 1500.0, "ms")];

    // Takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let address = silent.local_addr()?;
    for (setting, check) in PARTS {
        let url = match setting {
            "DATABASE_URL" => format!("postgres://ann@{address}/films"),
            "REDIS_URL" => format!("redis://{address}/0"),
            _ => format!("http://{address}"),
        };
        let mut settings = place.settings.clone();
        settings.insert(setting, url);
        place.write(&settings)?;
        let mut times = Vec::new();
        for _ in 0..SILENT_RUNS {
            let (took, findings) = place.look(&["--timeout", &TIMEOUT.as_secs().to_string()]).await?;
            is_missed_alone(&whole, &findings, check)?;
            times.push(milliseconds(took));
        }
        let what = format!("the same with a silent `{setting}` and `--timeout {}`, the slowest", TIMEOUT.as_secs());
        figures.push(Figure::at_most(what, quantile(&mut times, 1.0), milliseconds(TIMEOUT), "ms"));
    }
    place.write(&place.settings)?;
    Ok(figures)
}

/// Fails unless this check, and no other but one that asks the same part, tells something else than before.
fn is_missed_alone(before: &[Value], after: &[Value], silent: &str) -> Result<(), BenchError> {
    let levels = |findings: &[Value]| -> Vec<(String, String)> {
        let word = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
        let of_others = findings.iter().filter(|finding| {
            let check = finding["check"].as_str().unwrap_or_default();
            check != silent && (silent, check) != ("e2b-key", "e2b-template")
        });
        of_others.map(|finding| (word(finding, "id"), word(finding, "level"))).collect()
    };
    let is_told = after.iter().any(|finding| finding["check"] == silent && finding["level"] == "failure");
    if is_told && levels(before) == levels(after) {
        return Ok(());
    }
    Err(BenchError::Unexpected(format!("a silent part of `{silent}` is told as {after:#?}")))
}

impl Place<'_> {
    fn write(&self, settings: &BTreeMap<&str, String>) -> Result<(), BenchError> {
        let path = self.home.path().join(".env");
        let lines: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        std::fs::write(&path, format!("{}\n", lines.join("\n")))?;
        Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?)
    }

    fn ambientctl(&self, words: &[&str]) -> tokio::process::Command {
        let mut tool = command(&self.args.binary);
        tool.args(words).current_dir(self.home.path()).env_clear().env("HOME", self.home.path()).stdin(Stdio::null());
        tool.env("AMBIENT_HOME", self.home.path().join("data")).env("AMBIENT_SKIP_PULL", "1");
        tool.env("DOCKER_HOST", format!("unix://{}", self.docker.display()));
        if let Some(path) = std::env::var_os("PATH") {
            tool.env("PATH", path);
        }
        tool
    }

    /// Takes away what `start` made: there is no installation here that could be uninstalled.
    async fn docker(&self, words: &[&str]) -> Result<(), BenchError> {
        let mut docker = command(Path::new("docker"));
        docker.args(words).env("DOCKER_HOST", format!("unix://{}", self.docker.display()));
        let done = docker.stdin(Stdio::null()).output().await?;
        if done.status.success() {
            return Ok(());
        }
        Err(BenchError::Unexpected(String::from_utf8_lossy(&done.stderr).into_owned()))
    }

    /// How long a look takes, and what it sees.
    async fn look(&self, words: &[&str]) -> Result<(Duration, Vec<Value>), BenchError> {
        let mut doctor = self.ambientctl(&["doctor", "--json", "--env-file", ".env"]);
        doctor.args(words);
        let began = Instant::now();
        let output = doctor.output().await?;
        let took = began.elapsed();
        let document: Value = serde_json::from_slice(&output.stdout)
            .map_err(|_error| BenchError::Unexpected(String::from_utf8_lossy(&output.stderr).into_owned()))?;
        Ok((took, document["findings"].as_array().cloned().unwrap_or_default()))
    }
}
