//! Commands in a sandbox.

use std::time::Duration;

use ambient_e2b::protocol::process::{Selector, Signal};
use ambient_e2b::{Capture, Command, ErrorKind, Output, ProcessOutput, Sandbox};
use anyhow::{Context as _, ensure};

use super::{Server, until};

async fn shell(sandbox: &Sandbox, line: &str) -> anyhow::Result<Output> {
    sandbox.commands().run(&Command::shell(line)).await.with_context(|| format!("`{line}`"))
}

pub(super) async fn output_and_exit_come_back(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let output = shell(&sandbox, "echo out; echo err >&2; exit 3").await?;
    ensure!((output.exit.code, output.exit.exited) == (3, true), "{output:?}");
    ensure!((&*output.stdout.text(), &*output.stderr.text()) == ("out\n", "err\n"), "{output:?}");
    let good = shell(&sandbox, "true").await?;
    ensure!(good.is_success() && good.stdout.bytes().is_empty(), "{good:?}");
    let unknown = shell(&sandbox, "no-such-program-at-all").await?;
    ensure!(unknown.exit.code == 127, "{unknown:?}");
    let binary = shell(&sandbox, r"printf '\377\000\376'").await?;
    ensure!(binary.stdout.bytes() == b"\xff\x00\xfe", "{binary:?}");
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn a_command_gets_its_surroundings(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let command = Command::shell(r#"echo "$A|$PWD|$(id -un)""#).env("A", "x y=$HOME").current_dir("/tmp");
    ensure!(sandbox.commands().run(&command).await?.stdout.text() == "x y=$HOME|/tmp|user\n");
    let root = command.user("root");
    ensure!(sandbox.commands().run(&root).await?.stdout.text() == "x y=$HOME|/tmp|root\n");
    let home = shell(&sandbox, "pwd; echo $HOME; read line || echo nothing to read").await?;
    ensure!(home.stdout.text() == "/home/user\n/home/user\nnothing to read\n", "{home:?}");
    let kind = "shopt -q login_shell && echo login || echo \"plain $PATH\"";
    let plain = sandbox.commands().run(&Command::shell(kind).env("PATH", "/usr/bin:/bin:/x y")).await?;
    ensure!(plain.stdout.text() == "plain /usr/bin:/bin:/x y\n", "{plain:?}");
    let login = sandbox.commands().run(&Command::login_shell(kind)).await?;
    ensure!(login.stdout.text() == "login\n", "{login:?}");
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn a_signal_shows_in_the_exit(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    for (signal, word) in [(Signal::Kill, "killed"), (Signal::Terminate, "terminated")] {
        let mut process = sandbox.commands().start(&Command::program("/bin/sleep").arg("60")).await?;
        ensure!(process.signal(signal).await?, "there was no process");
        let exit = process.wait(&mut Capture::new(10)).await?;
        ensure!((exit.code, exit.exited) == (-1, false) && exit.status.contains(word), "{exit:?}");
        until("the process is unknown", || async { Ok(!process.signal(signal).await?) }).await?;
    }
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn a_program_needs_no_shell(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let words = ["a b", "$HOME", "'", "\"", "*", "", "ü"];
    let output = sandbox.commands().run(&Command::program("/usr/bin/printf").arg("%s|").args(words)).await?;
    ensure!(output.stdout.text() == "a b|$HOME|'|\"|*||ü|", "{output:?}");
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn a_program_is_looked_for_as_a_shell_does(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let make = "mkdir -p '/tmp/a b' && cd '/tmp/a b' && echo 'echo without a line of its own: \"$@\"' > plain && chmod 755 plain && touch none";
    ensure!(shell(&sandbox, make).await?.is_success());
    let found = Command::program("plain").args(["1 2", ""]).env("PATH", "/nowhere:/tmp/a b:/usr/bin:/bin");
    let output = sandbox.commands().run(&found).await?;
    ensure!(output.stdout.text() == "without a line of its own: 1 2 \n", "{output:?}");
    let beside = Command::program("./plain").current_dir("/tmp/a b");
    ensure!(sandbox.commands().run(&beside).await?.is_success());
    for (program, code) in [("no-such-program-at-all", 127), ("/tmp/a b/none", 126), ("/tmp", 126)] {
        let output = sandbox.commands().run(&Command::program(program)).await?;
        ensure!(output.exit.code == code && !output.stderr.bytes().is_empty(), "`{program}`: {output:?}");
    }
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn input_reaches_a_command(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let mut process = sandbox.commands().start(&Command::shell("cat; echo end").with_stdin()).await?;
    let input = "zeile ü\n".repeat(100_000);
    let mut capture = Capture::new(4 << 20);
    let stdin = process.stdin();
    let feed = async {
        stdin.write(input.clone()).await?;
        stdin.close().await
    };
    let (exit, fed) = tokio::join!(process.wait(&mut capture), feed);
    fed.context("feeding")?;
    ensure!(exit?.is_success());
    ensure!(capture.stdout().text() == format!("{input}end\n"), "{} bytes came back", capture.stdout().bytes().len());
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn a_command_can_be_left_and_joined(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let line = "until [ -e /tmp/go ]; do sleep 0.05; done; echo went; exit 7";
    let started = sandbox.commands().start(&Command::shell(line).tag("waiter")).await?;
    let pid = started.pid();
    drop(started);
    let listed = sandbox.commands().list().await?;
    let one = listed.iter().find(|one| one.pid == pid).context("a left command is not listed")?;
    ensure!(one.config.cmd == "/bin/bash" && one.tag.as_deref() == Some("waiter"), "{one:?}");
    let mut joined = sandbox.commands().connect(Selector::Pid(pid), Duration::from_mins(1)).await?;
    ensure!(joined.pid() == pid);
    sandbox.files().write("/tmp/go", "").await?;
    let mut capture = Capture::new(1000);
    let exit = joined.wait(&mut capture).await?;
    ensure!(exit.code == 7 && capture.stdout().text() == "went\n", "{exit:?} {capture:?}");
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn dropping_leaves_and_kill_ends(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let runs = |pid: u32| {
        let sandbox = sandbox.clone();
        async move { anyhow::Ok(sandbox.commands().list().await?.iter().any(|one| one.pid == pid)) }
    };
    let mut process = sandbox.commands().start(&Command::shell("echo up; exec sleep 60")).await?;
    ensure!(process.next().await? == Some(ProcessOutput::Stdout("up\n".into())));
    // A reader that gives up in the middle loses nothing, and ends nothing.
    let cut = tokio::time::timeout(Duration::from_millis(50), process.next()).await;
    ensure!(cut.is_err(), "a sleeping command told something");
    let pid = process.pid();
    drop(process);
    ensure!(runs(pid).await?, "dropping the stream ended the command");
    ensure!(sandbox.commands().kill(Selector::Pid(pid)).await?, "there was nothing to kill");
    until("the command is gone", || async { Ok(!runs(pid).await?) }).await?;
    ensure!(!sandbox.commands().kill(Selector::Pid(pid)).await?, "it was killed twice");
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn a_deadline_ends_a_command(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let limit = Duration::from_secs(1);
    let mut process = sandbox.commands().start(&Command::shell("echo before; exec sleep 60").timeout(limit)).await?;
    let mut capture = Capture::new(1000);
    let error = process.wait(&mut capture).await.err().context("a command outlived its deadline")?;
    ensure!(error.kind() == ErrorKind::CommandTimedOut, "{error:?}");
    ensure!(capture.stdout().text() == "before\n", "what came before the deadline is kept: {capture:?}");
    let pid = process.pid();
    until("the command is gone", || async { Ok(!sandbox.commands().list().await?.iter().any(|one| one.pid == pid)) })
        .await?;
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn a_daemon_does_not_hold_the_call(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let line = r#"echo "up $PWD"; echo err >&2; cat; (until [ -e /tmp/go ]; do sleep 0.02; done; echo late; echo late >&2; touch /tmp/alive) & exit 6"#;
    let command = Command::shell_until_exit(line).timeout(Duration::from_secs(20));
    let output = sandbox.commands().run(&command).await?;
    ensure!((output.exit.code, &*output.stdout.text()) == (6, "up /home/user\n"), "{output:?}");
    ensure!(output.stderr.text() == "err\n", "{output:?}");
    sandbox.files().write("/tmp/go", "").await?;
    until("the daemon has written and lives", || async { Ok(sandbox.files().exists("/tmp/alive").await?) }).await?;
    let much = Command::shell_until_exit("head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2");
    let output = sandbox.commands().run(&much).await?;
    ensure!(output.is_success(), "{:?}", output.exit);
    ensure!((output.stdout.bytes().len(), output.stderr.bytes().len()) == (300_000, 200_000), "output was cut");
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn a_marked_command_leaves_nothing(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let line = "setsid sleep 31337 >/dev/null 2>&1 & (sleep 31337 & sleep 31337); wait";
    let command = Command::shell(line).timeout(Duration::from_secs(1)).mark("story_1");
    let error = sandbox.commands().run(&command).await.err().context("a command outlived its deadline")?;
    ensure!(error.kind() == ErrorKind::CommandTimedOut, "{error:?}");
    let left = shell(&sandbox, "grep -las '[3]1337' /proc/[0-9]*/cmdline; true").await?;
    ensure!(left.stdout.bytes().is_empty(), "something was left: {}", left.stdout.text());
    sandbox.commands().sweep("story_1").await.context("sweeping what is clean")?;
    ensure!(sandbox.commands().sweep("a b").await.is_err());
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn characters_survive_the_pieces(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let line = r#"s=猫; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do s=$s$s; done; printf 'a%s' "$s""#;
    let output = shell(&sandbox, line).await?;
    let text = output.stdout.text();
    ensure!(text.chars().count() == 1 + (1 << 15) && !text.contains('\u{FFFD}'), "{} characters", text.chars().count());
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn output_over_the_limit_is_counted(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let command = Command::shell("head -c 3000000 /dev/zero; head -c 500 /dev/zero >&2").output_limit(1000);
    let output = sandbox.commands().run(&command).await?;
    ensure!((output.stdout.bytes().len(), output.stdout.dropped_bytes()) == (1000, 2_999_000));
    ensure!((output.stderr.bytes().len(), output.stderr.dropped_bytes()) == (500, 0));
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn three_run_at_once(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let wait = |mine: &str, others: &str| {
        format!("touch /tmp/{mine}; for f in {others}; do until [ -e /tmp/$f ]; do sleep 0.02; done; done; echo {mine}")
    };
    let (a, b, c) = (wait("a", "b c"), wait("b", "a c"), wait("c", "a b"));
    let (a, b, c) = tokio::join!(shell(&sandbox, &a), shell(&sandbox, &b), shell(&sandbox, &c));
    for (output, word) in [(a?, "a\n"), (b?, "b\n"), (c?, "c\n")] {
        ensure!(output.is_success() && output.stdout.text() == word, "{output:?}");
    }
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn a_terminal_is_one(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let mut process = sandbox.commands().start(&Command::terminal(80, 24)).await?;
    let stdin = process.stdin();
    sandbox.commands().resize(Selector::Pid(process.pid()), 100, 30).await?;
    stdin.write("stty size; [ -t 0 ] && echo is-a-tty; exit 4\n").await?;
    let mut capture = Capture::new(1 << 16);
    let exit = process.wait(&mut capture).await?;
    let text = capture.stdout().text().into_owned();
    ensure!(exit.code == 4 && text.contains("30 100") && text.contains("\nis-a-tty"), "{exit:?} {text}");
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn what_cannot_start_is_said(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let nowhere = Command::shell("true").current_dir("/no/such/folder");
    let error = sandbox.commands().run(&nowhere).await.err().context("it ran nowhere")?;
    ensure!(error.kind() == ErrorKind::InvalidArgument, "{error:?}");
    let nobody = Command::shell("true").user("no-such-user");
    let error = sandbox.commands().run(&nobody).await.err().context("nobody ran it")?;
    ensure!(error.kind() == ErrorKind::KeyRefused, "{error:?}");
    let unknown = sandbox.commands().connect(Selector::Pid(4_000_000), Duration::from_secs(10)).await;
    ensure!(unknown.err().map(|error| error.kind()) == Some(ErrorKind::NotFound));
    ensure!(!sandbox.commands().kill(Selector::Tag("no-such-tag".to_owned())).await?);
    sandbox.kill().await?;
    Ok(())
}
