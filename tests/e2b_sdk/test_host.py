"""A host of namespaces and its end, however it comes. Each case has a host of its own."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import host_words, start_host, until
from e2b import Sandbox

DATA = Path(os.environ["SANDBOXD_DATA"])
# Rules for networks are not what these cases are about.
NETWORK = ("--network", "host")


@pytest.fixture
def data(tmp_path):
    """A data folder with the root of the host that all other cases are told to: making one takes a minute."""
    layers = tmp_path / "data" / "l"
    layers.mkdir(parents=True)
    [base] = (DATA / "l").glob("base-*")
    subprocess.run(["cp", "--archive", "--link", base, layers], check=True)
    return tmp_path / "data"


def running(name):
    """Processes of this machine that call themselves so."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == name.encode():
            found.append(int(process.name))
    return found


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
