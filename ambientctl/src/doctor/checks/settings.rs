//! Values that the engine refuses, names that nothing reads, and halves of pairs.

use ambient_settings::{Fault, Kind, Origin, Setting, Warning, find};
use strsim::damerau_levenshtein;

use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};
use crate::doctor::target::{Target, quoted_path};

/// Settings with checks of their own, which say more.
const ELSEWHERE: [&str; 6] =
    ["SANDBOX_BACKEND", "ENABLE_BASH_TOOL", "E2B_API_KEY", "S3_BUCKET", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
/// The words of a switch.
const SWITCH: [&str; 2] = ["true", "false"];

pub(super) async fn look(context: &Context, sink: &Sink) {
    let target = &context.target;
    let mut count = 0;
    for fault in &target.faults {
        // Of the key and of the file, other checks say more.
        if let Fault::Setting { name, reason, accepted, .. } = fault
            && *name != "API_KEY"
        {
            sink.put(refused(target, name, reason, accepted));
            count += 1;
        }
    }
    for warning in target.warnings.iter().filter(|warning| !is_elsewhere(target, warning)) {
        sink.put(odd(target, warning));
        count += 1;
    }
    if count == 0 {
        sink.put(Finding::ok("settings.values", "every value can be used, and every name means something"));
    }
}

/// Whether another check is about it.
fn is_elsewhere(target: &Target, warning: &Warning) -> bool {
    // What an installation's container gets is what its compose files say.
    let is_of_container = target.is_install() && warning.origin == Origin::Environment && find(&warning.name).is_none();
    ELSEWHERE.contains(&warning.name.as_str()) || warning.name.is_empty() || is_of_container
}

fn refused(target: &Target, name: &'static str, reason: &str, accepted: &str) -> Finding {
    let setting = find(name);
    let written = target.written(name).unwrap_or_default();
    let meant = setting.and_then(|setting| meant(setting, &written));
    let hint = meant.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
    let shown = match setting {
        Some(setting) if setting.is_secret() => String::new(),
        _ => format!(" `{}`", written.escape_debug()),
    };
    let remedy = match (meant, setting) {
        (Some(word), _) => target.set(name, word),
        (None, Some(setting)) if setting.is_secret() => target.set_secret(name),
        (None, Some(setting)) => match setting.preset {
            ambient_settings::Preset::Is(usual) => target.set(name, usual),
            _ => Remedy::run(target.command(&format!("config unset {name}"))),
        },
        (None, None) => Remedy::run(target.command("config edit")),
    };
    Finding::failure(
        "settings.value",
        format!("`{name}`{shown} {reason}{hint}; it takes {accepted}"),
        "the engine refuses to start with a value that it cannot use",
        remedy,
    )
}

/// The accepted word that somebody meant.
fn meant(setting: &Setting, written: &str) -> Option<&'static str> {
    let words: &[&'static str] = match setting.kind {
        Kind::OneOf(words) => words,
        Kind::Switch => &SWITCH,
        _ => return None,
    };
    let written = written.trim().to_lowercase();
    let slips = words.iter().map(|word| (damerau_levenshtein(word, &written), *word));
    slips.filter(|(slips, _)| *slips <= 2).min().map(|(_, word)| word)
}

fn odd(target: &Target, warning: &Warning) -> Finding {
    let name = &warning.name;
    let place = match warning.origin {
        Origin::Dotenv { line } => format!("`{}` line {line}: ", target.dotenv.path.display()),
        Origin::Environment | Origin::Default => String::new(),
    };
    let suggested = warning.message.split("did you mean `").nth(1).and_then(|rest| rest.split('`').next());
    let remedy = match (warning.origin, suggested) {
        (Origin::Dotenv { line }, Some(meant)) => {
            Remedy::run(format!("sed -i '{line}s/{name}/{meant}/' {}", quoted_path(&target.dotenv.path)))
        }
        (Origin::Dotenv { line }, None) if find(name).is_none() => {
            Remedy::run(format!("sed -i '{line}s/^/# /' {}", quoted_path(&target.dotenv.path)))
        }
        (Origin::Environment, _) if find(name).is_none() => Remedy::run(format!("unset {name}")),
        _ => Remedy::run(target.command("config show --all")),
    };
    Finding::warning(
        "settings.name",
        format!("{place}`{name}` {}", warning.message),
        "what nothing reads changes nothing, and what is set halfway does not work",
        remedy,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_an_accepted_word_is_named() {
        let check = |name: &str, written: &str, expected: Option<&str>| {
            let setting = find(name).unwrap();
            assert_eq!(meant(setting, written), expected, "{name}={written}");
        };
        check("LOG_FORMAT", "jsn", Some("json"));
        check("ENABLE_BASH_TOOL", "flase", Some("false"));
        check("ENABLE_BASH_TOOL", "ture", Some("true"));
        check("ENABLE_BASH_TOOL", "perhaps", None);
        check("SERVER_PORT", "80a", None);
    }
}
