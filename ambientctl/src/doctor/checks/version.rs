//! Whether this program, the engine's image and the engine that runs are of one version. The template's is told by its own check.

use serde_json::Value;

use crate::docker::image_facts;
use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};

const OWN: &str = env!("CARGO_PKG_VERSION");
/// Why it matters.
const WHY: &str = "commands, files and messages of two versions may not fit together";

pub(super) async fn look(context: &Context, sink: &Sink) {
    let target = &context.target;
    let mut is_alone = true;
    if let Some(engine) =
        target.stack.as_ref().filter(|_| target.is_install()).and_then(super::super::target::Stack::engine)
    {
        sink.step("the image's version".to_owned());
        let labelled = match context.docker().await {
            Ok(connection) => {
                image_facts(&connection, &engine.image).await.ok().flatten().and_then(|facts| facts.version)
            }
            Err(_see_docker) => None,
        };
        let tag = engine.image.rsplit_once(':').map(|(_, tag)| tag.to_owned()).filter(|tag| is_version(tag));
        if let Some(found) = labelled.or(tag) {
            is_alone = false;
            compare(&format!("the image `{}`", engine.image), &found, &target.command("update"), sink);
        }
    }
    if let Some(found) = running(context, sink).await {
        is_alone = false;
        let command =
            if target.is_install() { target.command("restart engine") } else { "ambientctl serve".to_owned() };
        compare("the engine that runs", &found, &command, sink);
    }
    if is_alone {
        sink.put(Finding::ok(
            "version.own",
            format!("this program is version {OWN}; no engine or image tells another"),
        ));
    }
}

fn compare(what: &str, found: &str, command: &str, sink: &Sink) {
    if found.trim_start_matches('v') == OWN {
        sink.put(Finding::ok("version.same", format!("{what} is of version {OWN}, as this program is")));
    } else {
        sink.put(Finding::warning(
            "version.differs",
            format!("{what} is of version {}, and this program of {OWN}", found.trim_start_matches('v')),
            WHY,
            Remedy::run(command),
        ));
    }
}

/// The version of the engine that runs, if one does.
async fn running(context: &Context, sink: &Sink) -> Option<String> {
    let url = context.engine_path("openapi.json")?;
    sink.step("the engine that runs".to_owned());
    let answer = context.http.get(url).timeout(context.request_limit()).send().await.ok()?;
    let description: Value = answer.json().await.ok()?;
    let title = description.pointer("/info/title").and_then(Value::as_str)?;
    // Another program may listen there.
    if !title.to_lowercase().contains("ambient") {
        return None;
    }
    description.pointer("/info/version").and_then(Value::as_str).map(str::to_owned)
}

/// Whether a tag of an image is a version, not a name such as `latest`.
fn is_version(tag: &str) -> bool {
    let tag = tag.trim_start_matches('v');
    tag.starts_with(|first: char| first.is_ascii_digit()) && tag.contains('.')
}
