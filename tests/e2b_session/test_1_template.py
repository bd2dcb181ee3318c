"""The operator's side: `ambientctl template` from a folder in which there is nothing but a `.env`."""

import json
import os


def test_the_shipped_template_is_built_from_any_folder(template):
    built = json.loads(template.stdout)
    assert built["name"] == "video-analysis-v1"
    assert built["tags"][0] == "default" and built["tags"][1].startswith("v"), built
    assert "COPY ambientctl" in template.stderr, "the log of the build is shown while it goes on"


def test_the_list_shows_what_sessions_use(ctl, template):
    done = ctl.run("template", "list", "--json")
    assert done.returncode == 0, done.stderr
    mine = [entry for entry in json.loads(done.stdout)["templates"] if "video-analysis-v1" in entry["names"]]
    assert [(entry["build"], entry["used"], entry["cpu"], entry["memory_mb"]) for entry in mine] == [("ready", True, 2, 2048)]
    assert "video-analysis-v1" in ctl.run("template", "list").stdout


def test_a_good_template_is_told_with_its_version(ctl, template):
    done = ctl.run("template", "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("video-analysis-v1: ready, built by version "), done.stdout


def test_a_name_that_was_not_built_is_told_with_the_one_that_was(ctl, template):
    done = ctl.run("template", "check", E2B_TEMPLATE="video-analysis-v1-dev")
    assert done.returncode == 1
    assert "no such template, but it has `video-analysis-v1`" in done.stdout, done.stdout
    assert "config set E2B_TEMPLATE video-analysis-v1" in done.stderr and "template build --dev" in done.stderr, done.stderr


def test_refusals_come_with_their_remedy(ctl, template):
    identity = json.loads(template.stdout)["template_id"]
    cases = [
        # a key of nobody, no key, a template of another team, a server that is not there
        ({"E2B_API_KEY": "e2b_" + "0" * 40}, 1, "`E2B_API_KEY` is no key of this service"),
        ({"E2B_API_KEY": ""}, 2, "ambientctl config set E2B_API_KEY -"),
        ({"E2B_API_KEY": os.environ["E2B_API_KEY_2"], "E2B_TEMPLATE": identity}, 1, "use the key of that team"),
        ({"E2B_API_URL": "http://127.0.0.1:9"}, 3, "`E2B_API_URL`"),
    ]
    for environment, code, remedy in cases:
        done = ctl.run("template", "check", **environment)
        assert done.returncode == code, (environment, done.returncode, done.stdout, done.stderr)
        assert remedy in done.stderr, (environment, done.stderr)


def test_a_build_into_another_teams_name_is_refused(ctl, template):
    done = ctl.run("template", "build", "--name", "others/video-analysis-v1")
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert "another team has the name `others/video-analysis-v1`" in done.stderr, done.stderr
