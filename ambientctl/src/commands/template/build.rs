//! `ambientctl template build`: makes the sandbox template, from any folder.
//!
//! The Dockerfile is in this program, and this program goes into the template: both are of one version by construction,
//! and the build is tagged with it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ambient_e2b::protocol::LogEntry;
use ambient_e2b::{BuildOptions, BuiltTemplate, Error, Template};
use serde_json::json;

use super::failure::told;
use super::{Service, version_tag};
use crate::environment::Environment;
use crate::output::{Exit, Failure, Printer};

/// The name that sessions use unless `E2B_TEMPLATE` says another.
pub(super) const NAME: &str = "video-analysis-v1";
/// What `--dev` adds to a name.
pub(super) const DEV_SUFFIX: &str = "-dev";
/// The size of sandboxes, and how long a build is followed, where nobody says.
const USUAL_CPU: u32 = 8;
const USUAL_MEMORY_MB: u64 = 8192;
const USUAL_MINUTES: u64 = 120;
/// The tag of the build that a name without a tag means.
const IN_USE: &str = "default";

const DOCKERFILE: &str = include_str!("../../../../compose/sandbox/Dockerfile");
/// How the paragraph of the Dockerfile begins that fetches what YouTube imports need.
const YOUTUBE: &str = "# youtube:";
/// How a program for Linux begins.
const ELF: &[u8; 4] = b"\x7fELF";

/// Words of `ambientctl template build`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Build under the name for trying changes, which production does not use
    #[arg(long)]
    dev: bool,
    /// The template's name [default: video-analysis-v1, with --dev video-analysis-v1-dev]
    #[arg(long, value_name = "NAME", conflicts_with = "dev")]
    name: Option<String>,
    /// Processors of its sandboxes: 1 or an even number
    #[arg(long, value_name = "NUMBER", default_value_t = USUAL_CPU, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpu: u32,
    /// Memory of its sandboxes in MB, an even number
    #[arg(long, value_name = "MB", default_value_t = USUAL_MEMORY_MB, value_parser = clap::value_parser!(u64).range(128..=262_144))]
    memory: u64,
    /// Do all steps anew
    #[arg(long)]
    no_cache: bool,
    /// Leave out deno and yt-dlp, which only imports from YouTube need
    #[arg(long)]
    without_youtube: bool,
    /// The program for Linux that goes into the template [default: this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Minutes to follow the build
    #[arg(long, value_name = "MINUTES", default_value_t = USUAL_MINUTES, value_parser = clap::value_parser!(u64).range(1..=1440))]
    timeout: u64,
    #[command(flatten)]
    service: Service,
}

impl Args {
    /// A build of this name, as without any other word but perhaps `--without-youtube`.
    pub(super) fn named(name: String, with_youtube: bool, service: Service) -> Self {
        Self {
            dev: false,
            name: Some(name),
            cpu: USUAL_CPU,
            memory: USUAL_MEMORY_MB,
            no_cache: false,
            without_youtube: !with_youtube,
            program: None,
            timeout: USUAL_MINUTES,
            service,
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum BuildError {
    #[error("could not put `{}` beside the Dockerfile", path.display())]
    Program { path: PathBuf, source: io::Error },
    #[error("`{}` is no program for Linux, which sandboxes run", .0.display())]
    NotForLinux(PathBuf),
    #[error("this program cannot tell where it is")]
    Where(#[source] io::Error),
    #[error("no folder for the build could be made")]
    Folder(#[source] io::Error),
}

/// A build that went well.
#[derive(Debug)]
pub(super) struct Done {
    name: String,
    /// The template that sessions use.
    used: String,
    built: BuiltTemplate,
    seconds: u64,
}

pub(super) async fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let Done { name, used, built, seconds } = build(args, environment, printer).await?;
    if printer.json {
        let done = json!({
            "name": name,
            "template_id": built.template_id,
            "build_id": built.build_id,
            "tags": built.tags,
            "uploads": built.uploads,
            "seconds": seconds,
        });
        printer.data(&done.to_string());
    } else {
        printer.data(&format!("built `{name}` ({}) in {seconds} s", built.template_id));
    }
    if name != used {
        printer.warning(&format!(
            "`E2B_TEMPLATE` is `{used}`, so sessions go on with that: `ambientctl config set E2B_TEMPLATE {name}` changes it"
        ));
    }
    Ok(Exit::Ok)
}

/// Builds, and shows the build's log. What came of it is the caller's to tell.
pub(super) async fn build(args: &Args, environment: &Environment, printer: Printer) -> Result<Done, Failure> {
    let (client, used) = args.service.open(environment, printer)?;
    let name =
        args.name.clone().unwrap_or_else(|| if args.dev { format!("{NAME}{DEV_SUFFIX}") } else { NAME.to_owned() });
    let folder = tempfile::tempdir().map_err(|error| Failure::new(Exit::Internal, BuildError::Folder(error)))?;
    put_program(args.program.as_deref(), folder.path())?;
    let text = dockerfile(!args.without_youtube);
    let mut template = Template::from_dockerfile(&text).map_err(|error| told(error, &name))?.context(folder.path());
    if args.no_cache {
        template = template.without_cache();
    }
    let options = BuildOptions {
        tags: vec![IN_USE.to_owned(), version_tag()],
        cpu_count: Some(args.cpu),
        memory_mb: Some(args.memory),
        timeout: Duration::from_secs(args.timeout * 60),
        ..BuildOptions::new(name.clone())
    };
    let begun = Instant::now();
    printer.note(&format!("building `{name}`: {} CPU, {} MB", args.cpu, args.memory));
    let built = client.templates().build(&template, &options, |entry| show(entry, printer)).await;
    let built = built.map_err(|error| {
        let is_step = matches!(error, Error::BuildFailed { .. });
        let failure = told(error, &name);
        if is_step && !args.without_youtube {
            return failure
                .hint("when it is deno or yt-dlp that could not be fetched: `--without-youtube` leaves them out");
        }
        failure
    })?;
    Ok(Done { name, used, built, seconds: begun.elapsed().as_secs() })
}

/// A line of the build's log, on stderr.
fn show(entry: &LogEntry, printer: Printer) {
    for line in entry.message.trim_end().lines() {
        match &entry.step {
            Some(step) => printer.note(&format!("[{step}] {line}")),
            None => printer.note(line),
        }
    }
}

/// The Dockerfile, with or without what YouTube imports need.
fn dockerfile(with_youtube: bool) -> String {
    let paragraphs = DOCKERFILE.split("\n\n").filter(|paragraph| with_youtube || !paragraph.starts_with(YOUTUBE));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Copies the program that goes into the template beside the Dockerfile.
fn put_program(named: Option<&Path>, folder: &Path) -> Result<(), Failure> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => std::env::current_exe().map_err(|error| Failure::new(Exit::Internal, BuildError::Where(error)))?,
    };
    let refused = |source| {
        Failure::new(Exit::Usage, BuildError::Program { path: path.clone(), source })
            .hint("name the program for Linux with `--program FILE`")
    };
    let mut start = [0; ELF.len()];
    File::open(&path).and_then(|mut file| file.read_exact(&mut start)).map_err(refused)?;
    if &start != ELF {
        return Err(Failure::new(Exit::Usage, BuildError::NotForLinux(path))
            .hint("name the program for Linux with `--program FILE`: it is in the release for Linux"));
    }
    fs::copy(&path, folder.join("ambientctl")).map_err(refused)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use ambient_e2b::protocol::template::StepKind;

    use super::*;

    fn steps(with_youtube: bool) -> Vec<String> {
        let template = Template::from_dockerfile(&dockerfile(with_youtube)).unwrap();
        assert_eq!(template.image(), Some("e2bdev/base:latest"));
        assert_eq!(template.notices(), [] as [String; 0]);
        let runs = template.steps().iter().filter(|step| step.kind == StepKind::Run);
        runs.map(|step| step.args[0].clone()).collect()
    }

    #[test]
    fn the_dockerfile_is_one_that_a_template_can_be_built_of() {
        let (with, without) = (steps(true), steps(false));
        assert!(with.iter().any(|run| run.contains("yt-dlp")));
        assert!(!without.iter().any(|run| run.contains("yt-dlp")));
        assert_eq!(with.len(), without.len() + 1);
    }

    #[test]
    fn only_a_program_for_linux_goes_into_a_template() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        let refused = put_program(Some(&script), folder.path()).unwrap_err();
        assert!(refused.text().contains("no program for Linux"), "{}", refused.text());
        assert!(refused.text().contains("--program"));
        let missing = put_program(Some(&folder.path().join("none")), folder.path()).unwrap_err();
        assert_eq!(missing.exit(), Exit::Usage);
        put_program(None, folder.path()).unwrap();
        assert!(folder.path().join("ambientctl").is_file());
    }
}
