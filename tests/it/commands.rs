//! Words, help, completions and health.

use std::net::TcpListener;

use nix::sys::signal::Signal;

use crate::binary::{Serving, ambientctl, told};

#[test]
fn every_command_has_help_with_an_example() {
    let home = tempfile::tempdir().unwrap();
    for words in [
        &["--help"][..],
        &["serve", "--help"],
        &["install", "--help"],
        &["status", "--help"],
        &["logs", "--help"],
        &["start", "--help"],
        &["stop", "--help"],
        &["restart", "--help"],
        &["update", "--help"],
        &["open", "--help"],
        &["version", "--help"],
        &["uninstall", "--help"],
        &["config", "--help"],
        &["ask", "--help"],
        &["chat", "--help"],
        &["mcp", "--help"],
        &["health", "--help"],
        &["doctor", "--help"],
        &["verify", "--help"],
        &["sandboxd", "--help"],
        &["completions", "--help"],
    ] {
        let output = ambientctl(home.path()).args(words).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{words:?}");
        assert!(text.contains("Example"), "no example in the help of {words:?}:\n{text}");
        assert!(text.contains("\n  ambientctl "), "no command in the help of {words:?}:\n{text}");
    }
}

#[test]
fn an_unknown_word_is_a_usage_error_that_says_what_was_meant() {
    let home = tempfile::tempdir().unwrap();
    let output = ambientctl(home.path()).arg("server").output().unwrap();
    let text = told(home.path(), &output);
    assert!(text.starts_with("exit: 2\n--- stdout\n--- stderr\n"), "{text}");
    assert!(text.contains("serve"), "{text}");
}

#[test]
fn completions_know_every_command() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = ambientctl(home.path()).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success());
        for word in ["serve", "health", "completions", "config", "install", "uninstall", "no-migrate", "no-rollback"] {
            assert!(script.contains(word), "`{word}` is not in the script for {shell}");
        }
    }
}

#[test]
fn health_finds_a_running_engine_by_its_settings() {
    let home = tempfile::tempdir().unwrap();
    let serving = Serving::start(ambientctl(home.path()).args(["serve", "--port", "0"])).unwrap();
    let port = serving.url.rsplit(':').next().unwrap();

    let output = ambientctl(home.path()).arg("health").env("SERVER_PORT", port).output().unwrap();
    let text = told(home.path(), &output).replace(port, "[port]");
    insta::assert_snapshot!(text, @r"
    exit: 0
    --- stdout
    http://127.0.0.1:[port] is up and ready
    --- stderr
    ");

    let output = ambientctl(home.path()).args(["health", "--json", "--url", &serving.url]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["url"], serving.url);
    assert_eq!((&document["healthy"], &document["ready"]), (&true.into(), &true.into()), "{document}");
    serving.signal(Signal::SIGTERM).unwrap();
    assert!(serving.end().unwrap().0.success());
}

#[test]
fn health_of_nobody_names_the_address_and_the_remedy() {
    let home = tempfile::tempdir().unwrap();
    // Bound and let go: nothing listens there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let output = ambientctl(home.path()).arg("health").env("SERVER_PORT", &port).output().unwrap();
    let text = told(home.path(), &output).replace(&port, "[port]");
    assert!(
        text.starts_with("exit: 3\n--- stdout\n--- stderr\nerror: no engine answers at `http://127.0.0.1:[port]/"),
        "{text}"
    );
    assert!(text.contains("hint: start one with `ambientctl serve`"), "{text}");

    let output = ambientctl(home.path()).args(["health", "--json"]).env("SERVER_PORT", &port).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["error"]["exit_code"], 3);
    assert!(output.stderr.is_empty());
}
