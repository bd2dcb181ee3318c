//! The shell on the host, with real processes: what comes back, what is ended and what may go on.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ambient_engine::backend::shell::{ShellHost, ShellLimits};
use ambient_engine::backend::{BackendError, ShellDone, ShellWish};
use ambient_engine::ids::SessionId;
use camino::{Utf8Path, Utf8PathBuf};
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes, shorter than the sleeps that commands start.
const PATIENCE: Duration = Duration::from_secs(20);

struct Place {
    _folder: tempfile::TempDir,
    path: Utf8PathBuf,
    host: ShellHost,
    session: SessionId,
}

impl Place {
    fn new() -> Self {
        Self::with(ShellLimits { cpu: Duration::from_mins(1), memory_bytes: 1 << 30 })
    }

    fn with(limits: ShellLimits) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = Utf8PathBuf::from_path_buf(folder.path().to_owned()).expect("UTF-8");
        Self { _folder: folder, path, host: ShellHost::new(limits), session: SessionId::generate() }
    }

    async fn run(&self, command: &str) -> ShellDone {
        self.run_for(command, PATIENCE).await
    }

    async fn run_for(&self, command: &str, timeout: Duration) -> ShellDone {
        let wish = ShellWish { command: command.to_owned(), timeout, max_output_bytes: 20_000 };
        let never = CancellationToken::new();
        self.host.run(&self.session, &self.path, &wish, &never).await.expect("nobody stops it")
    }

    /// The process whose id a command wrote to this file.
    async fn pid_in(&self, file: &str) -> u32 {
        let path = self.path.join(file);
        eventually(|| fs_err::read_to_string(&path).ok()?.trim().parse().ok(), || format!("`{path}` holds no number"))
            .await
    }
}

/// Asks until there is an answer.
async fn eventually<T>(mut ask: impl FnMut() -> Option<T>, state: impl Fn() -> String) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "{}", state());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process runs; a zombie does not.
fn is_alive(pid: u32) -> bool {
    fs_err::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z')))
}

async fn ends(pid: u32) {
    eventually(|| (!is_alive(pid)).then_some(()), || format!("process {pid} is still there")).await;
}

#[tokio::test]
async fn output_and_exit_code_come_back() {
    let place = Place::new();
    let done = place.run("echo out; echo err >&2; exit 3").await;
    assert_eq!((done.exit_code, done.stdout.as_str(), done.stderr.as_str()), (3, "out\n", "err\n"));
    assert!(!done.timed_out);
    assert_eq!(place.run("kill -9 $$").await.exit_code, 137);
    assert_eq!(place.run("no-such-program-anywhere").await.exit_code, 127);
    assert_eq!(place.run("pwd -P").await.stdout.trim(), place.path.canonicalize_utf8().unwrap());
    let nul = place.run("echo \0").await;
    assert_eq!(nul.exit_code, 127);
    assert!(nul.stderr.starts_with("could not start `/bin/sh`"), "{}", nul.stderr);
}

#[tokio::test]
async fn a_timeout_ends_all_that_the_command_started_and_keeps_its_output() {
    let place = Place::new();
    for command in [
        "echo before; sleep 3017 & echo $! > pid; wait",
        "echo before; sleep 3017 | cat",
        "echo before; sh -c 'echo $$ > pid; sleep 3017; true'",
        "echo before; setsid sh -c 'echo $$ > pid; exec sleep 3017' & wait; sleep 3017",
        "echo before; (setsid sh -c 'echo $$ > pid; exec sleep 3017' &) ; sleep 3017",
        "echo before; env -i setsid sh -c 'echo $$ > pid; cd /; exec sleep 3017' >/dev/null 2>&1 & sleep 3017",
        "echo before; trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 3017; done",
    ] {
        let began = Instant::now();
        fs_err::write(place.path.join("pid"), "").unwrap();
        let done = place.run_for(command, Duration::from_secs(1)).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{command}: {:?}", began.elapsed());
        assert_eq!((done.exit_code, done.timed_out, done.stdout.as_str()), (124, true, "before\n"), "{command}");
        assert!(done.stderr.ends_with("command timed out after 1s"), "{command}: {}", done.stderr);
        if !command.contains("| cat") {
            ends(place.pid_in("pid").await).await;
        }
    }
    let leftovers = place.run("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep 301[7]'").await;
    assert_eq!(leftovers.stdout.trim(), "0");
}

#[tokio::test]
async fn a_command_is_over_when_its_shell_is() {
    let place = Place::new();
    for command in [
        "nohup sleep 300 & echo $! > pid; echo done",
        "sleep 300 & echo $! > pid; echo done",
        "setsid sh -c 'echo $$ > pid; exec sleep 300' & while [ ! -s pid ]; do :; done; echo done",
    ] {
        fs_err::write(place.path.join("pid"), "").unwrap();
        let began = Instant::now();
        let done = place.run(command).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{command}: {:?}", began.elapsed());
        assert_eq!((done.exit_code, done.stdout.as_str()), (0, "done\n"), "{command}");
        let pid = place.pid_in("pid").await;
        assert!(is_alive(pid), "{command}: a background process may go on");
        // Another command's timeout is none of its business.
        place.run_for("sleep 300", Duration::from_millis(50)).await;
        assert!(is_alive(pid), "{command}: ended with another command");
        place.host.end_session(&place.session).await;
        ends(pid).await;
    }
}

#[tokio::test]
async fn a_background_process_that_writes_goes_on_after_the_call() {
    let place = Place::new();
    let command = "(n=0; while :; do echo line; echo line >&2; n=$((n+1)); echo $n > beat.new; mv beat.new beat; \
                   sleep 0.02; done) & echo $! > pid; echo started";
    let done = place.run(command).await;
    assert_eq!(done.exit_code, 0);
    assert!(done.stdout.contains("started"), "{}", done.stdout);
    let beat = place.path.join("beat");
    let count = || fs_err::read_to_string(&beat).ok()?.trim().parse::<u32>().ok();
    eventually(|| count().filter(|count| *count > 20), || format!("it stopped writing at {:?}", count())).await;
    let pid = place.pid_in("pid").await;
    place.host.shut_down().await;
    ends(pid).await;
}

#[tokio::test]
async fn sessions_do_not_end_each_other() {
    let place = Place::new();
    place.run("sleep 300 & echo $! > pid").await;
    let pid = place.pid_in("pid").await;
    place.host.end_session(&SessionId::generate()).await;
    assert!(is_alive(pid));
    place.host.end_session(&place.session).await;
    ends(pid).await;
}

#[tokio::test]
async fn a_stop_ends_the_command_and_says_so() {
    let place = Place::new();
    let stop = CancellationToken::new();
    let wish = ShellWish {
        command: "setsid sh -c 'echo $$ > pid; exec sleep 300' & sleep 300".to_owned(),
        timeout: Duration::from_mins(5),
        max_output_bytes: 1000,
    };
    let running = place.host.run(&place.session, &place.path, &wish, &stop);
    let stopping = async {
        let pid = place.pid_in("pid").await;
        stop.cancel();
        pid
    };
    let (outcome, pid) = tokio::join!(running, stopping);
    assert!(matches!(outcome, Err(BackendError::Cancelled)));
    ends(pid).await;
}

#[tokio::test]
async fn a_caller_who_goes_away_takes_the_command_with_it() {
    let place = Place::new();
    let wish = ShellWish {
        command: "setsid sh -c 'echo $$ > pid; exec sleep 300' & sleep 300".to_owned(),
        timeout: Duration::from_mins(5),
        max_output_bytes: 1000,
    };
    let never = CancellationToken::new();
    let pid = tokio::select! {
        _ = place.host.run(&place.session, &place.path, &wish, &never) => panic!("it sleeps"),
        pid = place.pid_in("pid") => pid,
    };
    ends(pid).await;
}

#[tokio::test]
async fn endless_output_is_cut_in_the_middle_while_it_is_read() {
    let place = Place::new();
    for command in ["yes", "cat /dev/zero", "cat /dev/urandom", "yes >&2"] {
        let done = place.run_for(command, Duration::from_secs(1)).await;
        assert!(done.timed_out, "{command}");
        let (text, cut) =
            if command.ends_with("&2") { (&done.stderr, done.stderr_cut) } else { (&done.stdout, done.stdout_cut) };
        assert!(cut > 1_000_000, "{command}: {cut}");
        assert!(text.contains("bytes left out"), "{command}");
        assert!(text.len() <= 3 * 20_000 + 100, "{command}: {}", text.len());
    }
    let done = place.run("echo first; yes | head -c 5000000; echo last").await;
    assert!(done.stdout.starts_with("first\ny\n") && done.stdout.ends_with("last\n"), "head and tail stay");
    assert_eq!(done.exit_code, 0);
}

#[tokio::test]
async fn what_comes_back_is_text_whatever_came() {
    let place = Place::new();
    let done = place.run(r"printf '\347\214'").await;
    assert_eq!(done.stdout, "\u{fffd}");
    let done = place.run(r"printf '\347\214'; sleep 0.1; printf '\253!'").await;
    assert_eq!(done.stdout, "猫!");
    let done = place.run("head -c 1000 /dev/urandom").await;
    assert_eq!(done.exit_code, 0);
    assert!(!done.stdout.is_empty());
}

#[tokio::test]
async fn nothing_of_the_engines_environment_is_handed_on() {
    let place = Place::new();
    let done = place.run("env").await;
    let names: BTreeSet<&str> =
        done.stdout.lines().filter_map(|line| line.split_once('=')).map(|pair| pair.0).collect();
    let known = BTreeSet::from(["HOME", "LANG", "PATH", "PWD", "SHELL", "TERM", "TMPDIR"]);
    let strange: Vec<_> = names.difference(&known).filter(|name| !matches!(**name, "_" | "OLDPWD" | "SHLVL")).collect();
    assert!(strange.is_empty(), "{strange:?}");
    assert!(done.stdout.contains(&format!("HOME={}\n", place.path)));
}

#[tokio::test]
async fn no_zombie_stays() {
    let place = Place::new();
    for _round in 0..100 {
        place.run("(true &); (sleep 0.01 &)").await;
    }
    eventually(|| zombies().is_empty().then_some(()), || format!("zombies: {:?}", zombies())).await;
}

/// Ended children of this process that nobody took leave of.
fn zombies() -> Vec<String> {
    let me = std::process::id().to_string();
    let entries = fs_err::read_dir("/proc").expect("a `/proc`");
    let stats = entries.flatten().filter_map(|entry| fs_err::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter(|stat| {
            let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            fields.next() == Some("Z") && fields.next() == Some(me.as_str())
        })
        .collect()
}

#[tokio::test]
async fn a_process_has_limits_on_memory_and_processor_time() {
    let place = Place::with(ShellLimits { cpu: Duration::from_secs(1), memory_bytes: 64 << 20 });
    let done = place.run("dd if=/dev/zero of=/dev/null bs=512M count=1").await;
    assert_ne!(done.exit_code, 0, "{done:?}");
    let began = Instant::now();
    let done = place.run("while :; do :; done").await;
    assert!(!done.timed_out && done.exit_code > 128, "{done:?}");
    assert!(began.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn other_programs_of_the_same_user_cannot_look_into_the_engine() {
    let _place = Place::new();
    // Root may look everywhere; for everybody else the entry belongs to root.
    let me = Utf8Path::new("/proc/self/environ");
    let owner = std::os::unix::fs::MetadataExt::uid(&fs_err::metadata(me).unwrap());
    assert_eq!(owner, 0);
}
