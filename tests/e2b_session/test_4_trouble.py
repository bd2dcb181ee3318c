"""What is left of a session when something dies that nobody asked to: an engine at work, and the host of the sandboxes."""

import os
import shutil
from pathlib import Path

import pytest
from conftest import call, kit_of, listed, until
from e2b import Sandbox
from kitlib import nonce
from own_host import make_data, shared_layers, start_host
from test_2_session import bash, identity, ready_file


def ps(sandbox, **at):
    return Sandbox.connect(sandbox, timeout=600, **at).commands.run("ps -eo args", user="root").stdout


def test_an_engine_that_dies_in_a_run_leaves_the_session_and_its_sandbox_to_another(start, template):
    first, second = start(), start()
    kit, other, mark = kit_of(first), kit_of(second), nonce()
    session = kit.session()
    bash(kit, session, f"echo {mark} > note")
    before = identity(kit, session)
    kit.send(session.id, call("bash", command="sleep 717", timeout=20) + "[[say:went on]]")
    until(lambda: "sleep 717" in ps(before), 20, "the command in the sandbox")
    first.die()
    until(lambda: other.b.sessions.retrieve(session.id).status == "idle", 120, "the end of the run of a dead engine")
    result, _events = bash(other, session, "cat note; echo in $E2B_SANDBOX_ID")
    assert mark in result and f"in {before}" in result, result
    until(lambda: "sleep 717" not in ps(before), 60, "the end of the command, at its time, without the engine that began it")
    assert listed(ambient_session=session.id) == [before]
    other.b.sessions.delete(session.id)


def test_an_engine_that_died_at_a_description_makes_it_when_it_is_started_again(start, template, tmp_path, bucket):
    alone = {"DATABASE_URL": f"sqlite://{tmp_path}/ambient.db", "REDIS_URL": "", "INGEST_STALE_SECONDS": "5"}
    first = start(**alone)
    kit = kit_of(first)
    # The same video, and other bytes than of any upload before: a box that players skip.
    copy = tmp_path / "copy.mp4"
    copy.write_bytes(Path(kit.video_path).read_bytes() + (40).to_bytes(4, "big") + b"free" + nonce().encode().ljust(32)[:32])
    kit.video_path = str(copy)
    video = kit.video()
    left = until(lambda: listed(ambient_video=video.id), 20, "a sandbox for the description")
    first.die()
    assert listed(ambient_video=video.id) == left, "the engine died too late"
    again = kit_of(start(**alone, SESSION_IDLE_TTL_SECONDS="20"))
    until(lambda: ready_file(again, video), 60, "a description")
    until(lambda: f"{video.id}/tiles/manifest.json" in bucket.keys(video.id), 60, "a manifest of tiles")
    until(lambda: listed(ambient_video=video.id) == [], 60, "the end of the sandbox that the dead engine left")


@pytest.fixture
def own_host(tmp_path, template):
    """A host that may be killed, with the template that is in the shared one."""
    data = make_data(tmp_path / "data", shared_layers("*"))
    shutil.copy(Path(os.environ["SANDBOXD_DATA"]) / "templates.json", data)
    hosts = []

    def host(**where):
        made, at = start_host(data, "--network", "host", **where)
        hosts.append(made)
        return made, at

    yield host
    hosts[-1].terminate()
    assert hosts[-1].wait(30) == 0


def test_a_host_that_dies_takes_its_sandboxes_along_and_sessions_go_on_in_new_ones(start, own_host):
    host, at = own_host()
    url = at["api_url"]
    engine = start(E2B_API_URL=url, E2B_SANDBOX_URL=url)
    kit, mark = kit_of(engine), nonce()
    session, idle = kit.session(), kit.session()
    before = identity(kit, session)
    kit.send(session.id, call("bash", command="sleep 718") + f"[[say:went on {mark}]]")
    until(lambda: "sleep 718" in ps(before, **at), 20, "the command in the sandbox")
    host.kill()
    host.wait(10)
    kit.idle(session.id, 60)
    result, _events = bash(kit, session, "echo still in $E2B_SANDBOX_ID")
    assert "still in i" not in result, result
    own_host(listen=url.split("//")[1])
    for one in (session, idle):
        result, _events = bash(kit, one, "echo in $E2B_SANDBOX_ID")
        after = identity(kit, one)
        assert after != before and f"in {after}" in result, result
    assert engine.stop() == 0
    assert not Sandbox.list(**at).next_items()
