"""What the model is really sent, read from the scripted model's request log.

The engine is started with MAX_CLIPS_PER_PROMPT=2 and MAX_FRAMES_PER_PROMPT=8 for this group, so that the limits are met
within a few calls.
"""
from __future__ import annotations

import json
import os
import re

from kitlib import brief, case, check, equal, message_text, nonce, types_of

WIRE = dict(needs_llm=True)
MAX_CLIPS = int(os.environ.get("KIT_MAX_CLIPS", "2"))
MAX_FRAMES = int(os.environ.get("KIT_MAX_FRAMES", "8"))
BASE64_RUN = re.compile(r"[A-Za-z0-9+/]{400,}")


def call(name, **arguments):
    return "[[tool:%s %s]]" % (name, json.dumps(arguments))


def texts(message):
    """Every text in a message: plain content, text parts, tool arguments."""
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else []:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]
    for tool in message.get("tool_calls") or []:
        yield tool["function"]["arguments"]


def parts(messages, kind):
    return [part for message in messages if isinstance(message.get("content"), list)
            for part in message["content"] if isinstance(part, dict) and part.get("type") == kind]


def well_formed(messages):
    """Every call is followed at once by the results of all calls of its turn, in order, and no result stands elsewhere."""
    at = 0
    while at < len(messages):
        message = messages[at]
        check(message["role"] != "tool", lambda: "message %d is a tool result that no call stands before" % at)
        at += 1
        calls = message.get("tool_calls") or []
        for wanted in calls:
            json.loads(wanted["function"]["arguments"])  # servers refuse a request whose old arguments are no JSON
            got = messages[at] if at < len(messages) else {}
            equal((got.get("role"), got.get("tool_call_id")), ("tool", wanted["id"]), "message %d, after a turn with %d calls" % (at, len(calls)))
            at += 1


def no_media_as_text(messages):
    for number, message in enumerate(messages):
        for text in texts(message):
            check("base64," not in text, lambda: "message %d holds a data URL as text: %s" % (number, brief(text)))
            run = BASE64_RUN.search(text)
            check(run is None, lambda: "message %d holds base64 as text: %s" % (number, brief(run.group(0))))


def clip_tool(k):
    """The tool with which the agent itself sees or searches a clip; which one there is depends on its model."""
    name = next((n for n in ("focus_clip", "search_clip") if n in k.tools()), None)
    check(name, lambda: "neither focus_clip nor search_clip is offered: %s" % sorted(k.tools()))
    more = {"query": "what is to be seen"} if "query" in (k.tools()[name].get("properties") or {}) else {}
    return name, more


@case("wire", **WIRE)
def results_before_media(k):
    mark = nonce()
    name, more = clip_tool(k)
    text = (call(name, start_time=1, end_time=4, **more) + "+" + k.bash("echo two-" + mark) + "+" + call("grab_frames", start_time=2, end_time=4)
            + "[[say:end %s]]" % mark)
    got = k.ask(k.session().id, text)
    check("end " + mark in message_text(got), lambda: "events " + brief(types_of(got), 300))
    results = [e for e in got if e.type == "agent.tool_result"]
    equal([bool(e.is_error) for e in results], [False] * 3, "is_error of the three results")
    last = k.fake.records("end " + mark)[-1]["messages"]
    well_formed(last)
    no_media_as_text(last)
    turn = max(i for i, m in enumerate(last) if m.get("tool_calls"))
    equal([m["role"] for m in last[turn:turn + 5]], ["assistant", "tool", "tool", "tool", "user"], "roles from the turn on")
    check(parts(last[turn + 4:], "image_url"), "no image_url after the results")


@case("wire", **WIRE)
def a_label_for_each_frame(k):
    mark = nonce()
    k.ask(k.session().id, call("grab_frames", start_time=1, end_time=5) + "[[say:end %s]]" % mark)
    last = k.fake.records("end " + mark)[-1]["messages"]
    holder = [m for m in last if isinstance(m.get("content"), list) and any(p.get("type") == "image_url" for p in m["content"])]
    check(holder, "no frames reached the model")
    content = holder[-1]["content"]
    labels = []
    for at, part in enumerate(content):
        if part.get("type") == "image_url":
            before = content[at - 1] if at else {}
            check(before.get("type") == "text" and re.search(r"\d", before.get("text", "")), lambda: "no time stands before frame %d: %s" % (len(labels), brief(before)))
            labels.append(before["text"])
    equal(len(labels), len(set(labels)), "labels, each for one frame")


@case("wire", seconds=90, **WIRE)
def newest_media_are_kept(k):
    mark = nonce()
    name, more = clip_tool(k)
    s = k.session()
    for turn in range(MAX_CLIPS + 1):
        k.ask(s.id, call(name, start_time=turn, end_time=turn + 2, **more) + call("grab_frames", start_time=turn, end_time=turn + 3) + "[[say:turn %d %s]]" % (turn, mark), 60)
    last = k.fake.records("turn %d %s" % (MAX_CLIPS, mark))[-1]["messages"]
    clips, frames = parts(last, "video_url"), parts(last, "image_url")
    check(len(clips) <= MAX_CLIPS, lambda: "%d clips, the limit is %d" % (len(clips), MAX_CLIPS))
    check(0 < len(frames) <= MAX_FRAMES, lambda: "%d frames, the limit is %d" % (len(frames), MAX_FRAMES))
    well_formed(last)
    no_media_as_text(last)
    check(not [m for m in last if m.get("content") == []], "an emptied message is still there")


@case("wire", **WIRE)
def bad_arguments_are_told(k):
    mark = nonce()
    got = k.ask(k.session().id, "[[badjson]]" + k.bash("echo " + mark) + "[[say:end %s]]" % mark)
    results = [e for e in got if e.type == "agent.tool_result"]
    check(results and results[0].is_error, lambda: "the call with cut-off arguments: " + brief(results))
    for record in k.fake.records(mark):
        well_formed(record["messages"])


@case("wire", **WIRE)
def one_call_id_for_all(k):
    # some servers give every call the same id; event ids are ours, and what goes back to the model still fits
    mark = nonce()
    got = k.ask(k.session().id, "[[callid:same]]" + k.bash("echo a" + mark) + "[[callid:same]]" + k.bash("echo b" + mark) + "[[say:end %s]]" % mark)
    use = [e.id for e in got if e.type == "agent.tool_use"]
    result = [e.tool_use_id for e in got if e.type == "agent.tool_result"]
    equal((len(set(use)), result), (2, use), "ids of calls and results")
    well_formed(k.fake.records("end " + mark)[-1]["messages"])


@case("wire", **WIRE)
def unknown_tool_is_told(k):
    mark = nonce()
    got = k.ask(k.session().id, "[[tool:teleport {}]][[say:end %s]]" % mark)
    results = [e for e in got if e.type == "agent.tool_result"]
    check(results and results[0].is_error, "the call of an unknown tool has no error result")
    check("teleport" in json.dumps([b.text for b in results[0].content if b.type == "text"]), "the result does not name the tool")
    check("end " + mark in message_text(got), "the run did not go on")


@case("wire", **WIRE)
def key_goes_nowhere_else(k):
    mark = nonce()
    got = k.ask(k.session().id, k.bash("env") + "[[say:end %s]]" % mark)
    shown = "".join(b.text for e in got if e.type == "agent.tool_result" for b in e.content if b.type == "text")
    for name in ("API_KEY", "LLM_BASE_URL", "DATABASE_URL", "REDIS_URL", "AWS_SECRET_ACCESS_KEY", "AMBIENT_HOME"):
        check(name not in shown, lambda: "a command sees %s" % name)
