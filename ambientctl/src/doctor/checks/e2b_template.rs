//! Whether sessions can use the template that `E2B_TEMPLATE` names: `ambientctl template check`, as a finding.

use ambient_e2b::{Error, ErrorKind};

use crate::commands::template::check::{self, Finding as Verdict, Looked};
use crate::commands::template::version_tag;
use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};
use crate::doctor::fix::Fix;
use crate::doctor::target::chain;

const NAME: &str = "E2B_TEMPLATE";

pub(super) async fn look(context: &Context, sink: &Sink) {
    let target = &context.target;
    if !target.is_on_e2b() {
        sink.put(Finding::skipped("e2b-template.unused", "`SANDBOX_BACKEND` is not `e2b`, so no template is needed"));
        return;
    }
    if target.settings.e2b.api_key.is_none() {
        sink.put(Finding::skipped("e2b-template.unknown", "without a key, E2B does not show its templates"));
        return;
    }
    let name = target.settings.e2b.template.as_str();
    sink.step(format!("the template `{name}`, from {}", target.settings.e2b.api_url));
    let client = match context.e2b() {
        Ok(client) => client,
        Err(error) => {
            sink.put(untold(context, name, &error));
            return;
        }
    };
    sink.put(match context.templates(&client).await {
        Ok(templates) => match check::look(&client, templates, name).await {
            Ok(looked) => told(context, name, &looked),
            Err(error) => untold(context, name, &error),
        },
        Err(error) => untold(context, name, error),
    });
}

/// What E2B says instead of an answer.
fn untold(context: &Context, name: &str, error: &Error) -> Finding {
    let target = &context.target;
    match error.kind() {
        ErrorKind::TemplateOfAnotherTeam => Finding::failure(
            "e2b-template.other-team",
            format!("the template `{name}` belongs to another team than `E2B_API_KEY`"),
            "no session gets a sandbox: E2B lets each team use its own templates alone",
            target.set_secret(super::e2b_key::NAME),
        ),
        ErrorKind::TemplateUnknown => {
            told(context, name, &Looked { finding: Verdict::Missing { like: None }, built_at: None })
        }
        // The check of the key says what is wrong with it.
        ErrorKind::KeyRefused | ErrorKind::Unavailable | ErrorKind::Config | ErrorKind::KeyMissing => {
            Finding::skipped("e2b-template.unknown", "E2B does not answer this key; see `e2b-key`")
        }
        _ => Finding::failure(
            "e2b-template.unclear",
            format!("E2B did not say whether there is a template `{name}`: {}", chain(error)),
            "sessions that cannot use it end as `terminated`",
            Remedy::run(target.template("ambientctl template list")),
        ),
    }
}

fn told(context: &Context, name: &str, looked: &Looked) -> Finding {
    let target = &context.target;
    let (verdict, _) = check::words(&looked.finding, name);
    let built =
        looked.built_at.map(|at| format!(", last built {}", at.strftime("%Y-%m-%d %H:%M UTC"))).unwrap_or_default();
    let seen = format!("`{NAME}` is `{name}`: {verdict}{built}");
    let build = || Remedy::run(target.template(&check::build(name)));
    let fix = || Fix::BuildTemplate { name: name.to_owned() };
    match &looked.finding {
        Verdict::Good => Finding::ok("e2b-template.ready", seen),
        Verdict::Missing { like: Some(other) } => Finding::failure(
            "e2b-template.name",
            format!("{seen}; did you mean that?"),
            "no session gets a sandbox from a template that is not there; `-dev` and the plain name are two templates",
            target.set(NAME, other),
        ),
        Verdict::Missing { like: None } => Finding::failure(
            "e2b-template.missing",
            seen,
            "no session gets a sandbox from a template that is not there",
            build(),
        )
        .fixable(fix()),
        Verdict::NotReady { is_failed: true } => {
            Finding::failure("e2b-template.failed", seen, "no session gets a sandbox from a failed build", build())
                .fixable(fix())
        }
        Verdict::NotReady { is_failed: false } => Finding::failure(
            "e2b-template.building",
            seen,
            "sessions get no sandbox before the build is done",
            Remedy::run(target.template("ambientctl template check")),
        ),
        Verdict::OtherVersion { .. } => Finding::warning(
            "e2b-template.version",
            seen,
            format!("the media tool in it is not that of {}, so commands between the two may not fit", version_tag()),
            build(),
        )
        .fixable(fix()),
    }
}
