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
    // Before anything is pulled, too: the image is nowhere.
    let text_of_nowhere = text.replace(IMAGE, "127.0.0.1:9/nowhere");
    let said = Stack::new(&text_of_nowhere).unwrap().refusal(&["start"]);
    assert!(said.contains(&format!("`engine` cannot have port `127.0.0.1:{port}`")), "{said}");
    drop(listener);
    stack.run(&["start"]).unwrap();
    // Our own container is nobody else.
    assert_eq!(stack.run(&["restart"]).unwrap(), Exit::Ok);

    let other = Stack::new(&text).unwrap();
    let said = other.refusal(&["start"]);
    assert!(said.contains(&format!("the container `{}-engine-1` has it", stack.project)), "{said}");
}

/// Everything by which one service leans on another, or on files beside the stack.
const LEANING: &str = r#"
services:
  db: {image: ambient-test:1, command: [sleep, "1000"], stop_signal: SIGKILL, volumes: [/anonymous], environment: {A: "${A:-}"}}
  side:
    image: ambient-test:1
    command: [sleep, "1000"]
    stop_signal: SIGKILL
    network_mode: service:db
    pid: service:db
    volumes_from: ["db:ro"]
  engine:
    image: ambient-test:1
    command: [sleep, "1000"]
    stop_signal: SIGKILL
    platform: linux/amd64
    links: [db, "db:base"]
    external_links: ["${EXTERNAL:-nobody}:outside"]
    secrets: [token, {source: key, target: other, mode: 0400, uid: "7"}]
    configs: [text, {source: file, target: /etc/file.conf}]
  loose: {image: ambient-test:1, command: [sleep, "1000"], stop_signal: SIGKILL, depends_on: [db]}
secrets:
  token: {file: ./token}
  key: {environment: KEY}
configs:
  text: {content: "a is ${A:-}\n"}
  file: {file: ./file}
"#;

#[test]
fn services_that_lean_on_others_are_the_same_for_both_tools() {
    let stack = Stack::new(LEANING).unwrap();
    for (name, text) in [("token", "canary-token\n"), ("file", "from a file\n")] {
        std::fs::write(stack.path().join(name), text).unwrap();
    }
    std::fs::write(stack.path().join(".env"), format!("KEY=canary-key\nEXTERNAL={}-db-1\n", stack.project)).unwrap();
    stack.run(&["start"]).unwrap();
    let ours = stack.containers();
    let told = |path: &str| stack.said_inside("engine", &["cat", path]);
    assert_eq!(told("/run/secrets/token"), "canary-token\n");
    assert_eq!(told("/run/secrets/other"), "canary-key");
    assert_eq!(told("/text"), "a is \n");
    assert_eq!(told("/etc/file.conf"), "from a file\n");
    let listed = stack.said_inside("engine", &["ls", "-ln", "/run/secrets/other"]);
    assert!(listed.starts_with("-r--------") && listed.contains(" 7 "), "{listed}");
    let links = || {
        let networks = stack.inspect("engine").network_settings.and_then(|settings| settings.networks);
        networks.unwrap_or_default().into_values().find_map(|network| network.links).unwrap_or_default()
    };
    let our_links = links();
    for name in ["db", "base", "db-1", "outside"] {
        assert!(our_links.contains(&format!("{}-db-1:{name}", stack.project)), "{name} in {our_links:?}");
    }
    let db = stack.id("db");
    let side = stack.inspect("side").host_config.unwrap();
    assert_eq!(side.network_mode, Some(format!("container:{db}")));
    assert_eq!(side.pid_mode, Some(format!("container:{db}")));
    assert_eq!(side.volumes_from, Some(vec![format!("{db}:ro")]));

    stack.compose(&["up", "--detach", "--wait"]);
    assert_eq!(stack.containers(), ours, "docker compose made ours anew");
    stack.compose(&["up", "--detach", "--wait", "--force-recreate"]);
    let theirs = stack.containers();
    assert_eq!(links(), our_links);
    stack.run(&["start"]).unwrap();
    assert_eq!(stack.containers(), theirs, "we made theirs anew");

    // Another database: what shares with it is made anew, what is linked to it is started again, what only follows stays.
    let started = |service: &str| stack.inspect(service).state.unwrap().started_at.unwrap();
    let (side, engine, loose) = (stack.id("side"), stack.id("engine"), stack.id("loose"));
    let before = (started("engine"), started("loose"));
    stack.run(&["config", "set", "A=2", "--force"]).unwrap();
    assert_ne!(stack.id("side"), side);
    assert_eq!((stack.id("engine"), stack.id("loose")), (engine, loose));
    assert!(started("engine") > before.0 && started("loose") == before.1);

    // The mark of what was put in is on containers of ours alone.
    stack.compose(&["rm", "--stop", "--force", "engine"]);
    stack.run(&["start"]).unwrap();
    let engine = stack.id("engine");
    stack.run(&["config", "set", "KEY=canary-new"]).unwrap();
    assert_ne!(stack.id("engine"), engine);
    assert_eq!(told("/run/secrets/other"), "canary-new");
    stack.compose(&["up", "--detach", "--wait"]);
    assert_eq!(told("/run/secrets/other"), "canary-new");
}

#[test]
fn what_started_again_is_taken_back_too() {
    let text = "services:\n  db: {image: ambient-test:1, command: ['sh', '-c', '[ $$A != bad ] && exec sleep 1000'], stop_signal: SIGKILL, environment: {A: '${A:-}'}}\n  engine: {image: ambient-test:1, command: [sleep, '1000'], stop_signal: SIGKILL, depends_on: {db: {condition: service_started, restart: true}}}\n";
    let stack = Stack::new(text).unwrap();
    stack.run(&["config", "set", "A=good", "--no-apply"]).unwrap();
    stack.run(&["start"]).unwrap();
    let containers = stack.containers();
    let said = stack.refusal(&["config", "set", "A=bad"]);
    assert!(said.contains("the old files and the old containers are back"), "{said}");
    assert_eq!(stack.containers(), containers);
    assert!(stack.is_running("db") && stack.is_running("engine"));
}

#[test]
fn keys_that_are_not_applied_and_images_that_are_not_there_stop_everything() {
    for (key, text) in [
        ("scale", "scale: 2"),
        ("post_start", "post_start: [{command: [touch, /a]}]"),
        ("deploy.replicas", "deploy: {replicas: 2}"),
    ] {
        let stack = Stack::new(&format!("services: {{engine: {{image: 'ambient-test:1', {text}}}}}\n")).unwrap();
        let said = stack.refusal(&["start"]);
        assert!(
            said.contains(&format!("`services.engine.{key}` is not applied by ambientctl, so nothing was done")),
            "{said}"
        );
        assert!(said.contains("remove that key, or run the stack with `docker compose up -d`"), "{said}");
    }
    // What is applied, and what this machine does not have, is refused by the engine.
    let stack = Stack::new("services: {engine: {image: ambient-test:1, gpus: all}}\n").unwrap();
    let said = stack.refusal(&["start"]);
    assert!(said.contains("could not select device driver"), "{said}");
    let stack = Stack::new("services: {engine: {image: 'ambient-test:none', pull_policy: never}}\n").unwrap();
    let said = stack.refusal(&["start"]);
    assert!(said.contains("could not get the image `ambient-test:none` of `engine`"), "{said}");
    assert!(stack.containers().is_empty());
}
