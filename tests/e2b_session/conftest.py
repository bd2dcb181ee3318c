"""What the cases share: the bucket, the scripted model, engines, and ways to look at sandboxes from outside."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from e2b import Sandbox
from e2b.sandbox.sandbox_api import SandboxQuery

HERE = Path(__file__).resolve().parent
SDK_CASES = HERE.parent / "sdk"
sys.path.insert(0, str(SDK_CASES))

BINARY = os.environ["AMBIENTCTL"]
ACCESS_KEY_ID = "test-access-key"
SECRET_ACCESS_KEY = "test-secret-that-no-log-may-show"
MODEL_KEY = "model-key-that-no-sandbox-may-see"
ENGINE_KEY = "engine-key-that-no-sandbox-may-see"
# Nothing else of the environment of whoever calls reaches a program under test.
PLAIN = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "NO_PROXY", "no_proxy") if name in os.environ}
E2B = {name: os.environ[name] for name in ("E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL")}


def until(what, seconds, said):
    """Asks until the answer is true; fails with what was awaited and the last answer."""
    end = time.monotonic() + seconds
    while True:
        answer = what()
        if answer:
            return answer
        assert time.monotonic() < end, f"{said} did not come about in {seconds} s; last seen: {answer!r}"
        time.sleep(0.05)


def first_line(process, log):
    line = process.stdout.readline().strip()
    assert line, f"it did not start: {log.read_text() if log else process.args}"
    return line


class Bucket:
    def __init__(self):
        self.process = subprocess.Popen([os.environ["E2B_BUCKET"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        words = first_line(self.process, None).split()
        self.name, self.endpoint, self.folder = words[1], words[3], Path(words[5])

    def keys(self, prefix=""):
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(key for key in (str(path.relative_to(self.folder)) for path in files) if key.startswith(prefix))

    def settings(self):
        return {
            "S3_ENDPOINT": self.endpoint,
            "S3_BUCKET": self.name,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        }


class Engine:
    """`ambientctl serve` in an empty home of its own."""

    def __init__(self, settings):
        self.home = Path(tempfile.mkdtemp(prefix="ambient-engine-"))
        self.log = self.home / "log"
        environment = {
            **PLAIN,
            **E2B,
            "HOME": str(self.home),
            "AMBIENT_HOME": str(self.home / "data"),
            "API_KEY": ENGINE_KEY,
            "RUST_LOG": "info",
            "MODEL_CATALOGUE_URL": "",
            "SANDBOX_BACKEND": "e2b",
            "E2B_TEMPLATE": "video-analysis-v1",
            "TILE_SECONDS": "5",
            **settings,
        }
        self.process = subprocess.Popen(
            [BINARY, "serve", "--port", "0"], cwd=self.home, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=self.log.open("w"),
        )
        self.url = first_line(self.process, self.log).split()[-1]
        self.ends_with = 0

    def words(self):
        return self.log.read_text(errors="replace")

    def die(self):
        """An end that it is not told of."""
        self.process.kill()
        self.process.wait(10)
        self.ends_with = -signal.SIGKILL

    def stop(self):
        """A clean stop; gives the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@pytest.fixture(scope="session")
def bucket():
    made = Bucket()
    yield made
    made.process.stdin.close()
    made.process.wait(10)


@pytest.fixture(scope="session")
def model():
    process = subprocess.Popen(
        [sys.executable, str(SDK_CASES / "fake_llm.py"), "--port", "0", "--log", os.devnull], stdout=subprocess.PIPE, text=True
    )
    url = first_line(process, None).split()[2]
    os.environ["FAKE_LLM_PORT"] = url.rsplit(":", 1)[1].split("/")[0]
    yield url
    process.terminate()
    process.wait(10)


@pytest.fixture(scope="session")
def start(bucket, model):
    """Starts an engine with these settings over the others; it is stopped at the end, and its log looked at."""
    started = []
    shared = {
        "DATABASE_URL": os.environ["SESSION_DATABASE"],
        "REDIS_URL": os.environ["SESSION_REDIS"],
        "LLM_BASE_URL": model, "LLM_API_KEY": MODEL_KEY, "AGENT_BASE_URL": model, "AGENT_API_KEY": MODEL_KEY,
    }

    def engine(**settings):
        made = Engine({**shared, **bucket.settings(), **settings})
        started.append(made)
        return made

    yield engine
    codes = [engine.stop() for engine in started]
    assert codes == [engine.ends_with for engine in started], codes
    for engine in started:
        for word in ("panicked", "internal error", SECRET_ACCESS_KEY, MODEL_KEY, ENGINE_KEY):
            assert word not in engine.words(), f"{word!r} stands in {engine.log}"
    assert listed() == [], "sandboxes outlive the clean stop of all engines"
    # Only what failed leaves its log behind.
    for engine in started:
        shutil.rmtree(engine.home)


def kit_of(engine):
    """The official SDK against an engine, with the ways of the SDK's own cases."""
    from kitlib import Fake, Kit

    kit = Kit(engine.url, ENGINE_KEY, os.environ["SESSION_VIDEO"])
    kit.fake = Fake(SDK_CASES / "fake_llm.py")
    return kit


@pytest.fixture(scope="session")
def one(template, start):
    return start()


@pytest.fixture(scope="session")
def kit(one):
    return kit_of(one)


@pytest.fixture(scope="session")
def two(template, start, one):
    """Another engine of the same installation, on a disk of its own."""
    return start()


def listed(**metadata):
    """Ids of living sandboxes, as the official SDK lists them."""
    pages = Sandbox.list(query=SandboxQuery(metadata=metadata) if metadata else None)
    found = []
    while pages.has_next:
        found.extend(pages.next_items())
    return [sandbox.sandbox_id for sandbox in found]


def call(name, /, **arguments):
    """A directive for the scripted model that has it call a tool."""
    import json

    return "[[tool:%s %s]]" % (name, json.dumps(arguments))


def results(events):
    """The text of each tool's result, in order."""
    found = [event for event in events if event.type == "agent.tool_result"]
    return ["".join(part.text for part in event.content or [] if part.type == "text") for event in found]


class Ctl:
    """`ambientctl` as an operator runs it, in an empty folder with a `.env`."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, *words, **environment):
        settings = {**E2B, **environment}
        lines = "".join(f"{name}={value}\n" for name, value in settings.items() if value)
        (self.folder / ".env").write_text(lines)
        home = {"HOME": str(self.folder), "AMBIENT_HOME": str(self.folder / "home")}
        return subprocess.run([BINARY, *words], cwd=self.folder, env={**PLAIN, **home}, capture_output=True, text=True)


@pytest.fixture(scope="session")
def ctl(tmp_path_factory):
    return Ctl(tmp_path_factory.mktemp("anywhere"))


@pytest.fixture(scope="session")
def template(ctl):
    """The shipped template with the program under test in it. What only imports from YouTube need is left out: it comes from elsewhere."""
    built = ctl.run("template", "build", "--without-youtube", "--cpu", "2", "--memory", "2048", "--timeout", "10", "--json")
    assert built.returncode == 0, built.stderr[-4000:]
    return built
