//! A stack of its own for each test, and eyes to look at it with.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ambient_ctl::commands::{config, install, lifecycle, logs, status, uninstall};
use ambient_ctl::environment::Environment;
use ambient_ctl::output::{Exit, Failure, Printer};
use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::ListContainersOptionsBuilder;
use bollard::{API_DEFAULT_VERSION, Docker};
use clap::Parser;
use std::collections::HashMap;

/// The image of all services: a busybox.
pub(crate) const IMAGE: &str = "ambient-test:1";

/// Two services; the engine ends at once when its model is `bad`, and then tells its key.
pub(crate) const STACK: &str = r#"
services:
  db:
    image: ambient-test:1
    command: [sleep, "100000"]
    stop_signal: SIGKILL
    healthcheck: {test: [CMD, "true"], interval: 200ms, timeout: 10s, retries: 30}
    volumes: ["db-data:/data"]
  engine:
    image: ambient-test:1
    command: ["sh", "-c", "if [ \"$$LLM_MODEL\" = bad ]; then echo no model bad, key $$LLM_API_KEY; exit 3; fi; exec sleep 100000"]
    stop_signal: SIGKILL
    depends_on: {db: {condition: service_healthy}}
    environment:
      LLM_MODEL: ${LLM_MODEL:-}
      LLM_API_KEY: ${LLM_API_KEY:-}
    healthcheck: {test: [CMD, "true"], interval: 200ms, timeout: 10s, retries: 30}
    volumes: ["/scratch"]
volumes: {db-data: }
"#;

/// A variable of the test run.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::vars().find(|(found, _)| found == name).map(|(_, value)| value)
}

/// The engine's socket.
pub(crate) fn socket() -> PathBuf {
    PathBuf::from(variable("AMBIENT_TEST_DOCKER").expect("AMBIENT_TEST_DOCKER is set, as tests/run.sh does"))
}

#[derive(clap::Parser)]
struct Words {
    #[command(subcommand)]
    command: Word,
}

#[derive(clap::Subcommand)]
enum Word {
    Config(config::Args),
    Install(install::Args),
    Logs(logs::Args),
    Restart(lifecycle::RestartArgs),
    Start(lifecycle::StartArgs),
    Status(status::Args),
    Stop(lifecycle::StopArgs),
    Uninstall(uninstall::Args),
    Update(lifecycle::UpdateArgs),
}

/// `ambientctl WORDS…` in this process, with this engine.
pub(crate) fn ambientctl(words: &[&str], home: &Path, socket: &Path) -> Result<Exit, Failure> {
    let words = Words::try_parse_from(["ambientctl"].iter().chain(words)).expect("the words of a test are right");
    let variables = vec![
        ("HOME".into(), home.into()),
        ("DOCKER_HOST".into(), format!("unix://{}", socket.display()).into()),
        ("AMBIENT_SKIP_PULL".into(), "1".into()),
    ];
    let environment = Environment { variables, env_file: None };
    let quiet = Printer { json: false, quiet: true };
    let runtime = runtime();
    match words.command {
        Word::Config(args) => runtime.block_on(config::run(&args, &environment, &quiet)),
        Word::Install(args) => runtime.block_on(install::run(&args, &environment, quiet)),
        Word::Logs(args) => runtime.block_on(logs::run(&args, &environment, quiet)),
        Word::Restart(args) => runtime.block_on(lifecycle::restart(&args, &environment, quiet)),
        Word::Start(args) => runtime.block_on(lifecycle::start(&args, &environment, quiet)),
        Word::Status(args) => runtime.block_on(status::run(&args, &environment, quiet)),
        Word::Stop(args) => runtime.block_on(lifecycle::stop(&args, &environment, quiet)),
        Word::Uninstall(args) => runtime.block_on(uninstall::run(&args, &environment, quiet)),
        Word::Update(args) => runtime.block_on(lifecycle::update(&args, &environment, quiet)),
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made")
}

/// A stack in a folder of its own, under a project name of its own; it goes away with its data when it is dropped.
pub(crate) struct Stack {
    pub(crate) home: tempfile::TempDir,
    pub(crate) project: String,
}

impl Stack {
    pub(crate) fn new(text: &str) -> io::Result<Self> {
        let home = tempfile::Builder::new().prefix("stack").tempdir()?;
        let name = home.path().file_name().and_then(|name| name.to_str()).expect("a temporary folder has a plain name");
        let project = name.to_lowercase();
        fs::write(home.path().join("docker-compose.yml"), format!("name: {project}\n{text}"))?;
        fs::write(home.path().join(".env"), "# settings\nLLM_MODEL=first\n")?;
        Ok(Self { home, project })
    }

    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn file(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// `ambientctl WORDS… --dir FOLDER`.
    pub(crate) fn run(&self, words: &[&str]) -> Result<Exit, Failure> {
        let folder = self.path().to_str().expect("a temporary folder has a plain name");
        let words: Vec<&str> = words.iter().copied().chain(["--dir", folder]).collect();
        ambientctl(&words, self.path(), &socket())
    }

    /// What failed, as text.
    pub(crate) fn refusal(&self, words: &[&str]) -> String {
        match self.run(words) {
            Ok(exit) => panic!("{words:?} went well: {exit:?}"),
            Err(failure) => failure.text(),
        }
    }

    /// `docker-compose WORDS…` in the folder.
    #[expect(clippy::disallowed_methods, reason = "the oracle is a program")]
    pub(crate) fn compose(&self, words: &[&str]) -> Output {
        let oracle = variable("AMBIENT_TEST_COMPOSE").expect("AMBIENT_TEST_COMPOSE is set, as tests/run.sh does");
        let output = Command::new(oracle)
            .args(words)
            .current_dir(self.path())
            .env_clear()
            .env("HOME", self.path())
            .env("DOCKER_HOST", format!("unix://{}", socket().display()))
            .output()
            .expect("the oracle can be started");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// Ids of all containers of the project by their names.
    pub(crate) fn containers(&self) -> BTreeMap<String, String> {
        let filters = HashMap::from([("label", vec![format!("com.docker.compose.project={}", self.project)])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let all = runtime().block_on(docker().list_containers(Some(options))).expect("the engine answers");
        let name = |names: Option<Vec<String>>| names.unwrap_or_default().concat().trim_start_matches('/').to_owned();
        all.into_iter().map(|found| (name(found.names), found.id.unwrap_or_default())).collect()
    }

    /// The container of a service.
    pub(crate) fn inspect(&self, service: &str) -> ContainerInspectResponse {
        let name = format!("{}-{service}-1", self.project);
        runtime().block_on(docker().inspect_container(&name, None)).expect("the service has a container")
    }

    pub(crate) fn id(&self, service: &str) -> String {
        self.inspect(service).id.unwrap_or_default()
    }

    pub(crate) fn is_running(&self, service: &str) -> bool {
        self.inspect(service).state.and_then(|state| state.running).unwrap_or(false)
    }

    /// A variable inside the container of a service.
    pub(crate) fn inside(&self, service: &str, name: &str) -> Option<String> {
        let variables = self.inspect(service).config.and_then(|config| config.env).unwrap_or_default();
        variables.iter().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    }

    /// What a command says inside the container of a service.
    pub(crate) fn said_inside(&self, service: &str, words: &[&str]) -> String {
        let words: Vec<&str> = ["exec", "-T", service].into_iter().chain(words.iter().copied()).collect();
        String::from_utf8(self.compose(&words).stdout).expect("the command prints text")
    }

    /// A label of the container of a service.
    pub(crate) fn label(&self, service: &str, key: &str) -> String {
        let labels = self.inspect(service).config.and_then(|config| config.labels).unwrap_or_default();
        labels.get(&format!("com.docker.compose.{key}")).cloned().unwrap_or_default()
    }

    /// Whether the project's volume is there.
    pub(crate) fn has_volume(&self, key: &str) -> bool {
        runtime().block_on(docker().inspect_volume(&format!("{}_{key}", self.project))).is_ok()
    }

    /// The hash that a volume carries.
    pub(crate) fn volume_hash(&self, key: &str) -> Option<String> {
        let volume = runtime().block_on(docker().inspect_volume(&format!("{}_{key}", self.project))).ok()?;
        volume.labels.get("com.docker.compose.config-hash").cloned()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // A second panic would hide the first one.
        let already_failed = std::thread::panicking();
        let torn_down = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.tear_down()));
        assert!(torn_down.is_ok() || already_failed, "the stack could not be torn down");
    }
}

impl Stack {
    fn tear_down(&self) {
        if !self.containers().is_empty() || self.has_volume("db-data") {
            self.compose(&["down", "--volumes", "--timeout", "0", "--remove-orphans"]);
        }
    }
}

pub(crate) fn docker() -> Docker {
    Docker::connect_with_unix(&format!("unix://{}", socket().display()), 60, API_DEFAULT_VERSION)
        .expect("the engine's socket is there")
}
