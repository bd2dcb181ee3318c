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

#[test]
fn sandboxes_of_containers_need_an_engine_of_this_machine() {
    let home = tempfile::tempdir().unwrap();
    let words = ["sandboxd", "--listen", "127.0.0.1:0", "--key", "e2b_0123456789abcdef0123456789abcdef01234567"];
    let started = |more: &[&str]| {
        let output = ambientctl(home.path()).args(words).args(more).output().unwrap();
        told(home.path(), &output)
    };
    insta::assert_snapshot!(started(&["--driver", "docker", "--docker", "unix:///no/such/docker.sock"]), @r"
    exit: 3
    --- stdout
    --- stderr
    error: docker is missing: there is nothing at `unix:///no/such/docker.sock`

    hint: install Docker (https://docs.docker.com/engine/install), or name an engine elsewhere with `--docker URL` or `DOCKER_HOST`
    ");
    insta::assert_snapshot!(started(&["--driver", "docker", "--docker", "tcp://elsewhere.example:2375"]), @r"
    exit: 2
    --- stdout
    --- stderr
    error: the docker engine is `tcp://elsewhere.example:2375` (from `--docker`), and sandboxes are made by an engine on this machine alone

    hint: name a socket: `--docker unix:///var/run/docker.sock`
    ");
    insta::assert_snapshot!(started(&["--docker", "unix:///var/run/docker.sock"]), @r"
    exit: 2
    --- stdout
    --- stderr
    error: `--docker` says where `--driver docker` finds its engine, and sandboxes are to be namespaces

    hint: add `--driver docker`, or leave `--docker` away
    ");
}
