//! Runs that are killed at every step of an apply, and the next run, which heals.
//!
//! The run that is killed is a process of its own, which reaches the engine through a relay of the test. The relay counts
//! what changes something (POST and DELETE) and kills the process before or after the one of the given number.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ambient_ctl::output::Exit;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::lab::{STACK, Stack, ambientctl, socket, variable};

const FOLDER: &str = "AMBIENT_TEST_CHANGE_FOLDER";
const SOCKET: &str = "AMBIENT_TEST_CHANGE_SOCKET";
const VALUE: &str = "AMBIENT_TEST_CHANGE_VALUE";

/// Calls that change something when one service is made anew: create, stop, twice rename, start, remove.
const STEPS: usize = 6;

/// What the other tests run as a process of its own; by itself it finds no stack and changes nothing.
#[test]
fn a_change_reaches_its_end() {
    let (Some(folder), Some(socket), Some(value)) = (variable(FOLDER), variable(SOCKET), variable(VALUE)) else {
        return;
    };
    let set = format!("LLM_MODEL={value}");
    let exit = ambientctl(&["config", "set", &set, "--dir", &folder], Path::new(&folder), Path::new(&socket));
    assert_eq!(exit.unwrap(), Exit::Ok);
}

#[expect(clippy::disallowed_methods, reason = "a test of processes that are killed needs processes")]
fn change(folder: &Path, socket: &Path, value: &str) -> Child {
    Command::new(std::env::current_exe().expect("this program has a path"))
        .args(["--exact", "kills::a_change_reaches_its_end"])
        .env(FOLDER, folder)
        .env(SOCKET, socket)
        .env(VALUE, value)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this program can be started")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    Before,
    After,
}

/// Passes everything on to the engine, and kills at its moment.
struct Relay {
    path: PathBuf,
    victim: Arc<Mutex<Option<Pid>>>,
    _folder: tempfile::TempDir,
}

impl Relay {
    fn new(step: usize, moment: Moment) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("docker.sock");
        let listener = UnixListener::bind(&path)?;
        let victim = Arc::new(Mutex::new(None));
        let (count, pid) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&victim));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (count, pid) = (Arc::clone(&count), Arc::clone(&pid));
                std::thread::spawn(move || relay(client, step, moment, &count, &pid));
            }
        });
        Ok(Self { path, victim, _folder: folder })
    }
}

fn relay(
    mut client: UnixStream,
    step: usize,
    moment: Moment,
    count: &AtomicUsize,
    victim: &Mutex<Option<Pid>>,
) -> io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte)? == 1 {
        head.push(byte[0]);
    }
    let changes = head.starts_with(b"POST") || head.starts_with(b"DELETE");
    let is_it = changes && count.fetch_add(1, Ordering::SeqCst) + 1 == step;
    let die = || {
        let pid = victim.lock().expect("nobody panics with the lock").expect("the victim is known before it calls");
        kill(pid, Signal::SIGKILL).expect("the victim is ours");
    };
    if is_it && moment == Moment::Before {
        die();
        return Ok(());
    }
    let mut engine = UnixStream::connect(socket())?;
    engine.write_all(&head)?;
    let (mut from_client, mut to_engine) = (client.try_clone()?, engine.try_clone()?);
    let upward = std::thread::spawn(move || {
        let _either_may_hang_up = io::copy(&mut from_client, &mut to_engine);
        let _gone_already = to_engine.shutdown(Shutdown::Write);
    });
    if is_it {
        // The engine's answer shows that it is done; the victim never sees it.
        let mut first = [0; 1];
        engine.read_exact(&mut first)?;
        die();
        return Ok(());
    }
    let _either_may_hang_up = io::copy(&mut engine, &mut client);
    let _gone_already = client.shutdown(Shutdown::Both);
    let _never_panics = upward.join();
    Ok(())
}

fn killed_at_every_step(moment: Moment) {
    let stack = Stack::new(STACK).expect("a folder can be made");
    stack.run(&["start"]).expect("the stack starts");
    let db = stack.id("db");
    for step in 1..=STEPS {
        let relay = Relay::new(step, moment).expect("a socket can be made");
        let value = format!("v{step}");
        let mut child = {
            let mut victim = relay.victim.lock().expect("nobody panics with the lock");
            let child = change(stack.path(), &relay.path, &value);
            *victim = Some(Pid::from_raw(i32::try_from(child.id()).expect("a process id is small")));
            child
        };
        let status = child.wait().expect("the child is ours");
        assert!(!status.success(), "step {step} was not reached");
        let env = stack.file(".env");
        assert!(env.starts_with("# settings\nLLM_MODEL="), "step {step}: {env}");

        // The same again, undisturbed.
        assert_eq!(stack.run(&["config", "set", &format!("LLM_MODEL={value}")]).expect("the next run heals"), Exit::Ok);
        assert_eq!(stack.inside("engine", "LLM_MODEL").as_deref(), Some(value.as_str()), "step {step}");
        let names: Vec<String> = stack.containers().into_keys().collect();
        assert_eq!(names, [format!("{}-db-1", stack.project), format!("{}-engine-1", stack.project)], "step {step}");
        assert!(stack.is_running("engine") && stack.id("db") == db, "step {step}");
    }
}

#[test]
fn the_next_run_heals_what_was_killed_before_a_step() {
    killed_at_every_step(Moment::Before);
}

#[test]
fn the_next_run_heals_what_was_killed_after_a_step() {
    killed_at_every_step(Moment::After);
}
