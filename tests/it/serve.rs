//! `ambientctl serve` from its first line to its end.

use std::net::TcpListener;

use nix::sys::signal::Signal;

use crate::binary::{Serving, ambientctl, eventually, told};

#[test]
fn the_first_line_is_the_address_and_it_answers() {
    let home = tempfile::tempdir().unwrap();
    let serving = Serving::start(ambientctl(home.path()).args(["serve", "--port", "0"])).unwrap();
    let port = serving.url.rsplit(':').next().unwrap();
    assert_ne!(port, "0");
    assert_eq!(serving.first_line, format!("ambient listening on http://127.0.0.1:{port}"));

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = runtime.block_on(client.get(format!("{}/v1/healthz", serving.url)).send()).unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    assert_eq!(runtime.block_on(answer.text()).unwrap(), r#"{"status":"ok"}"#);
}

#[test]
fn both_signals_end_it_cleanly_and_it_starts_again() {
    let home = tempfile::tempdir().unwrap();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let serving = Serving::start(ambientctl(home.path()).args(["serve", "--port", "0"])).unwrap();
        serving.signal(signal).unwrap();
        let (status, log) = serving.end().unwrap();
        assert_eq!(status.code(), Some(0), "after {signal}; its log:\n{log}");
        assert!(log.contains(signal.as_str()), "the log does not name the signal:\n{log}");
    }
}

#[test]
fn logs_go_to_stderr_as_json_when_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let mut command = ambientctl(home.path());
    command.args(["serve", "--port", "0"]).env("LOG_FORMAT", "json").env("RUST_LOG", "info");
    let serving = Serving::start(&mut command).unwrap();
    serving.signal(Signal::SIGTERM).unwrap();
    let (_, log) = serving.end().unwrap();
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect();
    assert!(lines.iter().any(|line| line["signal"] == "SIGTERM"), "no line tells of the signal:\n{log}");
    assert!(lines.iter().all(|line| line["level"].is_string() && line["timestamp"].is_string()), "{log}");
}

#[test]
fn a_taken_port_is_told_with_a_remedy() {
    let home = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = ambientctl(home.path()).args(["serve", "--port", &port]).output().unwrap();
    let text = told(home.path(), &output).replace(&port, "[port]");
    assert!(text.starts_with("exit: 2\n--- stdout\n--- stderr\n"), "{text}");
    assert!(text.contains("error: cannot listen on `127.0.0.1:[port]`\n  because: "), "{text}");
    assert!(text.contains("hint: another program listens there"), "{text}");
}

#[test]
fn no_migrate_refuses_a_database_that_needs_one() {
    let home = tempfile::tempdir().unwrap();
    let refused = ambientctl(home.path()).args(["serve", "--port", "0", "--no-migrate"]).output().unwrap();
    let text = told(home.path(), &refused);
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{text}");
    assert!(text.contains("migration"), "{text}");

    let serving = Serving::start(ambientctl(home.path()).args(["serve", "--port", "0"])).unwrap();
    serving.signal(Signal::SIGTERM).unwrap();
    assert!(serving.end().unwrap().0.success());

    let serving = Serving::start(ambientctl(home.path()).args(["serve", "--port", "0", "--no-migrate"])).unwrap();
    serving.signal(Signal::SIGTERM).unwrap();
    assert!(serving.end().unwrap().0.success(), "a database that is up to date needs no migration");
}

#[test]
fn nothing_of_the_engine_is_left_when_it_has_ended() {
    let home = tempfile::tempdir().unwrap();
    let serving = Serving::start(ambientctl(home.path()).args(["serve", "--port", "0"])).unwrap();
    let address = serving.url.trim_start_matches("http://").to_owned();
    serving.signal(Signal::SIGTERM).unwrap();
    assert!(serving.end().unwrap().0.success());
    eventually("the port is free again", || TcpListener::bind(&address).ok()).unwrap();
}

#[test]
fn its_keys_do_not_stand_where_other_processes_read_them() {
    let home = tempfile::tempdir().unwrap();
    let mut command = ambientctl(home.path());
    command.args(["serve", "--port", "0"]).env("LLM_BASE_URL", "http://127.0.0.1:9").env("LLM_API_KEY", "sk-hidden");
    let serving = Serving::start(&mut command).unwrap();
    // Refused is as good as blank; who may read it at all depends on who runs the test.
    let block = std::fs::read(format!("/proc/{}/environ", serving.id())).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&block).contains("sk-hidden"));
}
