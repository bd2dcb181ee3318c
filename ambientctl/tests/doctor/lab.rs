//! A folder to look at, what looks at it, and hands that carry remedies out.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use ambient_ctl::commands::{config, doctor};
use ambient_ctl::doctor::{Context, Finding, Level, Place, Remedy, Report, Target, Wishes, run};
use ambient_ctl::environment::Environment;
use ambient_ctl::output::{Exit, Failure, Printer};
use clap::Parser;

/// The file that the installer writes.
pub(crate) const SHIPPED: &str = ambient_ctl::compose::SHIPPED;

/// A variable of the test run.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::vars().find(|(found, _)| found == name).map(|(_, value)| value)
}

/// A folder with the files of an engine.
pub(crate) struct Lab {
    home: tempfile::TempDir,
    /// Variables of the process that looks.
    pub(crate) shell: Vec<(String, String)>,
    /// How long each check may take.
    pub(crate) limit: Duration,
    pub(crate) deep: bool,
    is_install: bool,
}

#[derive(clap::Parser)]
struct Words {
    #[command(subcommand)]
    command: Word,
}

#[derive(clap::Subcommand)]
enum Word {
    Config(config::Args),
    Doctor(doctor::Args),
}

impl Lab {
    /// A repository's `.env`, private, with these lines.
    pub(crate) fn repository(lines: &[&str]) -> io::Result<Self> {
        Self::new(lines, false)
    }

    /// An installation with these lines in its `.env`, besides those that it needs.
    pub(crate) fn install(lines: &[&str]) -> io::Result<Self> {
        let secrets = ["POSTGRES_PASSWORD=0123456789abcdef", "ENGINE_API_KEY=fedcba9876543210"];
        let lab = Self::new(&[secrets.as_slice(), lines].concat(), true)?;
        fs::write(lab.path("docker-compose.yml"), SHIPPED)?;
        Ok(lab)
    }

    fn new(lines: &[&str], is_install: bool) -> io::Result<Self> {
        let home = tempfile::Builder::new().prefix("doctor").tempdir()?;
        let path = home.path().to_str().expect("a temporary folder has a plain name").to_owned();
        let lab = Self {
            shell: vec![
                ("HOME".to_owned(), path.clone()),
                ("AMBIENT_HOME".to_owned(), path),
                // Nobody listens there, so no running engine of this machine is looked at.
                ("SERVER_PORT".to_owned(), "1".to_owned()),
                ("DOCKER_HOST".to_owned(), "unix:///no/such/docker.sock".to_owned()),
            ],
            home,
            limit: Duration::from_secs(5),
            deep: false,
            is_install,
        };
        let text = if lines.is_empty() { String::new() } else { format!("{}\n", lines.join("\n")) };
        lab.write(".env", &text)?;
        Ok(lab)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Writes a file that is its owner's alone.
    pub(crate) fn write(&self, name: &str, text: &str) -> io::Result<()> {
        fs::write(self.path(name), text)?;
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600))
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Sets a variable of the process that looks.
    pub(crate) fn in_shell(&mut self, name: &str, value: &str) {
        self.shell.retain(|(known, _)| known != name);
        self.shell.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn environment(&self) -> Environment {
        let variables = self.shell.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Environment { variables, env_file: None }
    }

    fn place(&self) -> Place {
        if self.is_install { Place::Install(self.home.path().to_owned()) } else { Place::File(self.path(".env")) }
    }

    pub(crate) fn context(&self) -> Context {
        let environment = self.environment();
        let target = Target::read(self.place(), None, &environment);
        let wishes = Wishes { limit: self.limit, deep: self.deep, docker: None, engine: None };
        Context::new(target, wishes, environment).expect("TLS can be set up")
    }

    /// Looks with these checks, or with all.
    pub(crate) async fn look(&self, only: &[&str]) -> Report {
        let only: Vec<String> = only.iter().map(|id| (*id).to_owned()).collect();
        let report = run(&self.context(), &only).await;
        for finding in report.findings.iter().filter(|finding| finding.level >= Level::Warning) {
            assert!(!finding.why.is_empty(), "{finding:?} says why it matters");
            assert!(finding.remedy.as_ref().is_some_and(|remedy| !remedy.paste.is_empty()), "{finding:?} has a remedy");
        }
        report
    }

    /// The finding of this id, the worst where there are several; looks with its check.
    pub(crate) async fn finding(&self, id: &str) -> Finding {
        let check = id.split('.').next().expect("an id has a first part");
        let report = self.look(&[check]).await;
        let found = report.findings.iter().filter(|finding| finding.id == id).max_by_key(|finding| finding.level);
        found.unwrap_or_else(|| panic!("no `{id}` among {:#?}", report.findings)).clone()
    }

    /// Fails unless everything that this check sees is well.
    pub(crate) async fn is_well(&self, check: &str) {
        let report = self.look(&[check]).await;
        let bad: Vec<_> = report.findings.iter().filter(|finding| finding.level >= Level::Warning).collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }

    /// Carries a remedy out as its reader would: in a shell, or in this process what is `ambientctl`.
    pub(crate) async fn carry_out(&self, remedy: &Remedy) {
        assert_eq!(remedy.how, "run", "{remedy:?}");
        self.run(&remedy.paste).await.unwrap_or_else(|failure| panic!("{}: {}", remedy.paste, failure.text()));
    }

    /// The same for a command that asks for a secret.
    pub(crate) async fn carry_out_with(&self, remedy: &Remedy, name: &str, secret: &str) {
        assert_eq!(remedy.how, "run", "{remedy:?}");
        let asked = format!("ambientctl config set {name} ");
        assert!(format!("{} ", remedy.paste).starts_with(&asked), "{remedy:?}");
        let answered = remedy.paste.replacen(&format!("set {name}"), &format!("set {name}={secret}"), 1);
        self.run(&answered).await.unwrap_or_else(|failure| panic!("{answered}: {}", failure.text()));
    }

    async fn run(&self, command: &str) -> Result<Exit, Failure> {
        let Some(words) = command.strip_prefix("ambientctl ") else {
            let output = self.shell(command);
            assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
            return Ok(Exit::Ok);
        };
        // The shell takes the words apart.
        let output = self.shell(&format!("printf '%s\\0' {words}"));
        let words = String::from_utf8(output.stdout).expect("words are text");
        // The installations of these tests run nowhere.
        let is_change = self.is_install && words.starts_with("config");
        let more = is_change.then_some("--no-apply");
        let words = ["ambientctl"].into_iter().chain(words.split_terminator('\0')).chain(more);
        let words = Words::try_parse_from(words).unwrap_or_else(|error| panic!("{command}: {error}"));
        let (environment, quiet) = (self.environment(), Printer { json: false, quiet: true });
        match words.command {
            Word::Config(args) => config::run(&args, &environment, &quiet).await,
            Word::Doctor(args) => doctor::run(&args, &environment, quiet).await,
        }
    }

    /// A program that remedies call and that is not on every machine, as a script; it comes before one of the machine's own.
    pub(crate) fn hand(&self, name: &str, script: &str) -> io::Result<()> {
        let folder = self.path("hands");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), format!("#!/bin/sh\n{script}\n"))?;
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o700))
    }

    #[expect(clippy::disallowed_methods, reason = "remedies are for a shell")]
    fn shell(&self, command: &str) -> Output {
        let hands = self.path("hands");
        let path = format!("{}:{}", hands.display(), variable("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(self.home.path()).env("PATH", path);
        shell.output().expect("there is a shell")
    }
}

/// What mends a finding.
pub(crate) fn remedy(finding: &Finding) -> &Remedy {
    finding.remedy.as_ref().expect("what is bad has a remedy")
}

/// A port of the loopback on which nobody listens.
pub(crate) fn closed_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it has an address").port()
}

/// A file's rights.
pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the file is there").permissions().mode() & 0o777
}
