"""What the Rust client expects of a server, told by its own program: the same stories that any other server is held to."""

import os
import subprocess

import pytest

PROGRAM = os.environ["E2B_CONTRACT"]
STORIES = subprocess.run([PROGRAM, "--list"], check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize("story", STORIES)
def test_story(story):
    told = subprocess.run([PROGRAM, story], capture_output=True, text=True, env={**os.environ, "RUST_BACKTRACE": "0"})
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.endswith("1 passed, 0 failed\n"), told.stdout
