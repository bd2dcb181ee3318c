//! The other commands on a running stack.

use std::fs;

use ambient_ctl::output::Exit;

use super::lab::{STACK, Stack};

#[test]
fn a_stack_is_stopped_started_and_looked_at() {
    let stack = Stack::new(STACK).unwrap();
    assert_eq!(stack.run(&["status"]).unwrap(), Exit::Unhealthy);
    stack.run(&["start"]).unwrap();
    assert_eq!(stack.run(&["status"]).unwrap(), Exit::Ok);
    let ids = stack.containers();
    stack.run(&["stop", "engine"]).unwrap();
    assert!(!stack.is_running("engine") && stack.is_running("db"));
    assert_eq!(stack.run(&["status"]).unwrap(), Exit::Unhealthy);
    stack.run(&["restart"]).unwrap();
    assert_eq!(stack.containers(), ids, "a restart makes nothing anew");
    assert!(stack.is_running("engine"));
    assert_eq!(stack.run(&["logs", "--tail", "5", "engine"]).unwrap(), Exit::Ok);
    assert!(stack.refusal(&["logs", "nobody"]).contains("the stack has no service `nobody`; it has `db`, `engine`"));
}

#[test]
fn uninstalling_keeps_data_and_purging_does_not() {
    let stack = Stack::new(STACK).unwrap();
    stack.run(&["start"]).unwrap();
    fs::write(stack.path().join("letter.txt"), "mine").unwrap();
    stack.run(&["uninstall"]).unwrap();
    assert!(stack.containers().is_empty() && stack.has_volume("db-data"));
    assert!(stack.path().join(".env").exists());
    stack.run(&["start"]).unwrap();
    let said = stack.refusal(&["uninstall", "--purge"]);
    assert!(said.contains("nobody is there to confirm it") && stack.is_running("engine"), "{said}");
    stack.run(&["uninstall", "--purge", "--yes"]).unwrap();
    assert!(stack.containers().is_empty() && !stack.has_volume("db-data"));
    let left: Vec<_> = fs::read_dir(stack.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["letter.txt"]);
}

#[test]
fn a_folder_of_somebody_else_is_not_purged() {
    let stack = Stack::new("services: {web: {image: 'ambient-test:1'}}\n").unwrap();
    let said = stack.refusal(&["uninstall", "--purge", "--yes"]);
    assert!(said.contains("is no installation"), "{said}");
    assert!(stack.path().join("docker-compose.yml").exists());
}
