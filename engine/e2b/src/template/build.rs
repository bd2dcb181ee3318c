//! Building a template: hash, ask, upload, start, follow.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::Duration;

use reqwest::{Body, Method};
use tokio::time::Instant;
use tokio_util::io::ReaderStream;

use super::archive::{self, Archive, Links};
use super::context::Context;
use super::{Base, Template};
use crate::api_error::Subject;
use crate::client::{done, parse};
use crate::error::Error;
use crate::protocol::template::{
    BuildProgress, BuildStatus, CreateTemplate, CreatedTemplate, FileUpload, StartBuild, Step, StepKind,
};
use crate::protocol::{LogEntry, TemplateName};
use crate::templates::{Templates, path};
use crate::transport::{ApiRequest, broken, deadline_after, segment};

/// How often a build is asked how it stands.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How long one archive may take to upload.
const UPLOAD_LIMIT: Duration = Duration::from_hours(1);

/// How often the upload of an archive is tried.
const UPLOAD_TRIES: u32 = 3;

/// How a template is built.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// `alias`, `alias:tag` or `team/alias:tag`. A name that the team has already gets a new build.
    pub name: String,
    /// Tags for the build; none means `default`.
    pub tags: Vec<String>,
    /// Processors of its sandboxes: 1 or even; `None` means the service's default.
    pub cpu_count: Option<u32>,
    /// Memory of its sandboxes in MiB, even; `None` means the service's default.
    pub memory_mb: Option<u64>,
    /// How long the build is followed.
    pub timeout: Duration,
}

impl BuildOptions {
    /// A build under this name, of the service's default size, followed for two hours.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), tags: Vec::new(), cpu_count: None, memory_mb: None, timeout: Duration::from_hours(2) }
    }
}

/// A build that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedBuild {
    /// Id of the template.
    pub template_id: String,
    /// Id of the build.
    pub build_id: String,
    /// Names of the template with their team.
    pub names: Vec<String>,
    /// Tags of the build.
    pub tags: Vec<String>,
    /// How many archives were uploaded; those that the service had already are not counted.
    pub uploads: usize,
}

/// A build that is done. The same facts as [`StartedBuild`].
pub type BuiltTemplate = StartedBuild;

/// A step's files, by their hash.
type Archives = BTreeMap<String, Archive>;

impl Templates<'_> {
    /// Builds a template and waits until it can be used; `on_log` gets every line of the log, in order.
    ///
    /// # Errors
    /// [`Error::BadTemplate`] before anything is sent; [`Error::BuildFailed`] when a step failed; [`Error::RequestTimedOut`] when the build goes on for longer
    /// than it is followed.
    pub async fn build(
        &self,
        template: &Template,
        options: &BuildOptions,
        on_log: impl FnMut(&LogEntry) + Send,
    ) -> Result<BuiltTemplate, Error> {
        let started = self.start_build(template, options).await?;
        self.follow(&started, options.timeout, on_log).await?;
        Ok(started)
    }

    /// Starts a build and leaves it to itself.
    ///
    /// # Errors
    /// As [`build`](Self::build), up to the start.
    pub async fn start_build(&self, template: &Template, options: &BuildOptions) -> Result<StartedBuild, Error> {
        let name: TemplateName = options
            .name
            .parse()
            .map_err(|bad: crate::protocol::BadName| Error::InvalidArgument { message: bad.to_string() })?;
        // Everything that can be wrong here is found before the service hears of it.
        let planned = template.clone();
        let (start, archives) = blocking(move || planned.plan()).await?;
        let body = CreateTemplate {
            name: name.to_string(),
            tags: options.tags.clone(),
            cpu_count: options.cpu_count,
            memory_mb: options.memory_mb,
            min_free_disk_mb: None,
        };
        let request = ApiRequest::new(Method::POST, "/v3/templates").body(&body)?.if_refused_only();
        let created: CreatedTemplate =
            parse(&self.client.api(&request).await?, Subject::Template(&options.name), "a new template")?;
        let mut uploads = 0;
        for (hash, files) in archives {
            uploads += usize::from(self.upload(&created.template_id, &hash, files).await?);
        }
        let build = format!("/v2{}/builds/{}", path(&created.template_id, ""), segment(&created.build_id));
        let request = ApiRequest::new(Method::POST, build).body(&start)?.if_refused_only();
        done(&self.client.api(&request).await?, Subject::Template(&options.name))?;
        let CreatedTemplate { template_id, build_id, names, tags, .. } = created;
        Ok(StartedBuild { template_id, build_id, names, tags, uploads })
    }

    /// Where a build stands, and its log from line `offset` on.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] or [`Error::TemplateUnknown`] when there is no such build.
    pub async fn build_progress(&self, build: &StartedBuild, offset: usize) -> Result<BuildProgress, Error> {
        let rest = format!("/builds/{}/status", segment(&build.build_id));
        let request = ApiRequest::new(Method::GET, path(&build.template_id, &rest))
            .query("logsOffset", Some(offset))
            .query("limit", Some(100));
        parse(&self.client.api(&request).await?, Subject::Template(&build.template_id), "a build's progress")
    }

    /// Waits for a build's end; `on_log` gets every line of its log from the beginning, in order and to the last.
    ///
    /// # Errors
    /// [`Error::BuildFailed`] when a step failed; [`Error::RequestTimedOut`] when it is not done within `limit`.
    pub async fn follow(
        &self,
        build: &StartedBuild,
        limit: Duration,
        mut on_log: impl FnMut(&LogEntry) + Send,
    ) -> Result<(), Error> {
        let deadline = deadline_after(limit);
        let mut offset = 0;
        let mut end: Option<BuildProgress> = None;
        loop {
            let progress = self.build_progress(build, offset).await?;
            progress.log_entries.iter().for_each(&mut on_log);
            offset += progress.log_entries.len();
            let is_empty = progress.log_entries.is_empty();
            if end.is_none() && matches!(progress.status, BuildStatus::Ready | BuildStatus::Error) {
                end = Some(progress);
            }
            match &end {
                // A page holds 100 lines: the last ones come after the end.
                Some(end) if is_empty => return outcome(end),
                Some(_) => {}
                None if Instant::now() >= deadline => return Err(Error::RequestTimedOut { limit }),
                None => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Uploads the archive of a hash unless the service has it. `true` says that it was uploaded.
    async fn upload(&self, template_id: &str, hash: &str, files: Archive) -> Result<bool, Error> {
        let rest = format!("/files/{hash}");
        let request = ApiRequest::new(Method::GET, path(template_id, &rest));
        let answer = self.client.api(&request).await?;
        let target: FileUpload = parse(&answer, Subject::Template(template_id), "an upload's address")?;
        let url = match target.url {
            Some(url) if !target.present => url,
            _ => return Ok(false),
        };
        let (file, size) = blocking(move || archive::pack(&files)).await?;
        let mut last = None;
        for _ in 0..UPLOAD_TRIES {
            let again = file.try_clone().map_err(cannot_send)?;
            match self.put(url.expose(), &target.headers, again, size).await {
                Ok(()) => return Ok(true),
                Err(error @ (Error::Broken { .. } | Error::Unavailable { .. })) => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| Error::Protocol { message: "an upload that was never tried".to_owned() }))
    }

    async fn put(&self, url: &str, headers: &BTreeMap<String, String>, file: File, size: u64) -> Result<(), Error> {
        let file = blocking(move || {
            use std::io::Seek as _;
            let mut file = file;
            file.rewind().map_err(cannot_send)?;
            Ok(file)
        })
        .await?;
        // Presigned addresses of object stores take no chunked body: the length is said.
        let mut request =
            self.client.inner.transport.http.put(url).header("Content-Length", size).timeout(UPLOAD_LIMIT);
        for (name, value) in headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("content-length")) {
            request = request.header(name, value);
        }
        let body = ReaderStream::with_capacity(tokio::fs::File::from_std(file), 64 << 10);
        let response = request.body(Body::wrap_stream(body)).send().await.map_err(broken)?;
        match response.status().as_u16() {
            200..=299 => Ok(()),
            status @ (429 | 500..=599) => {
                Err(Error::Unavailable { status, message: "the archive of a COPY was not taken".to_owned() })
            }
            status => {
                Err(Error::Api { status, message: "the archive of a COPY was refused".to_owned(), error_code: None })
            }
        }
    }
}

fn cannot_send(source: std::io::Error) -> Error {
    Error::Io { action: "send the files of a COPY".to_owned(), source }
}

fn outcome(end: &BuildProgress) -> Result<(), Error> {
    if end.status == BuildStatus::Ready {
        return Ok(());
    }
    let reason = end.reason.clone().unwrap_or_default();
    let message = if reason.message.is_empty() { "the builder gave no reason".to_owned() } else { reason.message };
    Err(Error::BuildFailed { message, step: reason.step.unwrap_or_else(|| "unknown".to_owned()) })
}

/// Runs what reads files beside the runtime.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(Error::Io { action: "prepare the files of a build".to_owned(), source: error.into() }),
    }
}

impl Template {
    /// The body that starts the build, and the archives that its hashes stand for.
    fn plan(&self) -> Result<(StartBuild, Archives), Error> {
        let mut archives = Archives::new();
        let context = self.context.as_ref().map(|folder| Context::open(folder, &self.ignored)).transpose()?;
        let mut steps: Vec<Step> = self.steps.clone();
        for (place, step) in steps.iter_mut().enumerate().filter(|(_place, step)| step.kind == StepKind::Copy) {
            let [source, dest, ..] = step.args.as_slice() else { continue };
            let Some(context) = &context else {
                return Err(Error::BadTemplate { message: format!("COPY `{source}` without a folder to copy from") });
            };
            let links = if self.following.contains(&place) { Links::Followed } else { Links::Kept };
            let archive = Archive { entries: context.entries(source)?, links };
            let hash = archive::hash(source, dest, &archive)?;
            step.files_hash = Some(hash.clone());
            archives.insert(hash, archive);
        }
        let (from_image, from_template) = match &self.base {
            Base::Image(image) => (Some(image.clone()), None),
            Base::Template(name) => (None, Some(name.clone())),
        };
        let start = StartBuild {
            from_image,
            from_template,
            from_image_registry: self.access.clone(),
            force: self.force,
            steps,
            start_cmd: self.start_command.clone(),
            ready_cmd: self.ready_command.clone(),
        };
        Ok((start, archives))
    }

    /// What would be sent to start the build: the steps with the hashes of their files. Reads the context.
    ///
    /// # Errors
    /// [`Error::BadTemplate`] when files are missing, [`Error::Io`] when they cannot be read.
    pub fn start_request(&self) -> Result<StartBuild, Error> {
        self.plan().map(|(start, _archives)| start)
    }
}
