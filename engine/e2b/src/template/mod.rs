//! Templates to be built: what they begin with, and the steps from there.

mod archive;
mod build;
mod context;
mod dockerfile;
mod ignore;
mod shell;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub use build::{BuildOptions, BuiltTemplate, StartedBuild};
use dockerfile::{Planned, convert};

use crate::error::Error;
use crate::protocol::template::{RegistryAccess, Step, StepKind};

/// The image that a template begins with when nothing else is said.
const BASE_IMAGE: &str = "e2bdev/base";

/// What makes a start command's sandbox ready when a Dockerfile says nothing about it: E2B waits 20 s.
const DOCKERFILE_READY: &str = "sleep 20";

/// A template to be built.
#[derive(Clone, Debug)]
pub struct Template {
    base: Base,
    access: Option<RegistryAccess>,
    steps: Vec<Step>,
    /// Places of the steps that copy what links lead to. Not part of a step: the service is not told.
    following: BTreeSet<usize>,
    start_command: Option<String>,
    ready_command: Option<String>,
    context: Option<PathBuf>,
    ignored: Vec<String>,
    force: bool,
    force_next: bool,
    notices: Vec<String>,
}

#[derive(Clone, Debug)]
enum Base {
    Image(String),
    Template(String),
}

impl Template {
    /// A template that begins with an image, such as `debian:12`.
    pub fn from_image(image: impl Into<String>) -> Self {
        Self::of(Base::Image(image.into()))
    }

    /// A template that begins with E2B's own base image.
    pub fn from_base_image() -> Self {
        Self::from_image(BASE_IMAGE)
    }

    /// A template that begins with an image of a registry that asks who one is.
    pub fn from_registry(image: impl Into<String>, access: RegistryAccess) -> Self {
        Self { access: Some(access), ..Self::from_image(image) }
    }

    /// A template that begins with another one, by its name.
    pub fn from_template(name: impl Into<String>) -> Self {
        Self::of(Base::Template(name.into()))
    }

    /// The template of a Dockerfile, given as its text. Its COPY and ADD take their files from [`context`](Self::context).
    ///
    /// # Errors
    /// [`Error::BadTemplate`] when it cannot be read, or asks for what a template cannot do: several stages, files from elsewhere. What has no meaning is left
    /// out and told in [`notices`](Self::notices).
    pub fn from_dockerfile(text: &str) -> Result<Self, Error> {
        let converted = convert(text)?;
        let mut template = Self::from_image(converted.image);
        for planned in converted.steps {
            template = match planned {
                Planned::Run { command, user: None } => template.run(command),
                Planned::Run { command, user: Some(user) } => template.run_as(command, user),
                Planned::Copy { source, dest, owner, mode } => template.copy(source, dest, owner.as_deref(), mode)?,
                Planned::Env(pairs) => template.env(pairs),
                Planned::Workdir(path) => template.workdir(path),
                Planned::User(name) => template.user(name),
            };
        }
        if let Some(command) = converted.start_command {
            template = template.start_command(command, DOCKERFILE_READY);
        }
        Ok(Self { notices: converted.notices, ..template })
    }

    fn of(base: Base) -> Self {
        Self {
            base,
            access: None,
            steps: Vec::new(),
            following: BTreeSet::new(),
            start_command: None,
            ready_command: None,
            context: None,
            ignored: Vec::new(),
            force: false,
            force_next: false,
            notices: Vec::new(),
        }
    }

    fn step(mut self, kind: StepKind, args: Vec<String>) -> Self {
        self.steps.push(Step { kind, args, files_hash: None, force: self.force_next });
        self
    }

    /// Runs a command as the current user.
    #[must_use]
    pub fn run(self, command: impl Into<String>) -> Self {
        self.step(StepKind::Run, vec![command.into()])
    }

    /// Runs a command as somebody else.
    #[must_use]
    pub fn run_as(self, command: impl Into<String>, user: impl Into<String>) -> Self {
        self.step(StepKind::Run, vec![command.into(), user.into()])
    }

    /// Copies what `source`, a path or pattern in the context, names to `dest`, for `owner` (`user` or `user:group`) and with `mode` if they are given.
    ///
    /// # Errors
    /// [`Error::BadTemplate`] when the source leaves the context.
    pub fn copy(
        self,
        source: impl Into<String>,
        dest: impl Into<String>,
        owner: Option<&str>,
        mode: Option<u32>,
    ) -> Result<Self, Error> {
        let source = source.into();
        context::check_inside(&source)?;
        let owner = owner.unwrap_or_default().to_owned();
        let mode = mode.map_or_else(String::new, |mode| format!("{mode:04o}"));
        Ok(self.step(StepKind::Copy, vec![source, dest.into(), owner, mode]))
    }

    /// As [`copy`](Self::copy), but a link becomes what it leads to (E2B's `resolve_symlinks`): a file with its content, a folder without what is in it. One that
    /// leads nowhere stays a link.
    ///
    /// # Errors
    /// [`Error::BadTemplate`] when the source leaves the context.
    pub fn copy_following_links(
        self,
        source: impl Into<String>,
        dest: impl Into<String>,
        owner: Option<&str>,
        mode: Option<u32>,
    ) -> Result<Self, Error> {
        let mut template = self.copy(source, dest, owner, mode)?;
        template.following.insert(template.steps.len() - 1);
        Ok(template)
    }

    /// Sets variables for the steps that follow. They do not reach sandboxes.
    #[must_use]
    pub fn env<N: Into<String>, V: Into<String>>(self, pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        let args: Vec<String> = pairs.into_iter().flat_map(|(name, value)| [name.into(), value.into()]).collect();
        if args.is_empty() { self } else { self.step(StepKind::Env, args) }
    }

    /// Sets the folder of the steps that follow, and of commands in sandboxes.
    #[must_use]
    pub fn workdir(self, path: impl Into<String>) -> Self {
        self.step(StepKind::Workdir, vec![path.into()])
    }

    /// Sets the user of the steps that follow, and of commands in sandboxes.
    #[must_use]
    pub fn user(self, name: impl Into<String>) -> Self {
        self.step(StepKind::User, vec![name.into()])
    }

    /// Runs a command in every sandbox from its first moment on; `ready` succeeds once that is ready.
    #[must_use]
    pub fn start_command(mut self, command: impl Into<String>, ready: impl Into<String>) -> Self {
        self.start_command = Some(command.into());
        self.ready_command = Some(ready.into());
        self
    }

    /// The folder from which files are copied.
    #[must_use]
    pub fn context(mut self, folder: impl AsRef<Path>) -> Self {
        self.context = Some(folder.as_ref().to_owned());
        self
    }

    /// Patterns of files that are not copied, beside those of the context's `.dockerignore`.
    #[must_use]
    pub fn ignore<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.ignored.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Does all steps, the base's too, though they are cached.
    #[must_use]
    pub fn without_cache(mut self) -> Self {
        self.force = true;
        self
    }

    /// Does the steps that are added from here on though they are cached.
    #[must_use]
    pub fn without_cache_from_here(mut self) -> Self {
        self.force_next = true;
        self
    }

    /// What a Dockerfile asked for that has no meaning in a template.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// The image that it begins with, `None` when it begins with another template.
    pub fn image(&self) -> Option<&str> {
        match &self.base {
            Base::Image(image) => Some(image),
            Base::Template(_) => None,
        }
    }

    /// The command of every sandbox's first moment, and what succeeds once that is ready.
    pub fn startup(&self) -> Option<(&str, &str)> {
        Some((self.start_command.as_deref()?, self.ready_command.as_deref()?))
    }

    /// The steps as they stand, without hashes.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}
