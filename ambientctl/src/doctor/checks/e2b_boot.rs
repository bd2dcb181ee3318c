//! Boots one sandbox as a session does, runs the media tool in it, and ends it. Only with `--deep`, since it costs.

use std::time::{Duration, Instant};

use ambient_e2b::{Client, Command, Error, ErrorKind, NewSandbox, Sandbox};

use crate::commands::template::check;
use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};
use crate::doctor::target::chain;

/// Ends the sandbox should this program be cut off.
const LIFE: Duration = Duration::from_mins(3);
const BOOT_LIMIT: Duration = Duration::from_mins(1);
const PROBE_LIMIT: Duration = Duration::from_mins(1);
/// A second of video, small enough to travel in a command.
const SAMPLE: &[u8] = include_bytes!("../sample.mp4");
const SAMPLE_PATH: &str = "/tmp/ambient-doctor.mp4";
/// The media tool of a template of ours.
const TOOL: &str = "/app/ambientctl";

pub(super) async fn look(context: &Context, sink: &Sink) {
    let target = &context.target;
    if !target.is_on_e2b() {
        sink.put(Finding::skipped("e2b-boot.unused", "`SANDBOX_BACKEND` is not `e2b`, so no sandbox boots"));
        return;
    }
    if !context.wishes.deep {
        sink.put(Finding::skipped("e2b-boot.shallow", "`--deep` boots a sandbox, which costs about a minute of one"));
        return;
    }
    let name = target.settings.e2b.template.as_str();
    if target.settings.e2b.api_key.is_none() {
        sink.put(Finding::skipped("e2b-boot.unknown", "without a key no sandbox can boot; see `e2b-key`"));
        return;
    }
    sink.step(format!("a sandbox from the template `{name}`"));
    let begun = Instant::now();
    let booted = async {
        let client = context.e2b_within(BOOT_LIMIT)?;
        boot(&client, name).await
    };
    let sandbox = match booted.await {
        Ok(sandbox) => sandbox,
        Err(error) => {
            sink.put(not_booted(context, name, &error));
            return;
        }
    };
    let boot_time = begun.elapsed();
    sink.step(format!("`media probe` in the sandbox `{}`", sandbox.id()));
    let begun = Instant::now();
    let probed = probe(&sandbox).await;
    let probe_time = begun.elapsed();
    sink.step(format!("the end of the sandbox `{}`", sandbox.id()));
    let begun = Instant::now();
    let killed = sandbox.kill().await;
    let kill_time = begun.elapsed();
    match probed {
        Ok(()) => sink.put(Finding::ok(
            "e2b-boot.works",
            format!(
                "a sandbox of `{name}` booted in {:.1} s, `media probe` took {:.1} s, its end {:.1} s",
                boot_time.as_secs_f64(),
                probe_time.as_secs_f64(),
                kill_time.as_secs_f64()
            ),
        )),
        Err(problem) => sink.put(Finding::failure(
            "e2b-boot.tool",
            format!("a sandbox of `{name}` booted, but `media probe` did not work in it: {problem}"),
            "every clip and frame of a session is made by that tool",
            Remedy::run(target.template(&check::build(name))),
        )),
    }
    if let Err(error) = killed {
        sink.put(Finding::warning(
            "e2b-boot.left",
            format!("the sandbox `{}` could not be ended: {}", sandbox.id(), chain(&error)),
            format!("it costs until it ends by itself, in {} s", LIFE.as_secs()),
            Remedy::run(target.doctor("--only e2b-key")),
        ));
    }
}

async fn boot(client: &Client, name: &str) -> Result<Sandbox, Error> {
    let identity = format!("{:032x}", rand::random::<u128>());
    client.create(&NewSandbox::new(name).timeout(LIFE).identified_by("ambient_doctor", identity)).await
}

async fn probe(sandbox: &Sandbox) -> Result<(), String> {
    let told = |error: Error| chain(&error);
    sandbox.files().write(SAMPLE_PATH, SAMPLE.to_vec()).await.map_err(told)?;
    let command = Command::program(TOOL).args(["media", "probe", "--source-path", SAMPLE_PATH]).timeout(PROBE_LIMIT);
    let output = sandbox.commands().run(&command).await.map_err(told)?;
    if output.is_success() {
        return Ok(());
    }
    let said = output.stderr.text();
    Err(format!("it ended with {}: {}", output.exit.code, said.lines().last().unwrap_or("and said nothing")))
}

fn not_booted(context: &Context, name: &str, error: &Error) -> Finding {
    let why = "every session ends as `terminated`, with this in its `session.error`";
    let (id, remedy) = match error.kind() {
        ErrorKind::KeyRefused | ErrorKind::KeyMissing => {
            ("e2b-boot.key", context.target.set_secret(super::e2b_key::NAME))
        }
        ErrorKind::TemplateUnknown | ErrorKind::TemplateOfAnotherTeam => {
            ("e2b-boot.template", Remedy::run(context.target.template(&check::build(name))))
        }
        ErrorKind::RateLimited | ErrorKind::QuotaReached => (
            "e2b-boot.quota",
            Remedy::paste("end sandboxes, or raise the limit, in E2B's dashboard", "https://e2b.dev/dashboard"),
        ),
        _ => ("e2b-boot.failed", Remedy::run(context.target.doctor("--deep --only e2b-boot"))),
    };
    Finding::failure(id, format!("no sandbox of `{name}` booted: {}", chain(error)), why, remedy)
}
