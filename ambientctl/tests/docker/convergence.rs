//! What is made, what is left alone, and that Docker Compose sees it the same way.

use std::net::TcpListener;

use ambient_ctl::output::Exit;

use super::lab::{IMAGE, STACK, Stack};

#[test]
fn neither_tool_makes_anew_what_the_other_made() {
    let stack = Stack::new(STACK).unwrap();
    assert_eq!(stack.run(&["start"]).unwrap(), Exit::Ok);
    let ours = stack.containers();
    assert_eq!(ours.len(), 2);
    let hashes = String::from_utf8(stack.compose(&["config", "--hash", "*"]).stdout).unwrap();
    for service in ["db", "engine"] {
        assert!(hashes.contains(&format!("{service} {}\n", stack.label(service, "config-hash"))), "{hashes}");
    }
    stack.compose(&["up", "--detach", "--wait"]);
    assert_eq!(stack.containers(), ours, "docker compose made ours anew");
    let listed = String::from_utf8(stack.compose(&["ps", "--all", "--quiet"]).stdout).unwrap();
    assert_eq!(listed.lines().count(), 2);
    let our_volume = stack.volume_hash("db-data");

    stack.compose(&["down", "--volumes", "--timeout", "0"]);
    assert!(stack.containers().is_empty() && !stack.has_volume("db-data"));
    stack.compose(&["up", "--detach", "--wait"]);
    let theirs = stack.containers();
    assert_eq!(stack.volume_hash("db-data"), our_volume);
    assert_eq!(stack.run(&["start"]).unwrap(), Exit::Ok);
    assert_eq!(stack.containers(), theirs, "we made theirs anew");
}

#[test]
fn dependencies_are_well_before_what_needs_them_starts() {
    let text = r#"
services:
  first: {image: ambient-test:1, command: ["sh", "-c", "exit 0"]}
  db: {image: ambient-test:1, command: [sleep, "1000"], stop_signal: SIGKILL, healthcheck: {test: [CMD, "true"], interval: 1s}}
  engine:
    image: ambient-test:1
    command: [sleep, "1000"]
    stop_signal: SIGKILL
    depends_on: {db: {condition: service_healthy}, first: {condition: service_completed_successfully}}
"#;
    let stack = Stack::new(text).unwrap();
    stack.run(&["start"]).unwrap();
    let started = |service: &str| stack.inspect(service).state.unwrap().started_at.unwrap();
    let finished = stack.inspect("first").state.unwrap().finished_at.unwrap();
    assert!(finished < started("engine"));
    let health = stack.inspect("db").state.unwrap().health.unwrap();
    assert!(health.log.unwrap()[0].end.as_ref().unwrap() < &started("engine"));
}

#[test]
fn a_dependency_that_fails_leaves_its_dependents_unstarted() {
    let text = "services:\n  first: {image: ambient-test:1, command: ['sh', '-c', 'echo no luck; exit 4']}\n  engine:\n    image: ambient-test:1\n    depends_on: {first: {condition: service_completed_successfully}}\n";
    let stack = Stack::new(text).unwrap();
    let said = stack.refusal(&["start"]);
    assert!(said.contains("`first` ended with exit code 4") && said.contains("| no luck"), "{said}");
    assert!(!stack.is_running("engine"));
}

#[test]
fn a_crash_loop_without_a_health_check_is_no_success() {
    let text =
        "services: {engine: {image: ambient-test:1, command: ['sh', '-c', 'sleep 0.3; exit 1'], restart: always}}\n";
    let stack = Stack::new(text).unwrap();
    let said = stack.refusal(&["start"]);
    assert!(said.contains("`engine`") && said.contains("restart"), "{said}");
}

#[test]
fn the_deadline_holds() {
    let text = "services: {engine: {image: ambient-test:1, command: [sleep, '1000'], stop_signal: SIGKILL, healthcheck: {test: [CMD, 'false'], interval: 200ms, start_period: 1h}}}\n";
    let stack = Stack::new(text).unwrap();
    let said = stack.refusal(&["start", "--timeout", "1"]);
    assert!(said.contains("not healthy within 1 s: `engine: starting`"), "{said}");
}

#[test]
fn a_port_that_somebody_else_has_is_named_before_anything_is_made() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = format!(
        "services: {{engine: {{image: {IMAGE}, command: [sleep, '1000'], stop_signal: SIGKILL, ports: ['127.0.0.1:{port}:80']}}}}\n"
    );
    let stack = Stack::new(&text).unwrap();
    let said = stack.refusal(&["start"]);
    assert!(said.contains(&format!("`engine` cannot have port `127.0.0.1:{port}`: another program")), "{said}");
    assert!(stack.containers().is_empty());
    drop(listener);
    stack.run(&["start"]).unwrap();
    // Our own container is nobody else.
    assert_eq!(stack.run(&["restart"]).unwrap(), Exit::Ok);

    let other = Stack::new(&text).unwrap();
    let said = other.refusal(&["start"]);
    assert!(said.contains(&format!("the container `{}-engine-1` has it", stack.project)), "{said}");
}

#[test]
fn keys_that_are_not_applied_and_images_that_are_not_there_stop_everything() {
    let stack = Stack::new("services: {engine: {image: ambient-test:1, gpus: all}}\n").unwrap();
    let said = stack.refusal(&["start"]);
    assert!(said.contains("`services.engine.gpus` is not applied by ambientctl, so nothing was done"), "{said}");
    let stack = Stack::new("services: {engine: {image: 'ambient-test:none', pull_policy: never}}\n").unwrap();
    let said = stack.refusal(&["start"]);
    assert!(said.contains("could not get the image `ambient-test:none` of `engine`"), "{said}");
    assert!(stack.containers().is_empty());
}
