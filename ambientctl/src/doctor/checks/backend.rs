//! Where media work runs, and whether strangers can get at a shell there.

use ambient_settings::Fault;
use secrecy::ExposeSecret as _;
use strsim::damerau_levenshtein;

use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Sink};
use crate::doctor::target::Target;

const NAME: &str = "SANDBOX_BACKEND";
const E2B: &str = "e2b";
/// The words for the host.
const HOST_WORDS: [&str; 2] = ["inprocess", "host"];
/// The most letters in which a word may differ from `e2b` to count as a slip of it.
const SLIPS: usize = 1;
/// The key of an engine that nobody gave one.
const DEV_TOKEN: &str = "dev-token";

pub(super) async fn look(context: &Context, sink: &Sink) {
    let target = &context.target;
    value(target, sink);
    reach(target, sink);
}

fn value(target: &Target, sink: &Sink) {
    let written = target.written(NAME).unwrap_or_default();
    let word = written.trim();
    if written == E2B {
        sink.put(Finding::ok("backend.value", "`SANDBOX_BACKEND` is `e2b`: each session gets a sandbox of its own"));
    } else if word.is_empty() || HOST_WORDS.contains(&written.as_str()) {
        sink.put(Finding::ok("backend.value", "media work and the shell tool run on the engine's host"));
    } else if is_slip(word) {
        sink.put(Finding::failure(
            "backend.typo",
            format!("`SANDBOX_BACKEND` is `{}`, which is no backend; did you mean `e2b`?", written.escape_debug()),
            "only exactly `e2b` selects E2B, so the agent's shell runs on the engine's host now",
            target.set(NAME, E2B),
        ));
    } else {
        let close = HOST_WORDS.into_iter().find(|known| damerau_levenshtein(&word.to_lowercase(), known) <= 3);
        sink.put(Finding::warning(
            "backend.unknown",
            format!("`SANDBOX_BACKEND` is `{}`, which is neither `e2b` nor `inprocess`", written.escape_debug()),
            "any other word counts as the host; a word that says so leaves no doubt",
            target.set(NAME, close.unwrap_or(HOST_WORDS[0])),
        ));
    }
}

/// Whether somebody who wrote this word meant `e2b`.
fn is_slip(word: &str) -> bool {
    let folded: String = word.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    damerau_levenshtein(&folded, E2B) <= SLIPS || folded.starts_with(E2B)
}

fn reach(target: &Target, sink: &Sink) {
    let open = target.open_addresses();
    let Some(address) = open.first() else {
        sink.put(Finding::ok("backend.reach", "the engine is reached from this machine alone"));
        return;
    };
    let server = &target.settings.server;
    let is_dev_token = server.api_key.expose_secret() == DEV_TOKEN;
    let is_refused = target.faults.iter().any(|fault| matches!(fault, Fault::Setting { name: "API_KEY", .. }));
    if is_dev_token && server.allow_dev_token && !is_refused && !target.is_install() {
        sink.put(Finding::warning(
            "backend.dev-token",
            format!("the API key is the default `{DEV_TOKEN}` on `{address}`, and `ALLOW_DEV_TOKEN` lets it pass"),
            "everybody knows that key; this is safe only where something else, such as a port published on 127.0.0.1, \
             keeps strangers out",
            target.set("API_KEY", &super::super::fix::random_key()),
        ));
    } else if is_dev_token {
        let name = if target.is_install() { "ENGINE_API_KEY" } else { "API_KEY" };
        sink.put(Finding::failure(
            "backend.dev-token",
            format!("the API key is the default `{DEV_TOKEN}`, and `{address}` is reachable from other machines"),
            "everybody knows that key, so anybody who reaches the port can use the engine",
            target.set(name, &super::super::fix::random_key()),
        ));
    }
    if target.settings.bash.enabled && !target.is_on_e2b() {
        sink.put(Finding::warning(
            "backend.bash",
            format!("the shell tool is on, on the engine's host, and `{address}` is reachable from other machines"),
            "whoever has the API key can run commands on this host through the agent, with soft limits only",
            target.set("ENABLE_BASH_TOOL", "false"),
        ));
    } else if !is_dev_token {
        sink.put(Finding::ok("backend.reach", format!("the engine listens on `{address}` with a key of its own")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_of_e2b_are_known_from_other_words() {
        for word in ["E2B", "e2b ", "e2", "eb2", "E2b", "e-2-b", "e2b.dev", "\"e2b\"", "e3b"] {
            assert!(is_slip(word.trim()), "{word}");
        }
        for word in ["docker", "local", "in-process", "inproces", "none"] {
            assert!(!is_slip(word), "{word}");
        }
    }
}
