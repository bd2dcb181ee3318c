"""`ambientctl doctor` on a real host of sandboxes: keys, templates of two teams, and a sandbox that is booted for it."""

import json
import os
import subprocess

from e2b import Sandbox, Template

MEMORY = {"cpu_count": 1, "memory_mb": 512}

# Stands for the media tool: whether it works in a sandbox is not what is looked at here.
TOOL = '#!/bin/sh\n[ "$1 $2 $3" = "media probe --source-path" ] && test -s "$4" && echo probed\n'


def doctor(home, template, key=os.environ["E2B_API_KEY"]):
    """Looks, and gives the exit code and the findings by their ids."""
    environment = {
        "HOME": str(home),
        "AMBIENT_HOME": str(home),
        "PATH": os.environ["PATH"],
        "SANDBOX_BACKEND": "e2b",
        "E2B_API_KEY": key,
        "E2B_API_URL": os.environ["E2B_API_URL"],
        "E2B_SANDBOX_URL": os.environ["E2B_SANDBOX_URL"],
        "E2B_TEMPLATE": template,
    }
    words = ["doctor", "--json", "--quiet", "--deep", "--only", "e2b-key,e2b-template,e2b-boot"]
    run = subprocess.run([os.environ["AMBIENTCTL"], *words], cwd=home, env=environment, capture_output=True, text=True, timeout=100)
    assert key not in run.stdout + run.stderr
    return run.returncode, {finding["id"]: finding for finding in json.loads(run.stdout)["findings"]}


def left():
    """Sandboxes that doctor booted and that still run."""
    return [info for info in Sandbox.list().next_items() if "ambient_doctor" in info.metadata]


def test_a_wrong_key_is_named(tmp_path):
    code, found = doctor(tmp_path, "base", key="e2b_" + "0" * 40)
    assert code == 1
    assert "does not take `E2B_API_KEY`" in found["e2b-key.refused"]["seen"]
    assert found["e2b-boot.key"]["level"] == "failure"


def test_a_template_is_missing_then_there_and_then_boots(tmp_path, word):
    code, found = doctor(tmp_path, word)
    assert code == 1
    assert found["e2b-template.missing"]["remedy"]["paste"] == f"ambientctl template build --name {word}"
    assert found["e2b-boot.template"]["level"] == "failure"

    Template.build(Template().from_base_image().run_cmd("true"), word, **MEMORY)
    code, found = doctor(tmp_path, word)
    assert "not built by this program" in found["e2b-template.version"]["seen"]
    assert code == 1 and "`media probe` did not work" in found["e2b-boot.tool"]["seen"]
    assert left() == []

    (tmp_path / "ambientctl").write_text(TOOL)
    with_tool = Template(file_context_path=tmp_path).from_base_image().copy("ambientctl", "/app/", user="root", mode=0o755)
    version = subprocess.run([os.environ["AMBIENTCTL"], "--version"], capture_output=True, text=True).stdout.split()[-1]
    Template.build(with_tool, word, tags=["default", f"v{version}"], **MEMORY)
    code, found = doctor(tmp_path, word)
    assert code == 0, found
    assert found["e2b-template.ready"]["level"] == "ok"
    assert f"a sandbox of `{word}` booted in " in found["e2b-boot.works"]["seen"]
    assert left() == []


def test_a_template_of_another_team_is_not_ours(tmp_path, word, other_key):
    Template.build(Template().from_base_image().run_cmd("true"), word, api_key=other_key, **MEMORY)
    code, found = doctor(tmp_path, word)
    assert code == 1
    # By its bare name alone, a template of another team looks like none.
    assert found.keys() & {"e2b-template.missing", "e2b-template.other-team"}, found
    code, found = doctor(tmp_path, word, key=other_key)
    assert "e2b-template.version" in found
