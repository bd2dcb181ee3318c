//! Whether E2B's key gets to the engine, and whether E2B takes it.

use ambient_e2b::protocol::template::ListedTemplate;
use ambient_e2b::{Error, ErrorKind};
use secrecy::ExposeSecret as _;

use crate::commands::config::stack::Need;
use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};
use crate::doctor::target::{Target, chain};

pub(super) const NAME: &str = "E2B_API_KEY";
/// How keys begin, and how many hex digits follow.
const BEGINNING: &str = "e2b_";
const DIGITS: usize = 40;
/// Why it matters that there is a key.
const WHY: &str = "without it no sandbox can boot, and every session ends as `terminated`";

pub(super) async fn look(context: &Context, sink: &Sink) {
    let target = &context.target;
    if !target.is_on_e2b() {
        sink.put(Finding::skipped("e2b-key.unused", "`SANDBOX_BACKEND` is not `e2b`, so no key is needed"));
        return;
    }
    let Some(key) = target.settings.e2b.api_key.as_ref() else {
        sink.put(missing(context));
        return;
    };
    let key = key.expose_secret();
    if Target::is_placeholder(key) {
        sink.put(Finding::failure(
            "e2b-key.placeholder",
            format!("`{NAME}` ends in `...`, as examples do"),
            WHY,
            target.set_secret(NAME),
        ));
        return;
    }
    if context.no_certificates.is_some() {
        sink.put(Finding::skipped("e2b-key.unknown", "without certificates E2B cannot be asked; see `certificates`"));
        return;
    }
    sink.step(format!("the templates of the key's team, from {}", target.settings.e2b.api_url));
    let client = match context.e2b() {
        Ok(client) => client,
        Err(error) => {
            sink.put(refused(target, &error, key));
            return;
        }
    };
    sink.put(match context.templates(&client).await {
        Ok(templates) => Finding::ok("e2b-key.accepted", accepted(templates)),
        Err(error) => refused(target, error, key),
    });
}

/// The key's team, as far as it can be told: E2B names it in front of its templates.
fn accepted(templates: &[ListedTemplate]) -> String {
    let team = templates.iter().flat_map(|template| &template.names).find_map(|name| Some(name.split_once('/')?.0));
    match team {
        Some(team) => format!("E2B takes the key; its team is `{team}`, with {} templates", templates.len()),
        None if templates.is_empty() => {
            "E2B takes the key; it names a team only in front of its templates, and this one has none yet".to_owned()
        }
        None => format!("E2B takes the key; its team has {} templates", templates.len()),
    }
}

fn missing(context: &Context) -> Finding {
    let target = &context.target;
    let in_file = target.in_dotenv(NAME).filter(|(value, _)| !value.trim().is_empty());
    let in_shell = context.environment.variable(NAME).is_some_and(|value| !value.is_empty());
    if let (Some(stack), Some((_, line))) = (target.stack.as_ref().filter(|_| target.is_install()), &in_file) {
        let files = crate::commands::config::stack::Stack::of(stack.main.clone());
        if files.need(stack.over.as_deref(), NAME).is_ok_and(|need| need == Need::PassOn) {
            let finding = super::overrides::not_passed(target, &stack.folder, NAME, *line);
            return Finding { id: "e2b-key.not-passed", why: WHY.to_owned(), ..finding };
        }
    }
    if target.is_install() && in_file.is_none() && in_shell {
        let command = target.command(&format!("config set {NAME} -"));
        return Finding::failure(
            "e2b-key.shell-only",
            format!("`{NAME}` is set in this shell alone: it stops before `.env`, so the engine's container has none"),
            WHY,
            Remedy::run(format!("printf %s \"${NAME}\" | {command}")),
        );
    }
    let place = match &target.place {
        crate::doctor::Place::Process => "in the environment".to_owned(),
        _ => format!("in the environment and in `{}`", target.dotenv.path.display()),
    };
    let seen = if target.written(NAME).is_some() || in_file.is_some() {
        format!("`{NAME}` is there and empty")
    } else {
        format!("`{NAME}` is not set: looked {place}")
    };
    Finding::failure("e2b-key.missing", seen, WHY, target.set_secret(NAME))
}

fn refused(target: &Target, error: &Error, key: &str) -> Finding {
    let origin = &target.settings.e2b.api_url;
    match error.kind() {
        ErrorKind::KeyRefused | ErrorKind::PermissionDenied | ErrorKind::Config | ErrorKind::KeyMissing => {
            let digits = key.strip_prefix(BEGINNING);
            let form = match digits {
                None => format!("; it does not begin with `{BEGINNING}`, as keys of E2B do"),
                Some(digits) if digits.len() != DIGITS => {
                    format!("; it has {} characters behind `{BEGINNING}`, where keys have {DIGITS}", digits.len())
                }
                Some(_) => String::new(),
            };
            Finding::failure(
                "e2b-key.refused",
                format!("{origin} does not take `{NAME}`{form}"),
                WHY,
                target.set_secret(NAME),
            )
        }
        ErrorKind::RateLimited | ErrorKind::QuotaReached => Finding::warning(
            "e2b-key.limited",
            format!("{origin} put the question off: {}", chain(error)),
            "sessions wait for their sandboxes as long as E2B puts requests off",
            Remedy::run(target.doctor("--only e2b-key")),
        ),
        _ => Finding::failure(
            "e2b-key.unreachable",
            format!("{origin} did not answer as E2B does: {}", chain(error)),
            "the engine makes sandboxes there, and cannot now",
            Remedy::run(format!("curl -sS -o /dev/null -w '%{{http_code}}\\n' {origin}")),
        ),
    }
}
