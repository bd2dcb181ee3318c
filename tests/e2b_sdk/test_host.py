"""A host of namespaces and its end, however it comes. Each case has a host of its own."""

import contextlib
import resource
import signal
import socket
import subprocess
from urllib.parse import urlsplit

import pytest
from conftest import running, until
from e2b import Sandbox
from own_host import host_words, make_data, shared_layers, start_host

# Rules for networks are not what these cases are about.
NETWORK = ("--network", "host")


def with_base(folder):
    [base] = shared_layers("base-*")
    return make_data(folder, [base])


@pytest.fixture
def data(tmp_path):
    return with_base(tmp_path / "data")


def test_sandboxes_end_with_their_host_and_the_next_one_sweeps(data, word):
    host, at = start_host(data, *NETWORK)
    try:
        busy, frozen = Sandbox.create(timeout=600, **at), Sandbox.create(timeout=600, **at)
        for sandbox, name in ((busy, f"{word}-busy"), (busy, f"{word}-stopped"), (frozen, f"{word}-frozen")):
            sandbox.commands.run(f"exec -a {name} sleep 1000", background=True)
        until(lambda: all(running(f"{word}-{name}") for name in ("busy", "stopped", "frozen")))
        # Stopped, it takes no signal but the one that kills.
        busy.commands.run(f"kill -STOP $(pgrep -f '^{word}-stopped')")
        frozen.pause()
        host.send_signal(signal.SIGKILL)
        host.wait()
        until(lambda: not running(f"{word}-busy") and not running(f"{word}-stopped"))
        assert len(running(f"{word}-frozen")) == 1
        host, at = start_host(data, *NETWORK)
        assert running(f"{word}-frozen") == []
        assert Sandbox.list(**at).next_items() == []
    finally:
        host.terminate()
        assert host.wait(30) == 0
    assert list((data / "s").iterdir()) == []


def test_a_second_host_does_not_touch_the_data_of_the_first(data):
    host, at = start_host(data, *NETWORK)
    try:
        sandbox = Sandbox.create(timeout=600, **at)
        second = subprocess.run(host_words(data, *NETWORK), capture_output=True, text=True, timeout=60)
        assert second.returncode != 0 and str(data) in second.stderr, second.stderr
        assert sandbox.commands.run("echo still here").stdout == "still here\n"
    finally:
        host.terminate()
        assert host.wait(30) == 0


def test_connections_that_say_nothing_hurt_nobody(data):
    def few_files():
        _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))

    host, at = start_host(data, *NETWORK, preexec_fn=few_files)
    address = urlsplit(at["api_url"])
    try:
        sandbox = Sandbox.create(timeout=600, **at)
        with contextlib.ExitStack() as silent:
            for _ in range(200):
                silent.enter_context(socket.create_connection((address.hostname, address.port)))
            assert sandbox.commands.run("ulimit -Sn").stdout == "1024\n"
            assert Sandbox.create(timeout=600, **at).commands.run("true").exit_code == 0
        assert sandbox.is_running()
    finally:
        host.terminate()
        assert host.wait(30) == 0


def test_sandboxes_of_two_hosts_do_not_reach_each_other(data, tmp_path):
    hosts = []
    try:
        sandboxes = []
        for folder in (data, with_base(tmp_path / "other")):
            host, at = start_host(folder, "--network", "private")
            hosts.append(host)
            sandboxes.append(Sandbox.create(timeout=600, **at))
        for sandbox in sandboxes:
            sandbox.commands.run("python3 -m http.server 8300 --directory /etc", background=True)
            until(lambda: "debian" in sandbox.commands.run("curl -s http://127.0.0.1:8300/os-release || true").stdout.lower())
        for one, other in (sandboxes, sandboxes[::-1]):
            [address] = other.commands.run("hostname -I").stdout.split()
            reached = one.commands.run(f"timeout 2 bash -c '</dev/tcp/{address}/8300' && echo reached || true")
            assert reached.stdout == "", address
    finally:
        for host in hosts:
            host.terminate()
        assert [host.wait(30) for host in hosts] == [0] * len(hosts)
