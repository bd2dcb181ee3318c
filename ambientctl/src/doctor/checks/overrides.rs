//! What of `.env` the engine's container gets, through the merged compose files.

use ambient_settings::{Reader, catalogue, find, unknown_name};

use crate::commands::config::stack::Need;
use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};
use crate::doctor::fix::Fix;
use crate::doctor::target::{OVERRIDE, Target, quoted_path};

pub(super) async fn look(context: &Context, sink: &Sink) {
    let target = &context.target;
    let Some(stack) = target.stack.as_ref().filter(|_| target.is_install()) else {
        sink.put(Finding::skipped("override.none", "no installation: the engine reads its settings itself"));
        return;
    };
    let mut count = 0;
    for name in crate::commands::config::stack::Stack::stray_overrides(&stack.folder) {
        count += 1;
        sink.put(Finding::failure(
            "override.hidden",
            format!("`{name}` hides `{OVERRIDE}`"),
            "Docker Compose reads one override, so nothing in ours counts",
            Remedy::run(format!(
                "mv {} {}",
                quoted_path(&stack.folder.join(name)),
                quoted_path(&stack.folder.join(format!("{name}.aside")))
            )),
        ));
    }
    let files = crate::commands::config::stack::Stack::of(stack.main.clone());
    let over = stack.over.as_deref();
    let Some(evaluated) = &target.dotenv.evaluated else { return };
    for (name, variable) in evaluated.variables.iter().filter(|(_, variable)| !variable.value.is_empty()) {
        let is_ours =
            find(name).is_some_and(|setting| setting.name == *name && setting.readers.contains(&Reader::Engine));
        if !is_ours {
            continue;
        }
        match files.need(over, name) {
            Ok(Need::Nothing) => {}
            Ok(Need::PassOn) => {
                count += 1;
                sink.put(not_passed(target, stack.folder.as_path(), name, variable.line));
            }
            // The same value in both places misleads nobody.
            Ok(Need::ChangeLiteral)
                if files
                    .literal(over, name)
                    .is_ok_and(|found| found.is_some_and(|(_, text)| text == variable.value)) => {}
            Ok(Need::ChangeLiteral) => {
                count += 1;
                sink.put(hidden(target, over, &files, name, variable));
            }
            Err(error) => {
                sink.put(Finding::failure(
                    "override.syntax",
                    format!("`{OVERRIDE}`: {error}"),
                    "neither Docker Compose nor ambientctl can use it",
                    Remedy::run(format!("${{EDITOR:-vi}} {}", quoted_path(&target.override_path()))),
                ));
                return;
            }
        }
    }
    count += strangers(target, sink);
    if count == 0 {
        sink.put(Finding::ok("override.passed", "every setting in `.env` gets to the engine"));
    }
}

/// A setting that stops at the compose files.
pub(super) fn not_passed(target: &Target, folder: &std::path::Path, name: &str, line: usize) -> Finding {
    Finding::failure(
        "override.not-passed",
        format!("`{name}` is in `.env` line {line}, and no compose file passes it on: it stops at `{OVERRIDE}`"),
        "the engine's container gets only what its `environment` names",
        Remedy::run(target.doctor("--fix --only override")),
    )
    .fixable(Fix::PassOn { folder: folder.to_owned(), name: name.to_owned() })
}

fn hidden(
    target: &Target,
    over: Option<&str>,
    files: &crate::commands::config::stack::Stack,
    name: &str,
    variable: &ambient_settings::dotenv::Variable,
) -> Finding {
    let file = files.literal(over, name).ok().flatten().map_or(OVERRIDE, |(file, _)| file);
    let is_secret = find(name).is_some_and(ambient_settings::Setting::is_secret);
    let remedy = if is_secret { target.set_secret(name) } else { target.set(name, &variable.value) };
    Finding::warning(
        "override.literal",
        format!("`{name}` is in `.env` line {}, and `{file}` gives the engine a value of its own", variable.line),
        "what `.env` says about it does not count",
        remedy,
    )
}

/// Names that the override gives to the engine, and that the engine does not know.
fn strangers(target: &Target, sink: &Sink) -> usize {
    let mut count = 0;
    for name in target.variables.keys() {
        if find(name).is_some() {
            continue;
        }
        if let Some(what) = unknown_name(name) {
            count += 1;
            let close = catalogue().find(|setting| what.to_string().contains(&format!("`{}`", setting.name)));
            let remedy = match close {
                Some(setting) => format!(
                    "sed -i 's/^\\( *\\)\\(- \\)\\?{name}\\b/\\1\\2{}/' {}",
                    setting.name,
                    quoted_path(&target.override_path())
                ),
                None => format!("${{EDITOR:-vi}} {}", quoted_path(&target.override_path())),
            };
            sink.put(Finding::warning(
                "override.unknown",
                format!("the compose files give the engine `{name}`, which {what}"),
                "the engine does not see what has another name",
                Remedy::run(remedy),
            ));
        }
    }
    count
}
