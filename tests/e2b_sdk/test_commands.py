"""Commands and terminals."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import until
from e2b import CommandExitException, InvalidArgumentException, NotFoundException, PtySize, Sandbox, TimeoutException
from e2b import AuthenticationException


def test_output_and_exit(shared):
    result = shared.commands.run("echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 0)


def test_an_exit_code_is_an_exception(shared):
    with pytest.raises(CommandExitException) as caught:
        shared.commands.run("echo before; exit 7")
    assert (caught.value.exit_code, caught.value.stdout, caught.value.error) == (7, "before\n", "exit status 7")


def test_an_unknown_program_is_exit_127(shared):
    with pytest.raises(CommandExitException) as caught:
        shared.commands.run("no-such-program-here")
    assert caught.value.exit_code == 127


def test_users_are_who_they_are(shared):
    assert shared.commands.run("whoami; pwd; id -u").stdout.split() == ["user", "/home/user", "1000"]
    assert shared.commands.run("whoami; pwd", user="root").stdout.split() == ["root", "/root"]
    assert shared.commands.run("sudo whoami").stdout == "root\n"
    with pytest.raises(AuthenticationException, match="invalid username: 'nobody-here'"):
        shared.commands.run("true", user="nobody-here")


def test_variables_come_from_sandbox_and_command(make):
    sandbox = make(envs={"ONE": "1", "TWO": "2"})
    result = sandbox.commands.run("echo $ONE $TWO $THREE $E2B_SANDBOX $E2B_SANDBOX_ID", envs={"TWO": "two", "THREE": "3"})
    assert result.stdout.split() == ["1", "two", "3", "true", sandbox.sandbox_id]


def test_folders(shared):
    assert shared.commands.run("pwd", cwd="/tmp").stdout == "/tmp\n"
    with pytest.raises(InvalidArgumentException, match="does not exist"):
        shared.commands.run("pwd", cwd="/not/there")


def test_output_comes_as_it_is_written(shared):
    seen = []
    shared.commands.run("for n in 1 2 3; do echo $n; sleep 0.2; done", on_stdout=lambda text: seen.append((time.monotonic(), text)))
    assert "".join(text for _, text in seen) == "1\n2\n3\n"
    assert seen[-1][0] - seen[0][0] > 0.3


def test_much_output_is_whole(shared):
    result = shared.commands.run("seq 1 200000")
    assert result.stdout == "".join(f"{n}\n" for n in range(1, 200001))


def test_bytes_that_are_no_text_do_no_harm(shared):
    assert shared.commands.run("printf 'a\\xffb'; printf '\\xc3'; sleep 0.1; printf '\\xbc'").stdout == "a\ufffdbü"


def test_the_deadline_is_a_timeout_and_ends_the_process(shared):
    with pytest.raises(TimeoutException):
        shared.commands.run("exec sleep 4711", timeout=1)
    until(lambda: shared.commands.run("pgrep -f 'sleep 471[1]' || true").stdout == "")


def test_input_arrives(shared):
    handle = shared.commands.run("cat", background=True, stdin=True)
    shared.commands.send_stdin(handle.pid, "one\n")
    shared.commands.send_stdin(handle.pid, "two\n")
    handle.close_stdin()
    assert handle.wait().stdout == "one\ntwo\n"


def test_without_input_the_end_comes_at_once(shared):
    assert shared.commands.run("cat; echo done").stdout == "done\n"


def test_processes_are_listed_and_killed(shared):
    handle = shared.commands.run("exec sleep 1000", background=True)
    listed = {process.pid: process for process in shared.commands.list()}
    assert listed[handle.pid].cmd == "/bin/bash" and listed[handle.pid].args == ["-l", "-c", "exec sleep 1000"]
    assert shared.commands.kill(handle.pid)
    with pytest.raises(CommandExitException) as caught:
        handle.wait()
    assert caught.value.exit_code == -1 and caught.value.error == "signal: killed"
    assert not shared.commands.kill(handle.pid)


def test_a_process_outlives_its_stream(shared):
    handle = shared.commands.run("sleep 1; echo late", background=True)
    handle.disconnect()
    again = shared.commands.connect(handle.pid)
    assert again.wait().stdout == "late\n"


def test_a_late_connect_still_gets_the_end(shared):
    handle = shared.commands.run("exit 3", background=True)
    with pytest.raises(CommandExitException):
        handle.wait()
    with pytest.raises(CommandExitException) as caught:
        shared.commands.connect(handle.pid).wait()
    assert caught.value.exit_code == 3


def test_connect_to_no_process(shared):
    with pytest.raises(NotFoundException):
        shared.commands.connect(999999)


def test_a_daemon_holds_the_call_only_while_it_holds_the_output(shared):
    began = time.monotonic()
    assert shared.commands.run("sleep 600 >/dev/null 2>&1 & echo started").stdout == "started\n"
    assert time.monotonic() - began < 10


def test_a_kill_of_the_sandbox_breaks_its_commands(sandbox):
    handle = sandbox.commands.run("sleep 600", background=True)
    threading.Timer(0.5, lambda: Sandbox.kill(sandbox.sandbox_id)).start()
    with pytest.raises(TimeoutException):
        handle.wait()


def test_a_timeout_of_the_sandbox_breaks_its_commands(make):
    sandbox = make(timeout=2)
    with pytest.raises(TimeoutException):
        sandbox.commands.run("sleep 600", timeout=30)


def test_many_commands_at_once(shared):
    handles = [shared.commands.run(f"sleep 0.3; echo {n}", background=True) for n in range(20)]
    assert [handle.wait().stdout for handle in handles] == [f"{n}\n" for n in range(20)]


def test_every_command_gets_its_own_end(shared):
    def end(n):
        # It leaves an orphan, whose end comes among those of the others.
        try:
            return shared.commands.run(f"(sleep 0.0{n % 10} &) > /dev/null 2>&1; echo {n}; exit {n % 50}").stdout, 0
        except CommandExitException as exit:
            return exit.stdout, exit.exit_code

    with ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(end, range(120)))
    assert ends == [(f"{n}\n", n % 50) for n in range(120)]
    zombies = "ps -e -o stat= | grep -c ^Z || true"
    until(lambda: shared.commands.run(zombies).stdout == "0\n")


def test_a_command_has_nothing_of_who_started_it(shared):
    def words(line):
        return shared.commands.run(line).stdout.split()

    status = dict(line.split(":\t", 1) for line in shared.commands.run("cat /proc/self/status").stdout.splitlines())
    assert (status["SigBlk"], status["SigIgn"], status["SigCgt"]) == ("0" * 16,) * 3
    assert sorted(status["Groups"].split()) == sorted(words("id -G"))
    assert words("ls /proc/self/fd") == ["0", "1", "2", "3"], "3 is the folder that `ls` reads"
    group, leader = words("ps -o pgid=,pid= -p $$")
    assert group == leader
    assert words("cat /proc/self/oom_score_adj") == ["300"]
    names = {line.split("=")[0] for line in shared.commands.run("env").stdout.splitlines()}
    known = {"HOME", "USER", "LOGNAME", "PATH", "PWD", "SHLVL", "_"}
    assert {name for name in names if not name.startswith("E2B_")} == known


def test_commands_that_start_together_get_no_files_of_each_other(shared):
    def files(_n):
        return shared.commands.run("ls /proc/self/fd").stdout

    def terminal(_n):
        handle = shared.pty.create(PtySize(24, 80), timeout=60)
        shared.pty.kill(handle.pid)

    with ThreadPoolExecutor(8) as pool:
        terminals = pool.map(terminal, range(40))
        assert set(pool.map(files, range(120))) == {"0\n1\n2\n3\n"}
        assert len(list(terminals)) == 40


def test_a_terminal_is_one(shared):
    output = bytearray()
    terminal = shared.pty.create(PtySize(rows=33, cols=99), timeout=30)
    shared.pty.send_stdin(terminal.pid, b"stty size; tty; echo $TERM; exit 5\n")
    with pytest.raises(CommandExitException) as caught:
        terminal.wait(on_pty=output.extend)
    assert caught.value.exit_code == 5
    assert b"33 99" in output and b"/dev/pts/" in output and b"xterm-256color" in output


def test_a_terminal_can_be_resized(shared):
    output = bytearray()
    terminal = shared.pty.create(PtySize(rows=10, cols=10), timeout=30)
    shared.pty.resize(terminal.pid, PtySize(rows=50, cols=120))
    shared.pty.send_stdin(terminal.pid, b"stty size; exit\n")
    terminal.wait(on_pty=output.extend)
    assert b"50 120" in output


def test_a_terminal_can_be_killed(shared):
    terminal = shared.pty.create(PtySize(rows=10, cols=10), timeout=30)
    assert shared.pty.kill(terminal.pid)
    assert not shared.pty.kill(999999)
