//! `ambientctl doctor` in a container on a real Docker engine, as somebody runs it by `docker exec`.
//!
//! `AMBIENT_TEST_DOCKER` is the path of the engine's socket, which has the image `ambient-test:1` (a busybox); `tests/run.sh`
//! provides both.

use std::io;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::binary::ambientctl;

/// Where Debian's package `ca-certificates` puts them.
const CERTIFICATES: &str = "/etc/ssl/certs";

/// Runs a line of the shell in a container that has the command, and nothing else of this machine but its libraries.
#[expect(clippy::disallowed_methods, reason = "containers are started by Docker's own program")]
fn in_a_container(line: &str, has_certificates: bool) -> io::Result<Output> {
    let variable = |name: &str| std::env::vars().find(|(found, _)| found == name).map(|(_, value)| value);
    let socket = variable("AMBIENT_TEST_DOCKER").expect("AMBIENT_TEST_DOCKER is set, as tests/run.sh does");
    let mut docker = Command::new("docker");
    docker.args(["run", "--rm", "--network", "none", "--env", "HOME=/data"]);
    let program = ambientctl(Path::new("/")).get_program().to_owned();
    docker.args(["--volume", &format!("{}:/usr/local/bin/ambientctl:ro", program.to_string_lossy())]);
    for libraries in ["/lib", "/lib64", "/usr/lib"].into_iter().filter(|folder| Path::new(folder).is_dir()) {
        docker.args(["--volume", &format!("{libraries}:{libraries}:ro")]);
    }
    if has_certificates {
        docker.args(["--volume", &format!("{CERTIFICATES}:{CERTIFICATES}:ro")]);
    }
    docker.args(["ambient-test:1", "/bin/sh", "-c", line]).env("DOCKER_HOST", format!("unix://{socket}")).output()
}

/// What `doctor WORDS…` says in a container after these lines of its shell.
fn doctor(before: &[&str], words: &str) -> (Option<i32>, Value) {
    looked(before, words, true)
}

fn looked(before: &[&str], words: &str, has_certificates: bool) -> (Option<i32>, Value) {
    let line = format!("{}\n/usr/local/bin/ambientctl doctor --json {words}", before.join("\n"));
    let output = in_a_container(&line, has_certificates).expect("`docker` can be started");
    let document = serde_json::from_slice(&output.stdout);
    (output.status.code(), document.unwrap_or_else(|error| panic!("{error}: {output:?}")))
}

fn finding<'a>(document: &'a Value, id: &str) -> &'a Value {
    let findings = document["findings"].as_array().expect("it has findings");
    findings.iter().find(|finding| finding["id"] == id).unwrap_or_else(|| panic!("no `{id}` in {document:#}"))
}

#[test]
fn doctor_in_a_container_looks_at_what_the_container_has() {
    let (code, document) = doctor(&["export SANDBOX_BACKEND=e2b"], "");
    assert_eq!(code, Some(1), "{document:#}");
    assert_eq!(document["subject"], "the environment of this container");
    // There are no files of an installation, and no Docker engine, and neither is missed.
    for id in ["env-file.none", "override.none", "docker.unused"] {
        assert_eq!(finding(&document, id)["level"], "skipped", "{document:#}");
    }
    let key = finding(&document, "e2b-key.missing");
    assert_eq!(key["seen"], "`E2B_API_KEY` is not set: looked in the environment");
    assert_eq!(key["remedy"]["how"], "start the engine with this in its environment; the shell asks for the value");
    assert!(finding(&document, "store.file")["seen"].as_str().unwrap().starts_with("`/data/"), "{document:#}");
    assert_eq!(finding(&document, "ffmpeg.missing")["level"], "failure", "{document:#}");
}

#[test]
fn a_remedy_for_a_container_is_a_line_of_its_shell() {
    let mut lines = vec!["export SERVER_HOST=0.0.0.0".to_owned()];
    for (id, name) in [("backend.dev-token", "API_KEY"), ("backend.bash", "ENABLE_BASH_TOOL")] {
        let before: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (code, document) = doctor(&before, "--only backend");
        let remedy = finding(&document, id)["remedy"]["paste"].as_str().unwrap();
        assert!(remedy.starts_with(&format!("export {name}=")), "{remedy}");
        assert_eq!(code, Some(i32::from(finding(&document, id)["level"] == "failure")));
        lines.push(remedy.to_owned());
    }
    let before: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (code, document) = doctor(&before, "--only backend");
    assert_eq!((code, &document["warnings"]), (Some(0), &0.into()), "{document:#}");
}

#[test]
fn an_image_without_certificates_is_told_and_everything_else_is_looked_at() {
    let before = ["export SANDBOX_BACKEND=e2b E2B_API_KEY=e2b_0123456789abcdef0123456789abcdef01234567"];
    let (code, document) = looked(&before, "", false);
    assert_eq!(code, Some(1), "{document:#}");
    let none = finding(&document, "certificates.none");
    assert_eq!(none["level"], "failure");
    assert!(
        none["seen"].as_str().unwrap().starts_with("this machine has no certificates of authorities: "),
        "{none:#}"
    );
    assert_eq!(none["remedy"]["paste"], "sudo apt-get install -y ca-certificates");
    assert_eq!(finding(&document, "e2b-key.unknown")["level"], "skipped", "the key is not to blame");
    finding(&document, "store.file");
    // What the package brings.
    let (code, document) = looked(&[], "--only certificates", true);
    assert_eq!((code, &finding(&document, "certificates.there")["level"]), (Some(0), &"ok".into()), "{document:#}");
}
