"""What the cases share: the runner, the SDK clients, raw HTTP, an event tap, the scripted model.

A case is a function with the decorator @case(group); it gets the Kit and raises to fail. Each runs in a thread
of its own and is given up after its timeout (30 s), so one hanging call cannot hold the kit.
"""
from __future__ import annotations

import http.client
import importlib.util
import io
import json
import os
import secrets
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from urllib.parse import urlsplit

import anthropic
from anthropic import Anthropic

HERE = Path(__file__).resolve().parent
CASE_SECONDS = float(os.environ.get("KIT_CASE_SECONDS", "30"))
CASES = []
QUIET_EVENTS = ("ping",)


class Fail(Exception):
    pass


def case(group, seconds=None, needs_llm=False):
    def wrap(fn):
        CASES.append((fn.__name__, group, fn, seconds or CASE_SECONDS, needs_llm))
        return fn
    return wrap


def check(value, why):
    if not value:
        raise Fail(why() if callable(why) else why)


def equal(got, want, what):
    if got != want:
        raise Fail("%s: got %s, wanted %s" % (what, brief(got), brief(want)))


def brief(value, size=160):
    text = repr(value)
    return text if len(text) <= size else text[:size] + "… (%d characters)" % len(text)


def expect(classes, fn, what="the call"):
    """Calls fn, which has to raise one of these SDK errors; gives the error back."""
    try:
        got = fn()
    except classes as err:
        return err
    except Exception as err:
        raise Fail("%s raised %s (%s), wanted %s" % (what, type(err).__name__, brief(str(err)), names(classes)))
    raise Fail("%s went through (%s), wanted %s" % (what, brief(got), names(classes)))


def names(classes):
    return "/".join(c.__name__ for c in (classes if isinstance(classes, tuple) else (classes,)))


def nonce():
    return secrets.token_hex(4)


def until(fn, seconds, what, pause=0.1):
    """Calls fn until it gives something true."""
    end = time.monotonic() + seconds
    while True:
        got = fn()
        if got:
            return got
        if time.monotonic() > end:
            raise Fail("not within %g s: %s" % (seconds, what))
        time.sleep(pause)


def variant(data: bytes, mark: str, size: int = 0) -> bytes:
    """The same video as other bytes: a free box (MP4/MOV) or a Void element (WebM/MKV) after its end."""
    payload = mark.encode() + b"\0" * max(0, size - len(mark.encode()))
    if data[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip"):
        return data + (8 + len(payload)).to_bytes(4, "big") + b"free" + payload
    if data[:4] == b"\x1a\x45\xdf\xa3":
        return data + b"\xec" + (0x10000000 | len(payload)).to_bytes(4, "big") + payload
    raise Fail("VIDEO_FILE has to be an MP4, MOV, MKV or WebM file")


def message_text(events):
    return "".join(b.text for e in events if e.type == "agent.message" for b in e.content if b.type == "text")


def types_of(events):
    return [e.type for e in events]


def user_text(text, **more):
    return {"type": "user.message", "content": [{"type": "text", "text": text}], **more}


class Tap:
    """Reads events.stream() in a thread. `events` grows; `error` holds what ended it, if anything did."""

    def __init__(self, client, session_id, wait_open=8.0, **params):
        self.events, self.times, self.error, self.ended = [], [], None, threading.Event()
        self.opened, self.stream, self._cond = threading.Event(), None, threading.Condition()
        self._client, self._sid, self._params = client, session_id, params
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        if wait_open and not self.opened.wait(wait_open):
            raise Fail("events.stream() had no response head within %g s" % wait_open)
        if self.error and not self.stream:
            raise self.error

    def _run(self):
        try:
            self.stream = self._client.beta.sessions.events.stream(
                self._sid, timeout=anthropic.Timeout(60, connect=5), **self._params)
            self.opened.set()
            for e in self.stream:
                with self._cond:
                    self.events.append(e)
                    self.times.append(time.monotonic())
                    self._cond.notify_all()
        except Exception as err:
            self.error = err
        finally:
            self.opened.set()
            self.ended.set()
            with self._cond:
                self._cond.notify_all()

    def wait(self, pred, seconds, what):
        """The first event that pred takes."""
        end = time.monotonic() + seconds
        seen = 0
        with self._cond:
            while True:
                while seen < len(self.events):
                    if pred(self.events[seen]):
                        return self.events[seen]
                    seen += 1
                left = end - time.monotonic()
                if left <= 0 or self.ended.is_set():
                    raise Fail("no %s %s; the stream gave %s" % (
                        what, "before the stream ended (%r)" % self.error if self.ended.is_set() else "within %g s" % seconds,
                        brief(types_of(self.events), 300)))
                self._cond.wait(min(left, 0.5))

    def close(self):
        if self.stream is not None:
            threading.Thread(target=self._close, daemon=True).start()

    def _close(self):
        try:
            self.stream.close()
        except Exception:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class RawStream:
    """The event stream as bytes on the wire: (event, id, data, comment) as they come."""

    def __init__(self, kit, session_id, headers=(), query=""):
        u = urlsplit(kit.base)
        cls = http.client.HTTPSConnection if u.scheme == "https" else http.client.HTTPConnection
        self.conn = cls(u.hostname, u.port, timeout=25)
        self.conn.connect()
        self.sock = self.conn.sock  # http.client lets go of it when the answer is to end with the connection
        self.conn.request("GET", u.path.rstrip("/") + "/v1/sessions/%s/events/stream%s" % (session_id, query),
                          headers={**kit.auth, "Accept": "text/event-stream", "Accept-Encoding": "gzip, deflate, br, zstd", **dict(headers)})
        self.resp = self.conn.getresponse()
        self.status, self.headers = self.resp.status, {k.lower(): v for k, v in self.resp.getheaders()}
        self.frames, self.comments = [], []
        self._cond = threading.Condition()
        self.ended = threading.Event()
        self.error = None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        cur = {"event": None, "id": None, "data": []}
        try:
            while True:
                line = self.resp.readline()
                if not line:
                    break
                line = line.rstrip(b"\r\n").decode("utf-8")
                with self._cond:
                    if line.startswith(":"):
                        self.comments.append((time.monotonic(), line))
                    elif not line:
                        if cur["event"] or cur["data"]:
                            self.frames.append({"event": cur["event"], "id": cur["id"], "data": "\n".join(cur["data"]), "t": time.monotonic()})
                        cur = {"event": None, "id": None, "data": []}
                    else:
                        k, _, v = line.partition(":")
                        v = v[1:] if v.startswith(" ") else v
                        if k == "data":
                            cur["data"].append(v)
                        elif k in cur:
                            cur[k] = v
                    self._cond.notify_all()
        except Exception as err:
            self.error = err
        self.ended.set()
        with self._cond:
            self._cond.notify_all()

    def objects(self):
        with self._cond:
            return [json.loads(f["data"]) for f in self.frames if f["data"] and f["event"] not in QUIET_EVENTS]

    def wait(self, fn, seconds, what):
        end = time.monotonic() + seconds
        with self._cond:
            while True:
                got = fn(self)
                if got:
                    return got
                left = end - time.monotonic()
                if left <= 0 or (self.ended.is_set() and not fn(self)):
                    raise Fail("no %s within %g s on the raw stream (%d frames, ended %s)" % (what, seconds, len(self.frames), self.ended.is_set()))
                self._cond.wait(min(0.3, left))

    def drop(self):
        """As a client that dies: the socket is torn down."""
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
            self.sock.close()
        except OSError:
            pass


class Fake:
    """The scripted model, started here unless one already answers on the port."""

    def __init__(self, source: Path):
        self.port = int(os.environ.get("FAKE_LLM_PORT", "18099"))
        self.own = None
        if self._ping() is None:
            spec = importlib.util.spec_from_file_location("fake_llm", source)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            try:
                self.own = module.serve(self.port, os.environ.get("FAKE_LLM_LOG", ""))
            except OSError as err:
                raise Fail("port %d is taken by something that is no fake_llm (%s)" % (self.port, err))
            threading.Thread(target=self.own.serve_forever, daemon=True).start()
        self.start = self._ping()["n"]

    def _get(self, path):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        c.request("GET", path)
        r = c.getresponse()
        return json.loads(r.read())

    def _ping(self):
        try:
            got = self._get("/_fake/ping")
            return got if got.get("fake_llm") else None
        except Exception:
            return None

    def records(self, mark=None):
        """Request bodies (with _fake) that came since the kit began; with a mark, those whose messages hold it."""
        out = [r for r in self._get("/_fake/log?since=%d" % self.start) if "messages" in r]
        if mark is not None:
            out = [r for r in out if mark in json.dumps(r["messages"], ensure_ascii=False)]
        return out

    def events(self, kind):
        return [r["_fake"] for r in self._get("/_fake/log?since=%d" % self.start) if r["_fake"].get("event") == kind]


class Kit:
    def __init__(self, base, key, video):
        self.base, self.key = base.rstrip("/"), key
        self.video_path = Path(video)
        self.video_bytes = self.video_path.read_bytes()
        self.auth = {"Authorization": "Bearer " + key}
        self.client = Anthropic(base_url=base, api_key=key, max_retries=0, timeout=anthropic.Timeout(20, connect=5))
        self.retrying = Anthropic(base_url=base, api_key=key, timeout=anthropic.Timeout(20, connect=5))
        self.strict = Anthropic(base_url=base, api_key=key, max_retries=0, timeout=anthropic.Timeout(20, connect=5),
                                _strict_response_validation=True)
        self.b = self.client.beta
        self._lock = threading.RLock()
        self._video = None
        self._tools = None
        self.fake = None

    # -- raw HTTP
    def raw(self, method, path, body=None, headers=None, auth=True, timeout=15):
        """(status, headers in lower case, body bytes)"""
        u = urlsplit(self.base)
        cls = http.client.HTTPSConnection if u.scheme == "https" else http.client.HTTPConnection
        conn = cls(u.hostname, u.port, timeout=timeout)
        h = dict(self.auth) if auth else {}
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            h["Content-Type"] = "application/json"
        h.update(headers or {})
        try:
            conn.request(method, u.path.rstrip("/") + path, body=body, headers=h)
            r = conn.getresponse()
            return r.status, {k.lower(): v for k, v in r.getheaders()}, r.read()
        finally:
            conn.close()

    def raw_error(self, got, status, what):
        """An error body as the SDK reads it."""
        code, headers, body = got
        check(code in (status if isinstance(status, tuple) else (status,)), lambda: "%s: HTTP %d, wanted %s (%s)" % (what, code, status, brief(body)))
        try:
            value = json.loads(body)
            check(value["type"] == "error" and isinstance(value["error"]["type"], str) and isinstance(value["error"]["message"], str), "")
        except Exception:
            raise Fail("%s: the body is not {type: error, error: {type, message}}: %s" % (what, brief(body)))
        return value, headers

    # -- fixtures
    def upload(self, data, filename="clip.mp4", mime="video/mp4"):
        return self.b.files.upload(file=(filename, io.BytesIO(data), mime))

    def video(self):
        with self._lock:
            if self._video is None:
                with open(self.video_path, "rb") as f:
                    self._video = self.b.files.upload(file=f)
            return self._video

    def session(self, agent="ambient_v1", wait=True, video=None, client=None, **more):
        metadata = {"video_id": (video or self.video()).id, **more.pop("metadata", {})}
        s = (client or self.client).beta.sessions.create(agent=agent, environment_id=more.pop("environment_id", "default"), metadata=metadata, **more)
        return self.ready(s.id) if wait else s

    def ready(self, session_id, seconds=15):
        def look():
            s = self.b.sessions.retrieve(session_id)
            check(s.status != "terminated", lambda: "the session is terminated: %s" % [
                getattr(getattr(e, "error", None), "message", None) for e in self.b.sessions.events.list(session_id) if e.type == "session.error"])
            return s if s.status == "idle" else None
        return until(look, seconds, "session %s idle" % session_id)

    def idle(self, session_id, seconds=10):
        return until(lambda: (lambda s: s if s.status in ("idle", "terminated") else None)(self.b.sessions.retrieve(session_id)), seconds, "session idle again")

    def events(self, session_id, **params):
        return list(self.b.sessions.events.list(session_id, **params))

    def send(self, session_id, text, client=None):
        return (client or self.client).beta.sessions.events.send(session_id, events=[user_text(text)])

    def ask(self, session_id, text, seconds=22, client=None):
        """Opens a stream, sends the text, reads to the idle that ends this run. The events of this run."""
        old = {e.id for e in self.events(session_id)}
        with Tap(client or self.client, session_id) as tap:
            self.send(session_id, text)
            end = tap.wait(lambda e: e.type in ("session.status_idle", "session.status_terminated") and e.id not in old,
                           seconds, "session.status_idle after the message")
            got, seen = [], set()
            for e in list(tap.events):
                if getattr(e, "id", None) in old or getattr(e, "id", None) in seen:
                    continue
                seen.add(getattr(e, "id", None))
                got.append(e)
                if e is end:
                    break
            self.called(text)
            return got

    def called(self, text):
        if self.fake and "[[" in text and not self.fake.records():
            raise Fail("the engine never called the scripted model: start it with its chat-completions base URL at "
                       "http://127.0.0.1:%d/v1 (FAKE_LLM_PORT)" % self.fake.port)

    def tools(self):
        """The tool definitions that the engine gave the model in agent mode: {name: parameters schema}"""
        with self._lock:
            if self._tools is None:
                mark = "tools-" + nonce()
                self.ask(self.session().id, "[[say:%s]]" % mark)
                defs = [t["function"] for r in self.fake.records(mark) for t in r.get("tools") or [] if t.get("type") == "function"]
                check(defs, "the model was given no tools in agent mode")
                self._tools = {d["name"]: d.get("parameters") or {} for d in defs}
            return self._tools

    def bash(self, command):
        """A directive that has the engine's bash tool run this command."""
        tools = self.tools()
        name = os.environ.get("KIT_BASH_TOOL") or ("bash" if "bash" in tools else None)
        check(name in tools, lambda: "the engine offers no bash tool (it offers %s)" % sorted(tools))
        schema = tools[name]
        strings = [k for k, v in (schema.get("properties") or {}).items() if isinstance(v, dict) and v.get("type") == "string"]
        arg = "command" if "command" in (schema.get("properties") or {}) else next(iter([k for k in schema.get("required") or [] if k in strings] + strings), "command")
        return "[[tool:%s %s]]" % (name, json.dumps({arg: command}, ensure_ascii=False))


# ---------------------------------------------------------------- the runner

def run(title, argv, fake_source: Path):
    if len(argv) != 4:
        print("use: run.sh BASE_URL API_KEY VIDEO_FILE", file=sys.stderr)
        return 2
    base, key, video = argv[1:]
    only = os.environ.get("KIT_ONLY", "")
    group = os.environ.get("KIT_GROUP", "all")
    if not Path(video).is_file():
        print("no such file: %s" % video, file=sys.stderr)
        return 2
    kit = Kit(base, key, video)
    print("# %s: anthropic %s against %s" % (title, anthropic.__version__, base), flush=True)
    chosen = [c for c in CASES if (not only or any(p in c[0] for p in only.split(","))) and (group == "all" or c[1] in group.split(","))]
    # With nobody listening every case would wait out its own time.
    u = urlsplit(base)
    try:
        socket.create_connection((u.hostname, u.port or (443 if u.scheme == "https" else 80)), timeout=5).close()
    except OSError as err:
        for name, *_ in chosen:
            print("FAIL %s: nothing listens at %s (%s)" % (name, base, err))
        print("0 passed, %d failed" % len(chosen))
        return 1
    fake_error = None
    if any(c[4] for c in chosen):
        try:
            kit.fake = Fake(fake_source)
        except Exception as err:
            fake_error = err
    passed = failed = 0
    for name, _, fn, seconds, needs_llm in chosen:
        box = {}

        def work():
            try:
                if needs_llm and kit.fake is None:
                    raise Fail("the scripted model did not start: %s" % fake_error)
                fn(kit)
                box["ok"] = True
            except BaseException as err:
                box["err"] = err
                box["tb"] = traceback.format_exc()

        t = threading.Thread(target=work, daemon=True)
        began = time.monotonic()
        t.start()
        t.join(seconds)
        if box.get("ok"):
            passed += 1
            print("ok %s" % name, flush=True)
        else:
            failed += 1
            err = box.get("err")
            why = "no answer in %g s" % seconds if err is None else (
                str(err) if isinstance(err, Fail) else "%s: %s" % (type(err).__name__, brief(str(err), 300)))
            print("FAIL %s: %s" % (name, " ".join(why.split())), flush=True)
            if os.environ.get("KIT_TRACE") and box.get("tb"):
                print(box["tb"], file=sys.stderr, flush=True)
        if os.environ.get("KIT_TIMES"):
            print("#   %.1f s" % (time.monotonic() - began), flush=True)
    print("%d passed, %d failed" % (passed, failed), flush=True)
    sys.stdout.flush()
    os._exit(1 if failed else 0)
