"""The official Python client of the Model Context Protocol against `ambientctl mcp`.

    python tests/mcp/cases.py BINARY VIDEO MODEL_URL ENGINE_URL ENGINE_KEY

The model is tests/sdk/fake_llm.py, which does what the questions tell it; the engine is a running one that asks it too.
Prints `ok NAME` or `FAIL NAME: why` a case, then `N passed, N failed`; status 1 when any failed.
"""
from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import traceback
import urllib.request
from pathlib import Path
from typing import Any, Awaitable, Callable

import mcp
from mcp import Client, StdioServerParameters

TOOL = "analyze_video"
CASE_SECONDS = 90
LOOK = 'What is shown? [[tool:focus_clip {"query": "a clock", "start_time": 0, "end_time": 2}]] [[say:A clock.]]'
HANG = "What is shown? [[hang]]"
BINARY, VIDEO, MODEL, ENGINE, ENGINE_KEY = sys.argv[1:]
CASES: list[Callable[[Path], Awaitable[None]]] = []


def case(run: Callable[[Path], Awaitable[None]]) -> Callable[[Path], Awaitable[None]]:
    CASES.append(run)
    return run


def server(home: Path, words: tuple[str, ...] = (), **more: str) -> StdioServerParameters:
    """The command as a host of MCP servers has it: words, a few variables, a folder."""
    settings = {
        "AMBIENT_HOME": str(home / "ambient"),
        "LLM_BASE_URL": MODEL,
        "LLM_API_KEY": "test",
        "LLM_MODEL": "fake-model",
        "AGENT_MODEL": "fake-model",
        "MODEL_CATALOGUE_URL": "",
        "PATH": os.environ["PATH"],
        "HOME": str(home),
    }
    return StdioServerParameters(command=BINARY, args=["mcp", *words], env={**settings, **more}, cwd=str(home))


def engine(method: str, path: str) -> Any:
    request = urllib.request.Request(f"{ENGINE}{path}", method=method, headers={"x-api-key": ENGINE_KEY})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


@case
async def the_tool_is_described(home: Path) -> None:
    async with Client(server(home)) as client:
        assert client.server_info.name == "ambient", client.server_info
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [TOOL], tools
        schema = tools[0].input_schema
        assert schema["required"] == ["question"], schema
        assert set(schema["properties"]) == {"question", "video_id", "video_path", "session_id"}, schema
        assert "session_id" in tools[0].output_schema["properties"], tools[0]


@case
async def an_answer_has_what_a_follow_up_needs(home: Path) -> None:
    async with Client(server(home)) as client:
        first = await client.call_tool(TOOL, {"question": LOOK, "video_path": VIDEO})
        assert not first.is_error, text_of(first)
        said = first.structured_content
        assert said["answer"] == "A clock." and said["answer"] in text_of(first), said
        assert said["session_id"] in text_of(first) and said["video_id"] in text_of(first), text_of(first)
        again = await client.call_tool(TOOL, {"question": "And then?", "session_id": said["session_id"]})
        assert again.structured_content["session_id"] == said["session_id"], again
        assert again.structured_content["video_id"] == said["video_id"], again
        other = await client.call_tool(TOOL, {"question": "What else?", "video_id": said["video_id"]})
        assert other.structured_content["video_id"] == said["video_id"], other
        assert other.structured_content["session_id"] != said["session_id"], other
    left = [path for path in (home / "ambient" / "private").iterdir() if path.is_dir()]
    assert left == [], f"the server left {left}"


@case
async def progress_tells_what_happens(home: Path) -> None:
    heard: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async with Client(server(home)) as client:
        arguments = {"question": LOOK, "video_path": VIDEO}
        result = await client.call_tool(TOOL, arguments, progress_callback=on_progress)
        assert not result.is_error, text_of(result)
    steps = [step for step, _ in heard]
    assert steps == sorted(set(steps)) and len(steps) >= 4, heard
    words = " ".join(message or "" for _, message in heard)
    assert "opening the video" in words and "focus_clip(" in words, heard


@case
async def what_is_wrong_is_an_answer_for_the_model(home: Path) -> None:
    async with Client(server(home)) as client:
        for arguments, expected in [
            ({"question": "What?"}, "which video?"),
            ({"question": "What?", "video_path": str(home / "missing.mp4")}, "cannot be read"),
            ({"question": "What?", "video_path": "https://example.com/a.mp4"}, "YouTube"),
            ({"question": "What?", "video_id": "vid_0000000000000000"}, "not found"),
            ({"question": "What?", "session_id": "ses_0000000000000000"}, "not found"),
            ({"question": "What?", "video_path": VIDEO, "session_id": "ses_1"}, "a session keeps its video"),
        ]:
            result = await client.call_tool(TOOL, arguments)
            assert result.is_error and expected in text_of(result), (arguments, text_of(result))
        try:
            await client.call_tool("other_tool", {})
        except mcp.MCPError as error:
            assert "analyze_video" in str(error), error
        else:
            raise AssertionError("a tool that is not there was called")


async def hanging(client: Client) -> tuple[asyncio.Task, str]:
    """A call whose model never answers, once its run has begun, and the id of its session: what becomes of the run is seen from outside."""
    began = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        if message == "thinking":
            began.set()

    arguments = {"question": HANG, "video_path": VIDEO}
    call = asyncio.create_task(client.call_tool(TOOL, arguments, progress_callback=on_progress))
    await asyncio.wait_for(began.wait(), 60)
    session = engine("GET", "/v1/sessions?limit=1")["data"][0]
    assert session["status"] == "running", session["status"]
    return call, session["id"]


def of_a_running_engine(home: Path) -> Client:
    return Client(server(home, words=("--url", ENGINE), AMBIENT_API_KEY=ENGINE_KEY))


@case
async def a_call_that_is_cancelled_interrupts_its_run(home: Path) -> None:
    async with of_a_running_engine(home) as client:
        call, session = await hanging(client)
        call.cancel()
        try:
            await call
        except asyncio.CancelledError:
            pass
        await idle(session)
        # The server lives on.
        assert (await client.list_tools()).tools


@case
async def the_end_of_the_connection_interrupts_what_runs(home: Path) -> None:
    async with of_a_running_engine(home) as client:
        call, session = await hanging(client)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await idle(session)


async def idle(session: str) -> None:
    """Polls until the session is idle."""
    for _ in range(100):
        if engine("GET", f"/v1/sessions/{session}")["status"] == "idle":
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the run goes on")


@case
async def a_running_engine_is_asked_with_its_key(home: Path) -> None:
    async with Client(server(home, AMBIENT_BASE_URL=ENGINE, AMBIENT_API_KEY=ENGINE_KEY)) as client:
        result = await client.call_tool(TOOL, {"question": "What is shown?", "video_path": VIDEO})
        said = result.structured_content
        assert engine("GET", f"/v1/sessions/{said['session_id']}")["metadata"]["video_id"] == said["video_id"]
    async with Client(server(home, AMBIENT_BASE_URL=ENGINE, AMBIENT_API_KEY="wrong")) as client:
        result = await client.call_tool(TOOL, {"question": "What is shown?", "video_path": VIDEO})
        assert result.is_error and "api key" in text_of(result), text_of(result)


@case
async def stdout_carries_the_protocol_and_a_start_that_fails_says_why_on_stderr(home: Path) -> None:
    settings = server(home)
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}}
    child = await started(settings, {"RUST_LOG": "debug"})
    assert child.stdin and child.stdout
    child.stdin.write(json.dumps(hello).encode() + b"\n")
    first = json.loads(await asyncio.wait_for(child.stdout.readline(), 30))
    assert first["id"] == 1 and first["result"]["serverInfo"]["name"] == "ambient", first
    child.stdin.close()
    for line in (await child.stdout.read()).splitlines():
        assert json.loads(line)["jsonrpc"] == "2.0", line
    assert await child.wait() == 0, "the end of stdin is the end of the server"

    child = await started(settings, {"LLM_BASE_URL": ""})
    out, err = await child.communicate()
    assert child.returncode == 2 and out == b"" and b"LLM_BASE_URL" in err, (child.returncode, out, err)


async def started(settings: StdioServerParameters, more: dict[str, str]) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        settings.command, *settings.args, env={**(settings.env or {}), **more}, cwd=settings.cwd,
        stdin=pipe, stdout=pipe, stderr=pipe)


async def main() -> int:
    failed = 0
    for run in CASES:
        with tempfile.TemporaryDirectory() as home:
            try:
                await asyncio.wait_for(run(Path(home)), CASE_SECONDS)
                print(f"ok {run.__name__}", flush=True)
            except Exception as error:
                failed += 1
                traceback.print_exc()
                print(f"FAIL {run.__name__}: {type(error).__name__}: {error}", flush=True)
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(asyncio.run(main()))
