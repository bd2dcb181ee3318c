//! `ambientctl template check`: whether sessions can use the template that `E2B_TEMPLATE` names.

use ambient_e2b::Client;
use ambient_e2b::protocol::template::{BuildStatus, ListedTemplate};
use jiff::Timestamp;
use serde_json::json;

use super::failure::told;
use super::{Service, version_tag};
use crate::environment::Environment;
use crate::output::{Exit, Failure, Printer};

/// Words of `ambientctl template check`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    service: Service,
}

/// The most letters in which a name may differ from one that is there to count as a slip of it.
const SLIPS: usize = 2;

/// What stands in the way of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The team has none of that name; maybe one of a name like it.
    Missing { like: Option<String> },
    /// Its last build is not ready.
    NotReady { is_failed: bool },
    /// It is ready, and holds another version of this program or none.
    OtherVersion { has: Vec<String> },
    /// Nothing.
    Good,
}

/// What a look at the templates of a team gave.
#[derive(Clone, Debug)]
pub(crate) struct Looked {
    /// What stands in the way.
    pub(crate) finding: Finding,
    /// When the template was last built.
    pub(crate) built_at: Option<Timestamp>,
}

pub(super) async fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let (client, name) = args.service.open(environment, printer)?;
    let looked = async { look(&client, &client.templates().list().await?, &name).await };
    let finding = looked.await.map_err(|error| told(error, &name))?.finding;
    let (verdict, remedy) = words(&finding, &name);
    let is_usable = matches!(finding, Finding::Good | Finding::OtherVersion { .. });
    if printer.json {
        printer
            .data(&json!({ "template": name, "usable": is_usable, "finding": verdict, "remedy": remedy }).to_string());
    } else {
        printer.data(&format!("{name}: {verdict}"));
        if let Some(remedy) = &remedy {
            printer.note(&format!("hint: {remedy}"));
        }
    }
    Ok(if is_usable { Exit::Ok } else { Exit::Unhealthy })
}

/// Whether sessions can use the template `name`, given the templates of the key's team.
///
/// # Errors
/// [`ambient_e2b::Error::TemplateOfAnotherTeam`] when another team has the name, and what else E2B refuses.
pub(crate) async fn look(
    client: &Client,
    templates: &[ListedTemplate],
    name: &str,
) -> Result<Looked, ambient_e2b::Error> {
    let Some(found) = templates.iter().find(|template| is_named(template, name)) else {
        // A name that another team has is an error of its own.
        client.templates().find(name).await?;
        return Ok(Looked { finding: Finding::Missing { like: like(templates, name) }, built_at: None });
    };
    let built_at = Some(found.updated_at);
    if found.build_status != BuildStatus::Ready {
        let is_failed = found.build_status == BuildStatus::Error;
        return Ok(Looked { finding: Finding::NotReady { is_failed }, built_at });
    }
    let tags = client.templates().tags(&found.template_id).await?;
    let of_build: Vec<_> = tags.into_iter().filter(|tag| tag.build_id == found.build_id).map(|tag| tag.tag).collect();
    let finding = if of_build.contains(&version_tag()) {
        Finding::Good
    } else {
        Finding::OtherVersion { has: of_build.into_iter().filter(|tag| tag.starts_with('v')).collect() }
    };
    Ok(Looked { finding, built_at })
}

fn is_named(template: &ListedTemplate, name: &str) -> bool {
    template.template_id == name || template.aliases.iter().chain(&template.names).any(|known| known == name)
}

/// A template whose name differs by `-dev` alone, else one that `name` is a slip of.
fn like(templates: &[ListedTemplate], name: &str) -> Option<String> {
    let other = name
        .strip_suffix(super::build::DEV_SUFFIX)
        .map_or_else(|| format!("{name}{}", super::build::DEV_SUFFIX), str::to_owned);
    if templates.iter().any(|template| is_named(template, &other)) {
        return Some(other);
    }
    let known = templates.iter().flat_map(|template| &template.aliases);
    let slips =
        known.map(|alias| (strsim::damerau_levenshtein(alias, name), alias)).filter(|(slips, _)| *slips <= SLIPS);
    slips.min().map(|(_, alias)| alias.clone())
}

/// What was found, and what to do about it.
pub(crate) fn words(finding: &Finding, name: &str) -> (String, Option<String>) {
    match finding {
        Finding::Good => (format!("ready, built by version {}", env!("CARGO_PKG_VERSION")), None),
        Finding::Missing { like: Some(other) } => (
            format!("the team of this key has no such template, but it has `{other}`"),
            Some(format!("`ambientctl config set E2B_TEMPLATE {other}`, or build this one: `{}`", build(name))),
        ),
        Finding::Missing { like: None } => {
            ("the team of this key has no such template".to_owned(), Some(format!("build it: `{}`", build(name))))
        }
        Finding::NotReady { is_failed: true } => {
            ("its last build failed".to_owned(), Some(format!("build it again: `{}`", build(name))))
        }
        Finding::NotReady { is_failed: false } => {
            ("its last build is not ready".to_owned(), Some(format!("build it again: `{}`", build(name))))
        }
        Finding::OtherVersion { has } if has.is_empty() => (
            "ready, but not built by this program, so its media tool may be another one".to_owned(),
            Some(format!("build it anew: `{}`", build(name))),
        ),
        Finding::OtherVersion { has } => (
            format!("ready, but built by version {} and not by {}", has.join(", "), version_tag()),
            Some(format!("build it anew: `{}`", build(name))),
        ),
    }
}

/// The command that builds a template of this name.
pub(crate) fn build(name: &str) -> String {
    match name {
        super::build::NAME => "ambientctl template build".to_owned(),
        _ if name.strip_suffix(super::build::DEV_SUFFIX) == Some(super::build::NAME) => {
            "ambientctl template build --dev".to_owned()
        }
        _ => format!("ambientctl template build --name {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_but_the_good_one_has_its_remedy() {
        let findings = [
            (Finding::Missing { like: None }, Some("`ambientctl template build --dev`")),
            (
                Finding::Missing { like: Some("video-analysis-v1".to_owned()) },
                Some("config set E2B_TEMPLATE video-analysis-v1`"),
            ),
            (Finding::NotReady { is_failed: false }, Some("build it again")),
            (Finding::NotReady { is_failed: true }, Some("build it again")),
            (Finding::OtherVersion { has: vec!["v0.0.1".to_owned()] }, Some("build it anew")),
            (Finding::OtherVersion { has: Vec::new() }, Some("build it anew")),
            (Finding::Good, None),
        ];
        for (finding, remedy) in findings {
            let (_verdict, told) = words(&finding, "video-analysis-v1-dev");
            match remedy {
                None => assert_eq!(told, None),
                Some(part) => assert!(told.is_some_and(|told| told.contains(part)), "{finding:?}"),
            }
        }
    }

    #[test]
    fn the_command_is_the_shortest_that_builds_that_name() {
        assert_eq!(build("video-analysis-v1"), "ambientctl template build");
        assert_eq!(build("video-analysis-v1-dev"), "ambientctl template build --dev");
        assert_eq!(build("mine-dev"), "ambientctl template build --name mine-dev");
    }
}
