"""What the cases share: the environment of the host, and sandboxes that end with their case."""

import os
import time
import uuid
from pathlib import Path

import pytest
from e2b import Sandbox

OTHER_KEY = os.environ["E2B_API_KEY_2"]

# What only the one or the other driver can show.
collect_ignore = ["test_host.py"] if os.environ.get("SANDBOXD_DRIVER") == "docker" else ["test_containers.py"]


@pytest.fixture
def make():
    """Makes sandboxes that are killed after the case."""
    made = []

    def create(template="base", **options):
        options.setdefault("timeout", 120)
        sandbox = Sandbox.create(template, **options)
        made.append((sandbox, options.get("api_key")))
        return sandbox

    yield create
    for sandbox, key in made:
        Sandbox.kill(sandbox.sandbox_id, **({"api_key": key} if key else {}))


@pytest.fixture
def sandbox(make):
    return make()


@pytest.fixture(scope="module")
def shared():
    """One sandbox for cases that leave nothing behind that others could meet."""
    sandbox = Sandbox.create(timeout=600)
    yield sandbox
    sandbox.kill()


@pytest.fixture
def word():
    """A word that no other case knows."""
    return uuid.uuid4().hex


@pytest.fixture
def other_key():
    return OTHER_KEY


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


def until(what, seconds=10.0):
    """Asks until the answer is true; fails with the last answer."""
    end = time.monotonic() + seconds
    while True:
        answer = what()
        if answer:
            return answer
        assert time.monotonic() < end, f"still {answer!r} after {seconds} s"
        time.sleep(0.05)


def walk(paginator):
    """Everything that a paginator gives."""
    found = []
    while paginator.has_next:
        found.extend(paginator.next_items())
    return found
