"""Sessions from the upload to the end, in one order: each case goes on with what the one before left."""

import ast
import json
import os
import re
import subprocess
import sys
import time
import urllib.request

import pytest
from conftest import ENGINE_KEY, HERE, MODEL_KEY, SECRET_ACCESS_KEY, call, kit_of, listed, results, until
from e2b import Sandbox
from kitlib import Tap, message_text, nonce

# What the seed says that a sandbox is told, and the bucket's region.
TOLD = {
    "VIDEO_FOLDER", "S3_ENDPOINT", "S3_BUCKET", "S3_VIDEO_BASE_KEY", "AWS_REGION", "STREAM_SOURCE_VIDEO", "SOURCE_URL_TTL", "STREAM_MIN_BYTES",
    "OVERVIEW_SEEK_CONCURRENCY", "UPLOAD_CONCURRENCY", "TILE_SECONDS", "TILE_FPS", "TILE_MAX_DIM", "TILE_WORKERS", "YOUTUBE_MAX_HEIGHT",
    "YOUTUBE_MAX_DURATION_SECONDS", "YOUTUBE_MAX_SIZE_BYTES", "YOUTUBE_DOWNLOAD_TIMEOUT_SECONDS",
}
# What every process on a Linux machine has, and what E2B gives each sandbox.
USUAL = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "_", "LANG", "MAIL"}
OF_E2B = {"E2B_SANDBOX", "E2B_SANDBOX_ID", "E2B_TEMPLATE_ID", "E2B_EVENTS_ADDRESS"}


def sandbox_of(kit, session):
    return kit.b.sessions.retrieve(session.id).sandbox


def identity(kit, session):
    told = sandbox_of(kit, session)
    return told["id"] if isinstance(told, dict) else told.id


def bash(kit, session, command, **more):
    """Runs a command by the agent's tool; gives its result and the events of the run."""
    events = kit.ask(session.id, call("bash", command=command, **more) + "[[say:done]]", seconds=60)
    return results(events)[0], events


def fetch(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read()


def ready_file(kit, video):
    record = kit.b.files.retrieve_metadata(video.id)
    told = record.to_dict()
    assert told.get("description_status") != "failed", told
    return told if told.get("description_status") == "ready" else None


def test_an_upload_gets_its_copy_its_description_and_its_tiles(kit, bucket):
    video = kit.video()
    until(lambda: ready_file(kit, video), 60, "a description")
    tiles = f"{video.id}/tiles/"
    until(lambda: f"{tiles}manifest.json" in bucket.keys(tiles), 60, "a manifest of tiles")
    assert f"videos/{video.id}.mp4" in bucket.keys("videos/")
    manifest = json.loads((bucket.folder / tiles / "manifest.json").read_text())
    assert [tile["key"] for tile in manifest["tiles"]] == [key for key in bucket.keys(tiles) if key.endswith(".mp4")]
    assert len(manifest["tiles"]) == 4, "20 seconds in tiles of 5"
    until(lambda: listed(ambient_video=video.id) == [], 20, "the end of the job's sandbox")


@pytest.mark.parametrize("damage", ["a tile is missing", "a tile is cut short", "they are of other bytes"])
def test_the_same_upload_again_mends_tiles(kit, bucket, damage):
    video = kit.video()
    # A job that still runs has looked at the tiles already.
    until(lambda: listed(ambient_video=video.id) == [], 20, "the end of the last job")
    folder = bucket.folder / video.id / "tiles"
    tile, manifest = folder / "tile_00001.mp4", folder / "manifest.json"
    whole = json.loads(manifest.read_text())
    if damage == "a tile is missing":
        tile.unlink()
    elif damage == "a tile is cut short":
        os.truncate(tile, 1000)
    else:
        other = {**whole, "source": {"sha256": "0" * 64, "size_bytes": 7}}
        manifest.write_text(json.dumps(other))
    again = kit.upload(kit.video_bytes)
    assert again.id == video.id

    def is_whole():
        now = json.loads(manifest.read_text()) if manifest.is_file() else {}
        sizes = {entry["key"]: entry["size_bytes"] for entry in now.get("tiles", [])}
        there = {key: (bucket.folder / key).stat().st_size for key in bucket.keys(f"{video.id}/tiles/") if key.endswith(".mp4")}
        return now.get("source") == whole["source"] and sizes == there and len(sizes) == 4

    until(is_whole, 60, f"tiles as before: {damage}")


@pytest.fixture(scope="module")
def session(kit):
    made = kit.session(wait=False)
    assert made.status == "pending"
    return kit.ready(made.id)


def test_a_session_is_idle_with_a_sandbox_that_the_official_sdk_lists(kit, session):
    told = sandbox_of(kit, session)
    told = told if isinstance(told, dict) else told.to_dict()
    assert (told["backend"], told["status"]) == ("e2b", "ready")
    assert listed(ambient_session=session.id) == [told["id"]]
    info = Sandbox.get_info(told["id"])
    assert 1700 < (info.end_at - info.started_at).total_seconds() <= 1810, "SANDBOX_WALL_SECONDS is 1800"


def test_the_seeds_script_prints_a_sandbox_that_the_official_sdk_lists(kit, one, tmp_path):
    script = (HERE.parents[1] / "examples" / "verify_sandbox.py").read_text()
    for said, here in (("http://127.0.0.1:8080", one.url), ("dev-token", ENGINE_KEY)):
        assert said in script
        script = script.replace(said, here)
    (tmp_path / "clip.mp4").write_bytes(kit.video_bytes)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    status, told = done.stdout.splitlines()
    told = ast.literal_eval(told)
    assert (status, told["backend"], told["status"]) == ("idle", "e2b", "ready"), done.stdout
    assert told["id"] in listed()


def test_clips_frames_shell_and_artifact_lead_to_an_answer(kit, one, bucket, session):
    mark, video = nonce(), kit.video()
    text = (
        call("focus_clip", start_time=3, end_time=9)
        + call("grab_frames", start_time=2, end_time=4)
        + call("bash", command=f"mkdir -p out && echo {mark} >out/note.txt && ffprobe -v error -show_entries format=duration -of csv=p=0 \"$(cat /tmp/videos/{video.id}/source.url)\"")
        + call("upload_artifact", path="out/note.txt", name="a note.txt")
        + f"[[say:the end {mark}]]"
    )
    events = kit.ask(session.id, text, seconds=60)
    assert f"the end {mark}" in message_text(events)
    found, frames, shell, artifact = results(events)
    assert not any(event.is_error for event in events if event.type == "agent.tool_result"), results(events)
    assert "exit_code: 0" in shell and "20.0" in shell and "stderr" not in shell, shell

    # The model was sent links into the bucket, which anybody can follow as they are.
    requests = json.dumps([request["messages"] for request in kit.fake.records(mark)])
    links = set(re.findall(re.escape(bucket.endpoint) + r"[^\"\\ ]+", requests))
    clips = [link for link in links if f"/{video.id}/clips/" in link]
    pictures = [link for link in links if f"/{video.id}/frames/" in link]
    assert clips and pictures, links
    assert all("X-Amz-SignedHeaders=host&" in link for link in links if "X-Amz-Signature" in link)
    assert fetch(clips[0])[4:8] == b"ftyp"
    assert fetch(pictures[0])[:3] in (b"\xff\xd8\xff", b"\x89PN")
    assert "base64," not in requests
    assert bucket.keys(f"{video.id}/clips/{video.id}_tiles_"), "the clip is put together from tiles"

    url = re.search(r"http://\S+", artifact).group(0)
    assert fetch(url) == f"{mark}\n".encode()
    assert bucket.keys(f"artifacts/{video.id}/"), artifact
    prefix = f"[box {identity(kit, session)[:8]}]"
    assert prefix in one.words(), f"no line of the log begins with {prefix}"


def test_a_sandbox_is_told_the_list_and_nothing_more(kit, session):
    result, _events = bash(kit, session, "env -0 | tr '\\n\\0' ' \\n'")
    names = {line.split("=", 1)[0] for line in result.splitlines() if "=" in line and not line.startswith("exit_code")}
    names = {name.removeprefix("stdout:").strip() for name in names}
    assert TOLD <= names, TOLD - names
    assert names <= TOLD | USUAL | OF_E2B, names - TOLD - USUAL - OF_E2B
    # The same from outside, and in all that root of the sandbox can find out.
    outside = Sandbox.connect(identity(kit, session), timeout=1800)
    environment = outside.commands.run("env").stdout
    secrets = (SECRET_ACCESS_KEY, MODEL_KEY, ENGINE_KEY, os.environ["E2B_API_KEY"], os.environ["SESSION_DATABASE"])
    everything = environment + outside.commands.run(
        "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; find / -xdev -newer /app/ambientctl -type f -size -64k "
        "-not -path '/proc/*' -not -path '/sys/*' -exec cat {} + 2>/dev/null || true", user="root", timeout=60).stdout
    for secret in secrets:
        assert secret not in everything, f"{secret[:12]}… is in the sandbox"


def test_a_command_that_takes_too_long_is_told_and_leaves_nothing(kit, session):
    began = time.monotonic()
    result, _events = bash(kit, session, "echo before; (setsid sleep 3131 &) ; sleep 3132 | cat", timeout=2)
    assert time.monotonic() - began < 20
    assert result.startswith("exit_code: 124") and "before" in result, result
    left = Sandbox.connect(identity(kit, session), timeout=1800).commands.run("pgrep -f 'sleep 313[12]' || true", user="root")
    assert left.stdout == "", left.stdout


def test_a_daemon_does_not_hold_the_call_and_lives_on(kit, session):
    began = time.monotonic()
    result, _events = bash(kit, session, "nohup sleep 4141 & echo done")
    assert "done" in result and time.monotonic() - began < 15, result
    outside = Sandbox.connect(identity(kit, session), timeout=1800)
    assert outside.commands.run("pkill -f 'sleep 414[1]' && echo ended", user="root").stdout == "ended\n"


def test_any_engine_serves_the_session_in_the_same_sandbox(kit, two, session):
    before = identity(kit, session)
    other = kit_of(two)
    result, _events = bash(other, session, "cat out/note.txt; echo $E2B_SANDBOX_ID")
    assert before in result, result
    events = other.ask(session.id, call("grab_frames", start_time=10, end_time=11) + "[[say:seen]]", seconds=60)
    assert "seen" in message_text(events)
    assert identity(kit, session) == before
    assert [event.id for event in other.events(session.id)] == [event.id for event in kit.events(session.id)]


def test_a_sandbox_that_is_killed_in_a_run_is_told_and_replaced(kit, session):
    before = identity(kit, session)
    with Tap(kit.client, session.id) as tap:
        kit.send(session.id, call("bash", command="echo begun; sleep 600") + "[[say:went on]]")
        outside = Sandbox.connect(before, timeout=1800)
        running = lambda: "sleep 600" in outside.commands.run("ps -eo args", user="root").stdout  # noqa: E731
        until(running, 20, "the command in the sandbox")
        assert Sandbox.kill(before)
        lost = tap.wait(lambda event: event.type == "agent.tool_result", 30, "the tool's error")
        tap.wait(lambda event: event.type == "session.status_idle", 30, "the end of the run")
    assert "Sandbox not created or killed" in lost.content[0].text, lost.content[0].text
    result, events = bash(kit, session, "ls; echo in $E2B_SANDBOX_ID")
    after = identity(kit, session)
    assert after != before and f"in {after}" in result, result
    assert "note.txt" not in result
    assert listed(ambient_session=session.id) == [after]
    told = json.dumps([event.to_dict() for event in kit.events(session.id)], default=str)
    assert "the session's sandbox was gone, so it got a new one" in told


def test_the_end_of_a_session_is_the_end_of_its_sandbox(kit):
    for end in (kit.b.sessions.delete, kit.b.sessions.archive):
        session = kit.session()
        mine = identity(kit, session)
        assert listed(ambient_session=session.id) == [mine]
        end(session.id)
        assert listed(ambient_session=session.id) == [], end.__name__


def test_a_template_that_is_not_there_ends_the_session_and_says_what_to_do(start):
    kit = kit_of(start(E2B_TEMPLATE="video-analysis-v1-dev"))
    session = kit.session(wait=False)
    until(lambda: kit.b.sessions.retrieve(session.id).status == "terminated", 30, "the session's end")
    said = [event.error.message for event in kit.events(session.id) if event.type == "session.error"]
    assert len(said) == 1 and "video-analysis-v1-dev" in said[0] and "ambientctl template build" in said[0], said


def test_a_sandbox_lives_as_long_as_it_is_used_and_no_longer(start):
    kit = kit_of(start(SANDBOX_WALL_SECONDS="3"))
    session = kit.session()
    before = identity(kit, session)
    result, _events = bash(kit, session, "sleep 7; echo in $E2B_SANDBOX_ID")
    assert f"in {before}" in result, "a long command keeps its sandbox"
    until(lambda: listed(ambient_session=session.id) == [], 15, "the end of an idle sandbox")
    result, _events = bash(kit, session, "echo in $E2B_SANDBOX_ID")
    after = identity(kit, session)
    assert after != before and f"in {after}" in result


def test_fast_mode_has_a_sandbox_once_it_needs_frames(start):
    # A model that takes pictures and no video.
    kit, mark = kit_of(start(LLM_MODEL="openai/gpt-5-mini")), nonce()
    session = kit.session(agent="ambient_fast")
    assert identity(kit, session) is None and listed(ambient_session=session.id) == []
    events = kit.ask(session.id, f"[[say:by frames {mark}]]", seconds=60)
    assert f"by frames {mark}" in message_text(events), json.dumps([event.to_dict() for event in events], default=str)
    assert listed(ambient_session=session.id) == [identity(kit, session)]


def test_a_clean_stop_of_one_engine_leaves_the_session_to_the_other(kit, one, two, session):
    bash(kit, session, "true")
    assert one.stop() == 0
    other = kit_of(two)
    result, _events = bash(other, session, "echo in $E2B_SANDBOX_ID")
    assert f"in {identity(other, session)}" in result
