//! What E2B refused, and what to do about it.

use ambient_e2b::{Error, ErrorKind};

use crate::output::{Exit, Failure};

/// A failure about the template of this name, with its remedy.
pub(super) fn told(error: Error, template: &str) -> Failure {
    let (exit, hint) = match error.kind() {
        ErrorKind::KeyMissing => (
            Exit::Usage,
            "copy an API key from E2B's dashboard and set it: `ambientctl config set E2B_API_KEY -`, or a line in `.env`"
                .to_owned(),
        ),
        ErrorKind::KeyRefused => (
            Exit::Unhealthy,
            "`E2B_API_KEY` is no key of this service: copy it again, and see that `E2B_API_URL` and `E2B_DOMAIN` are those \
             of its account"
                .to_owned(),
        ),
        ErrorKind::TemplateOfAnotherTeam => (
            Exit::Unhealthy,
            format!(
                "another team has the name `{template}`: use the key of that team, or build under another name with \
                 `--name` and set `E2B_TEMPLATE` to it"
            ),
        ),
        ErrorKind::TemplateUnknown => (
            Exit::Unhealthy,
            "build it with `ambientctl template build`, or set `E2B_TEMPLATE` to one that `ambientctl template list` shows"
                .to_owned(),
        ),
        ErrorKind::RateLimited | ErrorKind::QuotaReached => {
            (Exit::Unhealthy, "wait, end other builds, or raise the plan's limits in E2B's dashboard".to_owned())
        }
        ErrorKind::Unavailable => {
            (Exit::Unreachable, "see that the address in `E2B_API_URL` or `E2B_DOMAIN` is right, and try again".to_owned())
        }
        ErrorKind::Config => (Exit::Usage, "see `E2B_*` in docs/configuration.md".to_owned()),
        _ => return Failure::new(Exit::Unhealthy, error),
    };
    Failure::new(exit, error).hint(hint)
}
