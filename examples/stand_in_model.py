#!/usr/bin/env python3
"""A scripted model server, so that the engine can be tried without a model or a key.

    python3 examples/stand_in_model.py [--port PORT]

It speaks the OpenAI chat-completions protocol and looks at nothing: it calls the engine's media tools in a fixed order,
then answers with a text that says so. What the engine does around it (uploads, sessions, clips, frames, events) is real.
Python's standard library is all it needs. The first line that it prints is its base URL.
"""
from __future__ import annotations

import argparse
import json
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

MODEL = "stand-in"
NOTICE = "This answer is scripted: no model looked at the video."
PAUSE_SECONDS = 0.02  # between the words of an answer, so that a reader sees it stream
TOOLS_IN_ORDER = ("search_clip", "focus_clip", "grab_frames")
MAX_TOOL_CALLS = 2
CLIP_SECONDS = 8.0
FRAME_SECONDS = 4.0


def text_of(message: dict[str, Any]) -> str:
    """The text of a message, whichever of the two forms its content has."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def duration_of(messages: list[dict[str, Any]]) -> float:
    """The length of the video as the engine tells it, or a length that any sample has."""
    for message in messages:
        found = re.search(r"Duration:\s*([0-9.]+)\s*seconds", text_of(message))
        if found:
            return float(found.group(1))
    return CLIP_SECONDS


def calls_so_far(messages: list[dict[str, Any]]) -> list[str]:
    """Names of the tools that were called since the person last asked something."""
    names: list[str] = []
    for message in reversed(messages):
        if message.get("role") == "assistant":
            calls = message.get("tool_calls")
            if not calls:
                break
            names.extend(call["function"]["name"] for call in calls)
    return names


def media_of(messages: list[dict[str, Any]]) -> str:
    """What pictures and clips came with the request, in words."""
    kinds = [part.get("type") for message in messages if isinstance(message.get("content"), list) for part in message["content"]]
    clips, frames = kinds.count("video_url"), kinds.count("image_url")
    return f"{clips} clip{'s' * (clips != 1)} and {frames} frame{'s' * (frames != 1)}"


def arguments_for(tool: dict[str, Any], duration: float) -> dict[str, Any]:
    """Arguments that fit the tool's schema: a stretch in the middle of the video."""
    length = FRAME_SECONDS if tool["name"] == "grab_frames" else CLIP_SECONDS
    start = max(0.0, round(duration / 2 - length / 2, 1))
    known = {"query": "What happens here?", "start_time": start, "end_time": min(duration, round(start + length, 1))}
    schema = tool.get("parameters") or {}
    wanted = schema.get("properties") or {}
    return {name: known[name] for name in wanted if name in known}


def schema_of(request: dict[str, Any]) -> dict[str, Any] | None:
    """The JSON schema that the answer has to fit: given beside the messages, or in the text of the newest question."""
    wanted = (request.get("response_format") or {}).get("json_schema")
    if wanted:
        return wanted.get("schema") or {}
    questions = [text_of(message) for message in request["messages"] if message.get("role") == "user"]
    for text in questions[-1:]:
        for start in (found.start() for found in re.finditer(r"\{", text)):
            try:
                value, _ = json.JSONDecoder().raw_decode(text, start)
            except ValueError:
                continue
            if isinstance(value, dict) and isinstance(value.get("properties"), dict):
                return value
    return None


def example_of(schema: dict[str, Any]) -> Any:
    """The plainest value that a JSON schema accepts, for questions that ask for structured answers."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties") or {}
        return {name: example_of(inner) for name, inner in properties.items()}
    if kind == "array":
        return [example_of(schema.get("items") or {})] * max(1, int(schema.get("minItems") or 0))
    plain = {"string": NOTICE, "integer": 0, "number": 0.0, "boolean": False, "null": None}
    return schema.get("minimum", plain.get(kind))


def answer(request: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """The next turn: text, and the tools to call."""
    messages = request["messages"]
    schema = schema_of(request)
    tools = {tool["function"]["name"]: tool["function"] for tool in request.get("tools") or []}
    called = calls_so_far(messages)
    for name in TOOLS_IN_ORDER:
        if name in tools and name not in called and len(called) < MAX_TOOL_CALLS:
            arguments = arguments_for(tools[name], duration_of(messages))
            return "", [{"name": name, "arguments": json.dumps(arguments)}]
    if schema is not None:
        return json.dumps(example_of(schema)), []
    if called:
        done = ", ".join(reversed(called))
        return f"{NOTICE} The engine ran {done} and sent {media_of(messages)} for a model to see.", []
    return f"{NOTICE} The engine sent {media_of(messages)} for a model to see.", []


class Handler(BaseHTTPRequestHandler):
    """One connection of the engine."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *values: Any) -> None:
        """Says nothing: the engine's own log tells of the requests."""

    def do_GET(self) -> None:
        if not urlsplit(self.path).path.endswith("/models"):
            return self.refuse(404, "no such path")
        modalities = {"input_modalities": ["text", "image", "video"], "output_modalities": ["text"]}
        self.reply(200, {"object": "list", "data": [{"id": MODEL, "object": "model", "architecture": modalities}]})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not urlsplit(self.path).path.endswith("/chat/completions"):
            return self.refuse(404, "no such path")
        try:
            request = json.loads(body)
            text, calls = answer(request)
        except (ValueError, KeyError, TypeError) as error:
            return self.refuse(400, f"the body is no chat-completions request: {error}")
        named = [{"id": f"call_{time.monotonic_ns()}_{at}", "type": "function", "function": call} for at, call in enumerate(calls)]
        try:
            (self.stream if request.get("stream") else self.whole)(request, text, named)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the engine hung up, as it does on an interrupt

    def whole(self, request: dict[str, Any], text: str, calls: list[dict[str, Any]]) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        self.reply(200, {**self.base(request, "chat.completion"), "choices": [choice], "usage": self.usage(request, text)})

    def stream(self, request: dict[str, Any], text: str, calls: list[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        base = self.base(request, "chat.completion.chunk")

        def send(delta: dict[str, Any], finish: str | None = None) -> None:
            self.event({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

        send({"role": "assistant", "content": ""})
        for word in re.findall(r"\S+\s*", text):
            send({"content": word})
            time.sleep(PAUSE_SECONDS)
        for at, call in enumerate(calls):
            send({"tool_calls": [{"index": at, **call}]})
        send({}, "tool_calls" if calls else "stop")
        self.event({**base, "choices": [], "usage": self.usage(request, text)})
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    @staticmethod
    def base(request: dict[str, Any], kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{time.monotonic_ns()}", "object": kind, "created": int(time.time()), "model": request.get("model") or MODEL}

    @staticmethod
    def usage(request: dict[str, Any], text: str) -> dict[str, int]:
        sent = sum(len(text_of(message)) for message in request["messages"]) // 4 + 1
        said = len(text) // 4 + 1
        return {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said}

    def event(self, value: dict[str, Any]) -> None:
        self.chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def refuse(self, status: int, message: str) -> None:
        self.reply(status, {"error": {"message": message, "type": "invalid_request_error"}})

    def reply(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """A thread a connection; none outlives the process."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is nothing to report."""


def main() -> int:
    parser = argparse.ArgumentParser(description="A scripted model server; no model looks at anything.")
    parser.add_argument("--port", type=int, default=0, help="the port to listen on (a free one when left out)")
    server = Server(("127.0.0.1", parser.parse_args().port), Handler)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
