//! `ambientctl doctor` on a real Docker engine: what is wrong with containers, ports and the engine itself.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use ambient_ctl::doctor::{Context, Finding, Level, Place, Target, Wishes, run};
use ambient_ctl::environment::Environment;
use ambient_ctl::output::Exit;

use super::lab::{STACK, Stack, runtime, socket};

/// What `doctor` says about a stack, on this engine.
fn look(stack: &Stack, docker: &str, only: &str) -> Vec<Finding> {
    let environment = Environment { variables: vec![("HOME".into(), stack.path().into())], env_file: None };
    let target = Target::read(Place::Install(stack.path().to_owned()), Some(stack.path()), &environment);
    let wishes = Wishes { limit: Duration::from_secs(10), deep: false, docker: Some(docker.to_owned()), engine: None };
    let context = Context::new(target, wishes, environment).expect("TLS can be set up");
    runtime().block_on(run(&context, &[only.to_owned()])).findings
}

fn here() -> String {
    format!("unix://{}", socket().display())
}

fn bad(findings: Vec<Finding>) -> Vec<Finding> {
    findings.into_iter().filter(|finding| finding.level >= Level::Warning).collect()
}

#[test]
fn a_stopped_container_is_started_by_its_remedy() {
    let stack = Stack::new(STACK).unwrap();
    let missing = bad(look(&stack, &here(), "docker"));
    assert_eq!(missing.iter().map(|finding| finding.id).collect::<Vec<_>>(), ["docker.containers"; 2], "{missing:#?}");
    assert_eq!(missing[1].seen, "`engine` has no container");
    stack.run(&["start"]).unwrap();
    stack.run(&["stop", "engine"]).unwrap();
    let stopped = bad(look(&stack, &here(), "docker"));
    assert_eq!(stopped.len(), 1, "{stopped:#?}");
    assert!(stopped[0].seen.starts_with("the container of `engine` is stopped: Exited"), "{stopped:#?}");
    assert_eq!(stopped[0].remedy.as_ref().map(|remedy| remedy.paste.as_str()), Some("ambientctl start"));
    assert_eq!(stack.run(&["start"]).unwrap(), Exit::Ok);
    let well = look(&stack, &here(), "docker");
    assert!(well.iter().all(|finding| finding.level == Level::Ok || finding.id == "docker.image"), "{well:#?}");
    assert!(well.iter().any(|finding| finding.seen.starts_with("Docker ")), "{well:#?}");
}

#[test]
fn files_that_changed_are_told_until_they_are_applied() {
    let stack = Stack::new(STACK).unwrap();
    stack.run(&["start"]).unwrap();
    stack.run(&["config", "set", "LLM_MODEL", "second", "--no-apply"]).unwrap();
    let pending = bad(look(&stack, &here(), "docker"));
    assert!(pending.iter().any(|finding| finding.id == "docker.pending"), "{pending:#?}");
    stack.run(&["start"]).unwrap();
    assert!(bad(look(&stack, &here(), "docker")).iter().all(|finding| finding.id == "docker.image"));
}

#[test]
fn an_engine_that_is_missing_or_silent_is_told_in_other_words() {
    let stack = Stack::new(STACK).unwrap();
    let missing = bad(look(&stack, "unix:///no/such/docker.sock", "docker"));
    assert_eq!(missing[0].id, "docker.missing", "{missing:#?}");
    let stale = stack.path().join("stale.sock");
    drop(UnixListener::bind(&stale).unwrap());
    let silent = bad(look(&stack, &format!("unix://{}", stale.display()), "docker"));
    assert_eq!(silent[0].id, "docker.silent", "{silent:#?}");
    assert_eq!(silent[0].remedy.as_ref().map(|remedy| remedy.paste.as_str()), Some("sudo systemctl start docker"));
}

#[test]
fn files_that_are_not_valid_name_the_line() {
    let stack = Stack::new("services:\n  engine:\n    image: ambient-test:1\n    prots: []\n").unwrap();
    let found = bad(look(&stack, &here(), "docker"));
    assert_eq!(found[0].id, "docker.files", "{found:#?}");
    assert!(found[0].seen.contains("docker-compose.yml` line 5: "), "{found:#?}");
    assert!(found[0].remedy.as_ref().is_some_and(|remedy| remedy.paste.starts_with("${EDITOR:-vi} +5 ")), "{found:#?}");
}

#[test]
fn a_port_of_another_program_is_told_with_a_free_one() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = format!(
        "services:\n  engine:\n    image: ambient-test:1\n    ports: [\"127.0.0.1:${{AMBIENT_ENGINE_PORT:-{port}}}:8080\"]\n"
    );
    let stack = Stack::new(&text).unwrap();
    let taken = bad(look(&stack, &here(), "ports"));
    assert_eq!(taken[0].id, "ports.taken", "{taken:#?}");
    assert!(taken[0].seen.contains(&format!("`127.0.0.1:{port}`")), "{taken:#?}");
    let remedy = taken[0].remedy.as_ref().expect("it has a remedy").paste.clone();
    let words: Vec<&str> = remedy.split_whitespace().skip(1).collect();
    stack.run(&[words.as_slice(), &["--no-apply"]].concat()).unwrap();
    assert_eq!(bad(look(&stack, &here(), "ports")), []);
}
