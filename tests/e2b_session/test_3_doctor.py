"""What the operator's tool says about sandboxes of the shipped template, and what it mends: `doctor` and `verify`."""

import json
import os
import pty
import subprocess
import uuid

import pytest
from anthropic import Anthropic
from conftest import BINARY, E2B, ENGINE_KEY, PLAIN, SECRET_ACCESS_KEY, until
from e2b import Sandbox, Template


class Place:
    """A folder with a `.env`, in which commands are run."""

    def __init__(self, folder, **settings):
        self.folder = folder
        lines = {"SANDBOX_BACKEND": "e2b", "API_KEY": ENGINE_KEY, **E2B, **settings}
        path = folder / ".env"
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        path.chmod(0o600)
        self.environment = {**PLAIN, "HOME": str(folder), "AMBIENT_HOME": str(folder / "home")}

    def run(self, *words):
        done = subprocess.run([BINARY, *words], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=150)
        for secret in (ENGINE_KEY, SECRET_ACCESS_KEY, os.environ["E2B_API_KEY"]):
            assert secret not in done.stdout + done.stderr, done.args
        return done

    def doctor(self, *words):
        """The exit code, and the findings by their ids."""
        done = self.run("doctor", "--json", *words)
        return done.returncode, findings(done.stdout)

    def remedy(self, finding):
        """Carries a remedy out, in a shell."""
        remedy = finding["remedy"]
        assert remedy["how"] == "run", remedy
        command = remedy["paste"].replace("ambientctl ", f"'{BINARY}' ", 1)
        done = subprocess.run(["sh", "-c", command], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=150)
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    def at_a_terminal(self, key, *words):
        """Answers the question of a command with a key; gives its exit code, its output and what the terminal showed."""
        ours, its = pty.openpty()
        command = subprocess.Popen([BINARY, *words], cwd=self.folder, env={**self.environment, "TERM": "xterm"},
                                   stdin=its, stdout=subprocess.PIPE, stderr=its, text=True)
        os.close(its)
        shown, is_answered = "", False
        while True:
            try:
                piece = os.read(ours, 65536).decode(errors="replace")
            except OSError:
                piece = ""
            if not piece:
                break
            shown += piece
            if not is_answered and "It takes minutes, and E2B's time" in shown:
                is_answered = True
                os.write(ours, key.encode())
        os.close(ours)
        output, _ = command.communicate(timeout=20)
        assert is_answered, f"nothing was asked: {shown}"
        return command.returncode, output, shown


def findings(document):
    return {finding["id"]: finding for finding in json.loads(document)["findings"]}


def test_a_template_is_built_by_fix_after_its_question_and_its_sandboxes_work(template, tmp_path):
    name = f"fixed-{uuid.uuid4().hex}"
    place = Place(tmp_path, E2B_TEMPLATE=name)
    only = ["--only", "e2b-key,e2b-template"]
    code, found = place.doctor(*only)
    assert code == 1 and found["e2b-template.missing"]["fixable"] is True, found
    # Nobody is there to be asked.
    done = place.run("doctor", "--fix", *only)
    assert done.returncode == 1 and f"not done without a yes on a terminal: build the template `{name}` anew" in done.stderr

    words = ["doctor", "--fix", "--without-youtube", "--json", *only]
    code, output, shown = place.at_a_terminal("n", *words)
    assert code == 1 and "e2b-template.missing" in findings(output), shown
    code, output, shown = place.at_a_terminal("y", *words)
    assert code == 0, (output, shown)
    assert f"done: build the template `{name}` anew" in shown.replace("\r\n", "\n")
    assert "e2b-template.ready" in findings(output), output

    code, found = place.doctor("--deep", *only[:1], "e2b-key,e2b-template,e2b-boot")
    assert code == 0, found
    assert found["e2b-boot.works"]["seen"].startswith(f"a sandbox of `{name}` booted in "), found
    left = [info for info in Sandbox.list().next_items() if "ambient_doctor" in info.metadata]
    assert left == [], "the sandbox of the look is ended"


def test_a_template_of_another_version_is_built_anew_by_fix(template, tmp_path):
    name = f"aged-{uuid.uuid4().hex}"
    Template.build(Template().from_base_image().run_cmd("true"), name, tags=["default", "v0.0.1"], cpu_count=1, memory_mb=512)
    place = Place(tmp_path, E2B_TEMPLATE=name)
    code, found = place.doctor("--only", "e2b-template")
    assert code == 0 and "built by version v0.0.1" in found["e2b-template.version"]["seen"], found
    code, output, shown = place.at_a_terminal("y", "doctor", "--fix", "--without-youtube", "--json", "--only", "e2b-template")
    assert code == 0 and "e2b-template.ready" in findings(output), (output, shown)


def test_the_team_of_a_key_is_shown_where_the_service_names_it(template, tmp_path):
    code, found = Place(tmp_path).doctor("--only", "e2b-key")
    assert code == 0 and "; its team is `team-" in found["e2b-key.accepted"]["seen"], found
    # A team without a template of its own.
    other = Place(tmp_path, E2B_API_KEY=os.environ["E2B_API_KEY_3"])
    code, found = other.doctor("--only", "e2b-key")
    assert code == 0, found
    seen = "E2B takes the key; it names a team only in front of its templates, and this one has none yet"
    assert found["e2b-key.accepted"]["seen"] == seen, found


@pytest.fixture
def dev(start):
    """An engine whose template was never built."""
    return start(E2B_TEMPLATE="video-analysis-v1-dev")


def test_verify_of_a_session_that_is_terminated_tells_why_and_what_mends_it(dev, two, bucket, tmp_path):
    place = Place(tmp_path, E2B_TEMPLATE="video-analysis-v1-dev", **bucket.settings())
    done = place.run("verify", "--url", dev.url)
    assert done.returncode == 1, (done.stdout, done.stderr)
    lines = done.stdout.splitlines()
    assert any(line.startswith("session: ") and line.endswith(" is terminated") for line in lines), done.stdout
    assert any(line.startswith("failed: session ses_") and "ended as `terminated`: " in line for line in lines), done.stdout
    assert any(line.startswith("end: ") and line.endswith(" is ended") for line in lines), done.stdout
    assert "did you mean that?" in done.stdout, done.stdout

    done = place.run("verify", "--url", dev.url, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"], document["session"]["status"]) == (1, False, "terminated"), document
    assert len(document["errors"]) == 1 and "ambientctl template build" in document["errors"][0], document
    told = {finding["id"]: finding for finding in document["doctor"]["findings"]}
    assert list(told) == ["e2b-template.name"], document

    # The setting is mended; an engine with it works.
    place.remedy(told["e2b-template.name"])
    code, found = place.doctor("--only", "e2b-key,e2b-template,bucket")
    assert code == 0 and "e2b-template.ready" in found, found
    done = place.run("verify", "--url", two.url, "--question", "[[say:a picture]]", "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"], document["answer"]) == (0, True, "a picture"), document
    assert (document["session"]["sandbox"]["backend"], document["session"]["sandbox"]["status"]) == ("e2b", "ready"), document


def test_doctor_reads_the_troubles_of_a_running_engine(dev, bucket, tmp_path):
    port = dev.url.rsplit(":", 1)[1]
    place = Place(tmp_path, E2B_TEMPLATE="video-analysis-v1-dev", SERVER_PORT=port, **bucket.settings())
    client = Anthropic(base_url=dev.url, api_key=ENGINE_KEY)
    with open(os.environ["SESSION_VIDEO"], "rb") as film:
        video = client.beta.files.upload(file=film)
    session = client.beta.sessions.create(agent="ambient_v1", environment_id="default", metadata={"video_id": video.id})
    until(lambda: client.beta.sessions.retrieve(session.id).status == "terminated", 30, "the session's end")
    code, found = place.doctor("--only", "sessions")
    finding = found["sessions.terminated"]
    assert code == 1 and session.id in finding["seen"] and "video-analysis-v1-dev" in finding["seen"], found
    assert finding["remedy"]["paste"] == "ambientctl doctor --only e2b-template", finding
    client.beta.sessions.delete(session.id)
