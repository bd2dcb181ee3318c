//! `.env` as a file: who may read it, whether it can be read at all, and what in it is hidden.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use ambient_settings::dotenv::Document;
use ambient_settings::find;

use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};
use crate::doctor::fix::Fix;
use crate::doctor::target::{Place, Target, quoted_path};

/// The rights of others and of the group.
const NOT_THE_OWNER: u32 = 0o077;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(super) async fn look(context: &Context, sink: &Sink) {
    let target = &context.target;
    let path = &target.dotenv.path;
    if target.place == Place::Process {
        sink.put(Finding::skipped(
            "env-file.none",
            "there is no `.env` here; settings come from the environment alone",
        ));
        return;
    }
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) && !path.exists() {
        sink.put(
            Finding::failure(
                "env-file.stale-link",
                format!("`{}` is a link to a file that is not there", path.display()),
                "no setting in it counts",
                Remedy::run(format!("rm {}", quoted_path(path))),
            )
            .fixable(Fix::RemoveLink(path.clone())),
        );
        return;
    }
    let Some(bytes) = &target.dotenv.text else {
        missing(target, sink);
        return;
    };
    private(target, sink);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let line = String::from_utf8_lossy(&bytes[..error.valid_up_to()]).split('\n').count();
            sink.put(unreadable(target, line, "is not UTF-8 text"));
            return;
        }
    };
    line_ends(target, bytes, sink);
    match Document::parse(text) {
        Err(error) => sink.put(unreadable(target, error.line, &error.problem.to_string())),
        Ok(document) => {
            doubles(target, &document, sink);
            if let Err(error) = document.evaluate(&|name: &str| context.environment.variable(name)) {
                sink.put(unreadable(target, error.line, &error.problem.to_string()));
            }
        }
    }
    shadowed(context, sink);
}

fn missing(target: &Target, sink: &Sink) {
    let path = &target.dotenv.path;
    if target.is_install() {
        sink.put(Finding::failure(
            "env-file.missing",
            format!("there is no `{}`, or it cannot be read", path.display()),
            "the keys and passwords of the installation stand in it",
            Remedy::run(target.command("install")),
        ));
    } else {
        sink.put(Finding::failure(
            "env-file.missing",
            format!("there is no `{}`, or it cannot be read", path.display()),
            "no setting in it counts",
            Remedy::run(format!("install -m 600 /dev/null {}", quoted_path(path))),
        ));
    }
}

fn private(target: &Target, sink: &Sink) {
    let path = &target.dotenv.path;
    let Ok(found) = std::fs::metadata(path) else { return };
    let mode = found.mode() & 0o7777;
    if mode & NOT_THE_OWNER == 0 {
        sink.put(Finding::ok("env-file.mode", format!("`{}` is private (mode {mode:o})", path.display())));
        return;
    }
    sink.put(
        Finding::failure(
            "env-file.mode",
            format!("`{}` can be read by others (mode {mode:o})", path.display()),
            "it holds keys and passwords",
            Remedy::run(format!("chmod 600 {}", quoted_path(path))),
        )
        .fixable(Fix::Private(path.clone())),
    );
}

fn line_ends(target: &Target, bytes: &[u8], sink: &Sink) {
    let path = &target.dotenv.path;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        sink.put(Finding::warning(
            "env-file.mark",
            format!("`{}` begins with a byte order mark", path.display()),
            "a shell, and other readers of such files, take it for a part of the first name",
            Remedy::run(format!("sed -i '1s/^\\xEF\\xBB\\xBF//' {}", quoted_path(path))),
        ));
    }
    if bytes.windows(2).any(|pair| pair == b"\r\n") {
        sink.put(Finding::warning(
            "env-file.line-ends",
            format!("`{}` has the line ends of Windows", path.display()),
            "a shell, and other readers of such files, take the carriage return for a part of the value",
            Remedy::run(format!("sed -i 's/\\r$//' {}", quoted_path(path))),
        ));
    }
}

fn unreadable(target: &Target, line: usize, problem: &str) -> Finding {
    let path = &target.dotenv.path;
    Finding::failure(
        "env-file.syntax",
        format!("`{}` line {line}: {problem}", path.display()),
        "Docker Compose and the engine refuse the whole file",
        Remedy::run(format!("${{EDITOR:-vi}} +{line} {}", quoted_path(path))),
    )
}

/// Names that stand in the file more than once.
fn doubles(target: &Target, document: &Document, sink: &Sink) {
    let mut lines: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for statement in document.statements().iter().filter(|statement| !statement.name.is_empty()) {
        lines.entry(&statement.name).or_default().push(statement.line);
    }
    for (name, lines) in lines.into_iter().filter(|(_, lines)| lines.len() > 1) {
        let (last, others) = lines.split_last().expect("there are at least two");
        let shown = others.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let script = others.iter().map(|line| format!("{line}d")).collect::<Vec<_>>().join(";");
        sink.put(Finding::warning(
            "env-file.double",
            format!(
                "`{name}` stands in `{}` more than once: line {last} counts, not {shown}",
                target.dotenv.path.display()
            ),
            "whoever changes the line that does not count wonders why nothing happens",
            Remedy::run(format!("sed -i '{}' {}", script, quoted_path(&target.dotenv.path))),
        ));
    }
}

/// Settings in the file that a variable of this shell hides.
fn shadowed(context: &Context, sink: &Sink) {
    let target = &context.target;
    let Some(evaluated) = &target.dotenv.evaluated else { return };
    for (name, variable) in &evaluated.variables {
        let is_ours = find(name).is_some() || target.stack.as_ref().is_some_and(|stack| stack.mentions(name));
        let other = context.environment.variable(name).filter(|value| *value != variable.value);
        if other.is_none() || !is_ours {
            continue;
        }
        sink.put(Finding::warning(
            "env-file.shadowed",
            format!(
                "`{name}` is set in this shell too, to another value than in `{}` line {}",
                target.dotenv.path.display(),
                variable.line
            ),
            "the shell's value counts before the file's, for commands and engines started from it",
            Remedy::run(format!("unset {name}")),
        ));
    }
}
