//! `config set` on a running stack.

use std::fs;

use ambient_ctl::output::Exit;

use super::lab::{STACK, Stack};

fn started() -> Stack {
    let stack = Stack::new(STACK).expect("a folder can be made");
    stack.run(&["start"]).expect("the stack starts");
    stack
}

#[test]
fn only_the_service_that_a_key_is_for_is_made_anew() {
    let stack = started();
    let (db, engine) = (stack.id("db"), stack.id("engine"));
    let scratch =
        |stack: &Stack| stack.inspect("engine").mounts.unwrap_or_default().into_iter().find_map(|mount| mount.name);
    let volume = scratch(&stack);
    assert_eq!(stack.run(&["config", "set", "LLM_MODEL", "pa$w0rd #1", "--force"]).unwrap(), Exit::Ok);
    assert_eq!(stack.inside("engine", "LLM_MODEL").as_deref(), Some("pa$w0rd #1"));
    assert_eq!(stack.id("db"), db);
    let new = stack.id("engine");
    assert_ne!(new, engine);
    assert_eq!(stack.containers().len(), 2, "the old one is gone");
    assert!(volume.is_some() && scratch(&stack) == volume, "a volume without a name was lost");
    assert!(stack.file(".env").starts_with("# settings\n"));

    // So already: nothing is touched.
    assert_eq!(stack.run(&["config", "set", "LLM_MODEL", "pa$w0rd #1", "--force"]).unwrap(), Exit::Ok);
    assert_eq!(stack.id("engine"), new);
    stack.compose(&["up", "--detach", "--wait"]);
    assert_eq!(stack.id("engine"), new, "docker compose made ours anew");
    // A key that no service gets.
    assert_eq!(stack.run(&["config", "set", "SOMEBODYS_OWN", "1"]).unwrap(), Exit::Ok);
    assert_eq!(stack.id("engine"), new);
}

#[test]
fn a_setting_that_nothing_passes_on_reaches_the_engine() {
    let stack = started();
    stack.run(&["config", "set", "S3_BUCKET=films"]).unwrap();
    assert_eq!(stack.inside("engine", "S3_BUCKET").as_deref(), Some("films"));
    stack.run(&["config", "unset", "S3_BUCKET"]).unwrap();
    assert_eq!(stack.inside("engine", "S3_BUCKET").as_deref().unwrap_or_default(), "");
}

#[test]
fn a_change_that_breaks_the_engine_is_taken_back() {
    let stack = started();
    let (engine, env) = (stack.id("engine"), stack.file(".env"));
    let said = stack.refusal(&["config", "set", "LLM_MODEL=bad", "LLM_API_KEY=canary-7731", "S3_BUCKET=b"]);
    assert!(said.contains("`engine` ended with exit code 3"), "{said}");
    assert!(said.contains("| no model bad, key [redacted]") && !said.contains("canary"), "{said}");
    assert!(said.contains("the old files and the old containers are back"), "{said}");
    assert_eq!(stack.file(".env"), env);
    assert!(!stack.path().join("docker-compose.override.yml").exists());
    assert_eq!(stack.id("engine"), engine);
    assert!(stack.is_running("engine"));
    assert_eq!(stack.containers().len(), 2);
    assert_eq!(stack.run(&["config", "set", "LLM_MODEL=good"]).unwrap(), Exit::Ok);
}

#[test]
fn without_a_way_back_the_change_stands() {
    let stack = started();
    let said = stack.refusal(&["config", "set", "LLM_MODEL=bad", "--no-rollback"]);
    assert!(said.contains("the new files stand"), "{said}");
    assert!(stack.file(".env").contains("LLM_MODEL=bad"));
    assert!(!stack.is_running("engine"));
    assert_eq!(stack.run(&["config", "set", "LLM_MODEL=good"]).unwrap(), Exit::Ok);
    assert_eq!(stack.containers().len(), 2);
}

#[test]
fn a_dry_run_touches_nothing_and_a_stack_that_stands_still_is_not_started() {
    let stack = started();
    let (containers, env) = (stack.containers(), stack.file(".env"));
    stack.run(&["config", "set", "LLM_MODEL=other", "--dry-run"]).unwrap();
    assert_eq!((stack.containers(), stack.file(".env")), (containers.clone(), env));
    stack.run(&["stop"]).unwrap();
    stack.run(&["config", "set", "LLM_MODEL=other"]).unwrap();
    assert!(!stack.is_running("engine") && stack.file(".env").contains("LLM_MODEL=other"));
    stack.run(&["start"]).unwrap();
    assert_eq!(stack.inside("engine", "LLM_MODEL").as_deref(), Some("other"));
    // What the shell says counts for us as it does for docker compose, and `--no-apply` leaves the stack alone.
    let engine = stack.id("engine");
    stack.run(&["config", "set", "LLM_MODEL=third", "--no-apply"]).unwrap();
    assert_eq!(stack.id("engine"), engine);
}

#[test]
fn twenty_changes_at_once_all_count() {
    let stack = started();
    std::thread::scope(|scope| {
        for number in 0..20 {
            let stack = &stack;
            scope.spawn(move || stack.run(&["config", "set", &format!("KEY_{number}=value")]).unwrap());
        }
    });
    let env = stack.file(".env");
    for number in 0..20 {
        assert!(env.contains(&format!("KEY_{number}=value\n")), "{env}");
    }
    assert_eq!(stack.containers().len(), 2);
    assert!(fs::read_dir(stack.path().join("backups")).unwrap().count() <= 10);
}
