//! Builds: each step in a sandbox of its own, whose files become a layer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ambient_e2b::protocol::LogLevel;
use ambient_e2b::protocol::template::{StartBuild, Step};
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Request};
use camino::Utf8Path;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio_util::io::ReaderStream;
use tokio_util::sync::CancellationToken;

use super::archives::{ArchiveFailure, Archives};
use super::base::BaseFailure;
use super::catalogue::{BASE_ALIAS, Catalogue, TemplateFailure};
use super::docker::is_reference;
use super::image::Image;
use super::layers::Layers;
use super::steps::{ARCHIVE, Action, BadStep, Progress, evaluation, word};
use crate::config::Team;
use crate::driver::{Dial, DialFailure, Launch, LaunchFailure, Launcher, Machine, Output, RunFailure, ShellCommand};
use crate::names::random_name;
use crate::sandboxes::start_command;

/// How long a start command has to become ready, and how often it is asked.
const READY: Duration = Duration::from_mins(10);
const READY_EVERY: Duration = Duration::from_secs(2);

/// The step names of what is not one of the steps.
const FIRST: &str = "base";
const LAST: &str = "finalize";

/// Images that stand for the base template, whatever their tag.
const BASE_IMAGES: [&str; 2] = ["base", "e2bdev/base"];

/// Images that the base template stands in for, where this machine's Docker has none of them.
const STOOD_IN: [&str; 4] = ["debian", "ubuntu", "library/debian", "library/ubuntu"];

/// Why a build failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildFailure {
    #[error("the image '{0}' is not on this machine: `docker pull {0}` gets it, or begin with e2bdev/base or debian")]
    NoImage(String),
    #[error("a build begins with an image or with a template")]
    NoBeginning,
    #[error("the image could not be made a root")]
    Root(#[from] BaseFailure),
    #[error(transparent)]
    Template(#[from] TemplateFailure),
    #[error("{0}")]
    Step(#[from] BadStep),
    #[error("the archive of the files is missing: upload it first")]
    NoArchive,
    #[error(transparent)]
    Archive(#[from] ArchiveFailure),
    #[error("the sandbox for the step did not start")]
    Launch(#[from] LaunchFailure),
    #[error("{what}")]
    Run {
        what: String,
        #[source]
        source: RunFailure,
    },
    #[error("{what}: it took longer than {} hours", LONGEST_STEP.as_secs() / 3600)]
    TooLong { what: String },
    #[error("{what}: {status}")]
    Ended { what: String, status: String },
    #[error("the archive did not reach the sandbox")]
    Upload(#[source] DialFailure),
    #[error("nobody wants it any more: its template was deleted")]
    Unwanted,
    #[error("the ready command did not succeed within {READY:?}")]
    NotReady,
    #[error("the layer cannot be kept")]
    Layer(#[source] std::io::Error),
}

impl BuildFailure {
    fn of_run(what: String, source: RunFailure) -> Self {
        if source.is_too_late() { Self::TooLong { what } } else { Self::Run { what, source } }
    }
}

/// How long a step may take. What takes longer does nothing any more, and would hold its place for ever.
const LONGEST_STEP: Duration = Duration::from_hours(2);

/// Bytes of output that make a line of the log by themselves.
const LONGEST_LINE: usize = 64 << 10;

/// A build that is to be run.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) team: Team,
    pub(crate) id: String,
    /// Cancelled when nobody wants it any more.
    pub(crate) unwanted: CancellationToken,
}

impl Job {
    /// Does work of it, as long as it is wanted.
    async fn while_wanted<T>(&self, work: impl Future<Output = Result<T, BuildFailure>>) -> Result<T, BuildFailure> {
        self.unwanted.run_until_cancelled(work).await.unwrap_or(Err(BuildFailure::Unwanted))
    }
}

/// Runs builds.
#[derive(Clone, Debug)]
pub(crate) struct Builder {
    pub(crate) launcher: Arc<Launcher>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) archives: Arc<Archives>,
    pub(crate) layers: Layers,
}

/// Writes the log of one build.
#[derive(Clone, Copy)]
struct Log<'a> {
    catalogue: &'a Catalogue,
    build_id: &'a str,
    step: &'a str,
    /// `[builder 2/5]`, or the name of what is no step.
    mark: &'a str,
}

impl Log<'_> {
    fn say(&self, level: LogLevel, message: &str) {
        self.catalogue.log(self.build_id, self.step, level, format!("{} {message}", self.mark));
    }
}

impl Builder {
    /// Runs a build to its end, and writes into the catalogue how that was.
    pub(crate) async fn build(self, job: Job, sizes: (u32, u64), wish: StartBuild) {
        let mut step = FIRST.to_owned();
        let ended = self.steps(&job, sizes, wish, &mut step).await;
        let build_id = job.id;
        let ended = match ended {
            Ok(image) => {
                self.catalogue.log(&build_id, LAST, LogLevel::Info, "Build finished".to_owned());
                Ok(image)
            }
            Err(failure) => {
                let message = crate::with_causes(&failure);
                self.catalogue.log(&build_id, &step, LogLevel::Error, format!("Build failed: {message}"));
                Err((message, Some(step)))
            }
        };
        self.catalogue.end_build(&build_id, ended);
    }

    async fn steps(
        &self,
        job: &Job,
        (cpu_count, memory_mb): (u32, u64),
        wish: StartBuild,
        at: &mut String,
    ) -> Result<Image, BuildFailure> {
        let build_id = &job.id;
        let mut image = self.beginning(&job.team, &wish, self.log(build_id, FIRST, "[base]")).await?;
        (image.cpu_count, image.memory_mb) = (cpu_count, memory_mb);
        let mut progress = Progress::new(&job.team, image);
        let total = wish.steps.len();
        for (place, step) in wish.steps.iter().enumerate() {
            *at = (place + 1).to_string();
            let mark = format!("[builder {at}/{total}]");
            let log = self.log(build_id, at, &mark);
            let salt = (wish.force || step.force).then(|| random_name(16));
            progress = self.step(job, &progress, step, salt.as_deref(), log).await?;
        }
        LAST.clone_into(at);
        let mut image = progress.image;
        image.start_command = wish.start_cmd.filter(|line| !line.trim().is_empty());
        image.ready_command = wish.ready_cmd.filter(|line| !line.trim().is_empty());
        self.finalize(job, &image, self.log(build_id, LAST, "[finalize]")).await?;
        Ok(image)
    }

    fn log<'a>(&'a self, build_id: &'a str, step: &'a str, mark: &'a str) -> Log<'a> {
        Log { catalogue: &self.catalogue, build_id, step, mark }
    }

    async fn beginning(&self, team: &Team, wish: &StartBuild, log: Log<'_>) -> Result<Image, BuildFailure> {
        if let Some(template) = wish.from_template.as_deref().filter(|name| !name.is_empty()) {
            log.say(LogLevel::Info, &format!("FROM template {template}"));
            let mut image = (*self.catalogue.resolve(team, template)?.image).clone();
            (image.start_command, image.ready_command) = (None, None);
            return Ok(image);
        }
        let reference = wish.from_image.as_deref().filter(|name| !name.is_empty()).ok_or(BuildFailure::NoBeginning)?;
        log.say(LogLevel::Info, &format!("FROM {reference}"));
        let short = reference.strip_prefix("docker.io/").unwrap_or(reference);
        let without_tag = short.split(['@', ':']).next().unwrap_or(short);
        let base = || (*self.catalogue.base()).clone();
        if BASE_IMAGES.contains(&without_tag) {
            return Ok(base());
        }
        if is_reference(reference)
            && let Some(layer) = self.launcher.local_image(&self.layers, reference).await?
        {
            return Ok(Image::of_layer(layer));
        }
        if STOOD_IN.contains(&without_tag) {
            let message = format!("'{reference}' is not on this machine: `{BASE_ALIAS}`, a Debian, stands in for it");
            log.say(LogLevel::Warn, &message);
            return Ok(base());
        }
        Err(BuildFailure::NoImage(reference.to_owned()))
    }

    async fn step(
        &self,
        job: &Job,
        progress: &Progress,
        step: &Step,
        salt: Option<&str>,
        log: Log<'_>,
    ) -> Result<Progress, BuildFailure> {
        let told = format!("{} {}", word(step.kind), step.args.join(" "));
        match progress.action(step)? {
            Action::Evaluate(pairs) => {
                log.say(LogLevel::Info, &told);
                Ok(progress.with_variables(self.evaluate(job, &progress.image, pairs).await?))
            }
            Action::Layer { line, user, variables, folder, archive, failure, after } => {
                let name = progress.layer_name(step, salt);
                if self.layers.has(&name) {
                    log.say(LogLevel::Info, &format!("CACHED {told}"));
                    return Ok(progress.with_layer(step, salt, name, after));
                }
                log.say(LogLevel::Info, &told);
                let archive = match archive {
                    Some(hash) => {
                        let place = self.archives.place(&job.team, &hash)?;
                        Some(place.is_file().then_some(place).ok_or(BuildFailure::NoArchive)?)
                    }
                    None => None,
                };
                let command = ShellCommand {
                    line: &line,
                    user: &user,
                    variables: &variables,
                    folder: folder.as_deref(),
                    tag: None,
                    limit: Some(LONGEST_STEP),
                };
                let bench = Workbench::start(self, &progress.image).await?;
                let work = run_step(bench.dial(), archive.as_deref(), command, &failure, log);
                if let Err(error) = job.while_wanted(work).await {
                    bench.discard(self).await;
                    return Err(error);
                }
                bench.keep(self, &name).await?;
                Ok(progress.with_layer(step, salt, name, after))
            }
        }
    }

    /// Values in which a shell as root has replaced variables: those of the base, since none of the build are set.
    async fn evaluate(
        &self,
        job: &Job,
        image: &Image,
        pairs: Vec<(String, String)>,
    ) -> Result<Vec<(String, String)>, BuildFailure> {
        if pairs.iter().all(|(_name, value)| evaluation(value).is_none()) {
            return Ok(pairs);
        }
        let bench = Workbench::start(self, image).await?;
        let evaluated = job.while_wanted(evaluate_in(bench.dial(), pairs)).await;
        bench.discard(self).await;
        evaluated
    }

    /// Starts what sandboxes will start, to see that it becomes ready.
    async fn finalize(&self, job: &Job, image: &Image, log: Log<'_>) -> Result<(), BuildFailure> {
        if image.start_command.is_none() && image.ready_command.is_none() {
            return Ok(());
        }
        let named = |what, line: &Option<String>| {
            if let Some(line) = line {
                log.say(LogLevel::Info, &format!("{what} command: {line}"));
            }
        };
        named("start", &image.start_command);
        named("ready", &image.ready_command);
        let bench = Workbench::start(self, image).await?;
        let started = job.while_wanted(become_ready(bench.dial(), image)).await;
        bench.discard(self).await;
        started
    }
}

async fn become_ready(dial: &Dial, image: &Image) -> Result<(), BuildFailure> {
    let is_ready = start_command::start(dial, image, READY_EVERY, READY, true).await;
    let what = "the start command failed".to_owned();
    let is_ready = is_ready.map_err(|source| BuildFailure::Run { what, source })?;
    if is_ready { Ok(()) } else { Err(BuildFailure::NotReady) }
}

async fn run_step(
    dial: &Dial,
    archive: Option<&Utf8Path>,
    command: ShellCommand<'_>,
    failure: &str,
    log: Log<'_>,
) -> Result<(), BuildFailure> {
    if let Some(archive) = archive {
        upload(dial, archive).await?;
    }
    let mut lines = Lines::new(log);
    let end = dial.run(command, |from, bytes| lines.add(from, &bytes)).await;
    lines.finish();
    let end = end.map_err(|source| BuildFailure::of_run(failure.to_owned(), source))?;
    if end.exit_code == 0 {
        return Ok(());
    }
    Err(BuildFailure::Ended { what: failure.to_owned(), status: end.status })
}

async fn evaluate_in(dial: &Dial, pairs: Vec<(String, String)>) -> Result<Vec<(String, String)>, BuildFailure> {
    let none = BTreeMap::new();
    let mut evaluated = Vec::with_capacity(pairs.len());
    for (name, value) in pairs {
        let Some(line) = evaluation(&value) else {
            evaluated.push((name, value));
            continue;
        };
        let what = format!("failed to evaluate the value of '{name}'");
        let command = ShellCommand {
            line: &line,
            user: "root",
            variables: &none,
            folder: Some("/"),
            tag: None,
            limit: Some(LONGEST_STEP),
        };
        let mut printed = Vec::new();
        let end = dial.run(command, |from, bytes| {
            if from == Output::Stdout {
                printed.extend_from_slice(&bytes);
            }
        });
        let end = end.await.map_err(|source| BuildFailure::of_run(what.clone(), source))?;
        if end.exit_code != 0 {
            return Err(BuildFailure::Ended { what, status: end.status });
        }
        evaluated.push((name, String::from_utf8_lossy(&printed).into_owned()));
    }
    Ok(evaluated)
}

async fn upload(dial: &Dial, archive: &Utf8Path) -> Result<(), BuildFailure> {
    let file = tokio::fs::File::open(archive).await.map_err(BuildFailure::Layer)?;
    let path = utf8_percent_encode(ARCHIVE, NON_ALPHANUMERIC);
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("/files?path={path}&username=root"))
        .header(CONTENT_TYPE, "application/octet-stream")
        .body(Body::from_stream(ReaderStream::new(file)))
        .expect("these headers are plain");
    let answer = dial.send(request).await.map_err(BuildFailure::Upload)?;
    if answer.status().is_success() { Ok(()) } else { Err(BuildFailure::Upload(DialFailure::Refused(answer.status()))) }
}

/// A sandbox of one step. Dropped, it ends; its files are removed with the next start of the host at the latest.
struct Workbench {
    id: String,
    machine: Machine,
}

impl Workbench {
    async fn start(builder: &Builder, image: &Image) -> Result<Self, BuildFailure> {
        let id = format!("b{}", random_name(20));
        let launch = Launch {
            id: id.clone(),
            layers: image.layers.clone(),
            limits: image.limits(),
            variables: BTreeMap::new(),
            default_user: image.user.clone(),
            default_workdir: None,
            internet: true,
        };
        match builder.launcher.start(launch).await {
            Ok(machine) => Ok(Self { id, machine }),
            Err(failure) => {
                builder.launcher.remove_files(&id);
                Err(failure.into())
            }
        }
    }

    fn dial(&self) -> &Dial {
        self.machine.dial()
    }

    /// Makes a layer of what was written.
    async fn keep(self, builder: &Builder, name: &str) -> Result<(), BuildFailure> {
        self.machine.end().await;
        builder.launcher.keep(&self.id, &builder.layers, name).await.map_err(BuildFailure::Layer)
    }

    async fn discard(self, builder: &Builder) {
        self.machine.end().await;
        builder.launcher.remove_files(&self.id);
    }
}

/// Puts output together into lines, of either stream by itself.
struct Lines<'a> {
    log: Log<'a>,
    pending: [Vec<u8>; 2],
}

impl<'a> Lines<'a> {
    fn new(log: Log<'a>) -> Self {
        Self { log, pending: [Vec::new(), Vec::new()] }
    }

    fn add(&mut self, from: Output, bytes: &[u8]) {
        let place = usize::from(from == Output::Stderr);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.pending[place].extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.pending[place].len() >= LONGEST_LINE {
                let line = std::mem::take(&mut self.pending[place]);
                self.say(place, &line);
            }
        }
    }

    fn finish(mut self) {
        for place in [0, 1] {
            let rest = std::mem::take(&mut self.pending[place]);
            if !rest.is_empty() {
                self.say(place, &rest);
            }
        }
    }

    fn say(&self, place: usize, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let (level, stream) = [(LogLevel::Info, "stdout"), (LogLevel::Warn, "stderr")][place];
        self.log.say(level, &format!("[{stream}]: {}", line.trim_end()));
    }
}

#[cfg(test)]
mod tests {
    use ambient_e2b::protocol::connect::{Code, ConnectError};

    use super::*;

    #[test]
    fn a_step_that_took_too_long_says_so() {
        let failure = |code| {
            let source = RunFailure::Refused(ConnectError::new(code, "what the agent says"));
            crate::with_causes(&BuildFailure::of_run("failed to run command 'make'".to_owned(), source))
        };
        assert_eq!(failure(Code::DeadlineExceeded), "failed to run command 'make': it took longer than 2 hours");
        assert_eq!(failure(Code::Internal), "failed to run command 'make': internal: what the agent says");
    }
}
