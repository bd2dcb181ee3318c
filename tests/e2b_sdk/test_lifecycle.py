"""Sandboxes are made, found, listed, paused and ended."""

import contextlib
import datetime
import json
import os
import time

import httpx
import pytest
from conftest import until, walk
from e2b import (
    AuthenticationException,
    RateLimitException,
    Sandbox,
    SandboxException,
    SandboxQuery,
    SandboxState,
    TimeoutException,
)
from e2b.exceptions import SandboxNotFoundException

API = os.environ["E2B_API_URL"]


def test_a_new_sandbox_runs(sandbox):
    assert sandbox.is_running()
    assert sandbox.sandbox_id.startswith("i") and len(sandbox.sandbox_id) == 21


def test_its_facts_are_told(make, word):
    sandbox = make(metadata={"word": word}, timeout=100)
    info = sandbox.get_info()
    assert info.sandbox_id == sandbox.sandbox_id
    assert info.metadata == {"word": word}
    assert info.state == SandboxState.RUNNING
    assert 90 <= (info.end_at - info.started_at).total_seconds() <= 100
    assert info.name == "base"
    assert info.cpu_count >= 1 and info.memory_mb >= 128


def test_kill_ends_it_for_everyone(sandbox):
    assert sandbox.kill()
    assert not sandbox.is_running()
    assert not Sandbox.kill(sandbox.sandbox_id)
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()
    with pytest.raises(TimeoutException, match="was not found|not found"):
        sandbox.commands.run("true")


def test_the_timeout_is_kept(make):
    sandbox = make(timeout=1)
    until(lambda: not sandbox.is_running(), 5)
    with pytest.raises(SandboxNotFoundException):
        until(lambda: sandbox.get_info() is None, 5)


def test_the_timeout_can_be_moved_both_ways(make):
    sandbox = make(timeout=300)
    sandbox.set_timeout(600)
    assert (sandbox.get_info().end_at - datetime.datetime.now(datetime.timezone.utc)).total_seconds() > 500
    sandbox.set_timeout(1)
    until(lambda: not sandbox.is_running(), 5)


def test_connect_never_shortens_a_life(make):
    sandbox = make(timeout=300)
    before = sandbox.get_info().end_at
    again = Sandbox.connect(sandbox.sandbox_id, timeout=10)
    assert again.commands.run("echo here").stdout == "here\n"
    assert sandbox.get_info().end_at == before
    Sandbox.connect(sandbox.sandbox_id, timeout=900)
    assert sandbox.get_info().end_at > before


def test_connect_to_nothing_says_so():
    with pytest.raises(SandboxNotFoundException):
        Sandbox.connect("i00000000000000000000")


def test_timeouts_without_sense_are_refused():
    for timeout, text in [(0, "greater than 0"), (25 * 3600, "24 hours")]:
        with pytest.raises(SandboxException, match=text):
            Sandbox.create(timeout=timeout)


def test_an_unknown_template_is_named(word):
    with pytest.raises(SandboxException, match=f"template 'no-{word}' not found"):
        Sandbox.create(f"no-{word}")


def test_keys_are_checked():
    with pytest.raises(AuthenticationException):
        Sandbox.create(api_key="e2b_" + "f" * 40)
    answers = [
        httpx.get(f"{API}/v2/sandboxes", headers=headers)
        for headers in ({}, {"X-API-KEY": "nonsense"}, {"X-API-KEY": "e2b_" + "f" * 40})
    ]
    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert "missing" in answers[0].json()["message"]
    assert "malformed" in answers[1].json()["message"]
    assert answers[2].json()["message"].startswith("Invalid API key")


def test_every_error_has_the_body_that_the_sdk_parses(other_key):
    key = {"X-API-KEY": other_key}
    for method, path, body, status in [
        ("GET", "/nothing/here", None, 404),
        ("PATCH", "/sandboxes", None, 405),
        ("POST", "/v2/sandboxes", b"{", 400),
        ("POST", "/v2/sandboxes", b'{"templateID": 5}', 400),
        ("POST", "/v2/sandboxes", b'{"templateID": "base", "timeout": -1}', 400),
        ("GET", "/v2/sandboxes?limit=101", None, 400),
        ("GET", "/v2/sandboxes?limit=0", None, 400),
        ("GET", "/v2/sandboxes?nextToken=%25%25", None, 400),
        ("GET", "/sandboxes/UPPER", None, 400),
        ("GET", "/sandboxes/iunknown", None, 404),
        ("POST", "/sandboxes/iunknown/timeout", b'{"timeout": 5}', 404),
    ]:
        answer = httpx.request(method, API + path, headers=key, content=body)
        assert answer.status_code == status, (method, path, answer.text)
        assert answer.json()["code"] == status and isinstance(answer.json()["message"], str)


def test_another_team_sees_nothing(make, other_key, word):
    sandbox = make(metadata={"word": word})
    theirs = make(metadata={"word": word}, api_key=other_key)
    mine = walk(Sandbox.list(query=SandboxQuery(metadata={"word": word})))
    assert [info.sandbox_id for info in mine] == [sandbox.sandbox_id]
    with pytest.raises(SandboxNotFoundException):
        Sandbox.get_info(theirs.sandbox_id)
    assert not Sandbox.kill(theirs.sandbox_id)
    with pytest.raises(SandboxNotFoundException):
        Sandbox.set_timeout(theirs.sandbox_id, 10)
    assert theirs.is_running()


def test_lists_come_in_pages(make, word):
    made = [make(metadata={"word": word, "n": str(n)}).sandbox_id for n in range(3)]
    newest_first = walk(Sandbox.list(query=SandboxQuery(metadata={"word": word}), limit=1))
    assert [info.sandbox_id for info in newest_first] == made[::-1]
    page = Sandbox.list(query=SandboxQuery(metadata={"word": word}), limit=2)
    assert len(page.next_items()) == 2 and page.has_next
    rest = walk(Sandbox.list(query=SandboxQuery(metadata={"word": word}), limit=2, next_token=page.next_token))
    assert [info.sandbox_id for info in rest] == [made[0]]


def test_metadata_of_any_kind_is_found(make, word):
    metadata = {"a b": "c&d=e", "ü/%": f"{word} +100%"}
    sandbox = make(metadata=metadata)
    make(metadata={"a b": "c&d=e"})
    found = walk(Sandbox.list(query=SandboxQuery(metadata=metadata)))
    assert [info.sandbox_id for info in found] == [sandbox.sandbox_id]
    assert found[0].metadata == metadata


def test_lists_tell_states_apart(make, word):
    running, paused = make(metadata={"word": word}), make(metadata={"word": word})
    paused.pause()
    for state, wanted in [(SandboxState.RUNNING, running), (SandboxState.PAUSED, paused)]:
        found = walk(Sandbox.list(query=SandboxQuery(metadata={"word": word}, state=[state])))
        assert [info.sandbox_id for info in found] == [wanted.sandbox_id]
    assert len(walk(Sandbox.list(query=SandboxQuery(metadata={"word": word})))) == 2


def test_a_pause_keeps_processes_and_memory(sandbox):
    handle = sandbox.commands.run("n=0; while true; do n=$((n+1)); echo $n > /tmp/n; sleep 0.05; done", background=True)
    until(lambda: sandbox.files.exists("/tmp/n"))
    assert sandbox.pause()
    assert not sandbox.is_running()
    assert not sandbox.pause()
    info = Sandbox.get_info(sandbox.sandbox_id)
    assert info.state == SandboxState.PAUSED
    again = Sandbox.connect(sandbox.sandbox_id, timeout=60)
    assert handle.pid in [process.pid for process in again.commands.list()]
    first = int(again.files.read("/tmp/n"))
    until(lambda: int(again.files.read("/tmp/n") or 0) > first)
    assert again.get_info().started_at > info.started_at


def test_nothing_moves_in_a_paused_sandbox(sandbox):
    def gaps():
        """Nanoseconds between what was written, one after the other; the last may be half written."""
        ticks = [int(line) for line in sandbox.files.read("/tmp/ticks").split("\n")[:-1]]
        return [later - earlier for earlier, later in zip(ticks, ticks[1:])]

    sandbox.commands.run("while true; do date +%s%N >> /tmp/ticks; sleep 0.02; done", background=True)
    until(lambda: sandbox.files.exists("/tmp/ticks") and len(gaps()) > 3)
    sandbox.pause()
    time.sleep(1)
    Sandbox.connect(sandbox.sandbox_id)
    until(lambda: max(gaps()) > 0.8e9)


def test_a_paused_sandbox_can_be_killed(sandbox):
    sandbox.pause()
    assert sandbox.kill()
    with pytest.raises(SandboxNotFoundException):
        Sandbox.connect(sandbox.sandbox_id)


def test_the_timeout_can_pause(make):
    sandbox = make(timeout=1, lifecycle={"on_timeout": "pause"})
    sandbox.files.write("/home/user/kept", "kept")
    until(lambda: Sandbox.get_info(sandbox.sandbox_id).state == SandboxState.PAUSED, 5)
    assert Sandbox.connect(sandbox.sandbox_id).files.read("kept") == "kept"


def test_traffic_wakes_if_that_was_wanted(make):
    sandbox = make(lifecycle={"on_timeout": "pause", "auto_resume": True})
    sandbox.commands.run("echo awake > /tmp/state")
    sandbox.pause()
    assert sandbox.files.read("/tmp/state") == "awake\n"
    assert sandbox.get_info().state == SandboxState.RUNNING


def test_metrics_are_told(sandbox):
    metrics = until(sandbox.get_metrics)
    assert metrics[0].cpu_count >= 1
    assert metrics[0].mem_total > metrics[0].mem_used >= 0
    assert metrics[0].disk_total > 0


def test_an_idempotent_create_makes_one(make, word, other_key):
    headers = {"X-API-KEY": other_key, "Idempotency-Key": word}
    body = {"templateID": "base", "timeout": 30, "metadata": {"word": word}}
    first, second = (httpx.post(f"{API}/v2/sandboxes", headers=headers, json=body, timeout=30) for _ in range(2))
    assert first.status_code == second.status_code == 201
    assert first.json()["sandboxID"] == second.json()["sandboxID"]
    body["timeout"] = 31
    assert httpx.post(f"{API}/v2/sandboxes", headers=headers, json=body).status_code == 422
    Sandbox.kill(first.json()["sandboxID"], api_key=other_key)


def test_the_old_paths_work_too(other_key):
    key = {"X-API-KEY": other_key}
    made = httpx.post(f"{API}/sandboxes", headers=key, json={"templateID": "base"}, timeout=30)
    assert made.status_code == 201 and "envdAccessToken" not in made.json()
    sandbox_id = made.json()["sandboxID"]
    assert sandbox_id in [entry["sandboxID"] for entry in httpx.get(f"{API}/sandboxes", headers=key).json()]
    assert httpx.post(f"{API}/sandboxes/{sandbox_id}/resume", headers=key, json={}).status_code == 409
    assert httpx.post(f"{API}/sandboxes/{sandbox_id}/refreshes", headers=key, json={"duration": 60}).status_code == 204
    # Without a token everyone is let in.
    data = {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": "49983"}
    listed = httpx.post(f"{API}/process.Process/List", headers=data, json={})
    assert listed.status_code == 200 and listed.json() == {"processes": []}
    assert httpx.delete(f"{API}/sandboxes/{sandbox_id}", headers=key).status_code == 204


def test_too_many_are_refused(other_key):
    most = int(os.environ["SANDBOXD_MOST"])
    made = []
    try:
        with pytest.raises(RateLimitException, match=str(most)):
            for _ in range(most + 1):
                made.append(Sandbox.create(timeout=60, api_key=other_key, retries=0))
        assert 0 < len(made) <= most
    finally:
        for sandbox in made:
            sandbox.kill()


def test_a_change_whose_caller_hangs_up_is_done_all_the_same(make):
    key = {"X-API-Key": os.environ["E2B_API_KEY"]}
    for patience in (0.001, 0.003, 0.01, 0.03):
        sandbox = make(timeout=600)
        sandbox.files.write("/home/user/kept", "kept")
        sandbox.commands.run("for i in $(seq 300); do sleep 300 & done >/dev/null 2>&1; true")
        for call, body in (("pause", {}), ("connect", {"timeout": 600, "memory": False})):
            with contextlib.suppress(httpx.TimeoutException):
                httpx.post(f"{API}/sandboxes/{sandbox.sandbox_id}/{call}", headers=key, json=body, timeout=httpx.Timeout(5, read=patience))
        sandbox.connect(timeout=600)
        assert sandbox.files.read("/home/user/kept") == "kept", patience
        assert sandbox.commands.run("echo well").stdout == "well\n", patience
        sandbox.kill()


def test_lines_of_a_log_are_taken_apart_by_the_command_line_tool(sandbox):
    headers = {"X-API-Key": os.environ["E2B_API_KEY"]}
    log = httpx.get(f"{API}/sandboxes/{sandbox.sandbox_id}/logs", headers=headers).json()
    lines = [json.loads(line["line"]) for line in log["logs"]]
    assert [(line["level"], line["logger"], line["message"]) for line in lines] == [("info", "sandboxd", "sandbox started")]
    assert [entry["message"] for entry in log["logEntries"]] == ["sandbox started"]
