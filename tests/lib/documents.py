#!/usr/bin/env python3
"""Runs every command block of the documents, in order, as a reader would.

    documents.py FILE.md…        in the folder where a reader's commands are to run

Fences and what becomes of them:
    sh                run by bash; exported variables and the working folder go on to the next block
    sh background     started and left running; its first line on stdout is awaited
    python            run in one Python that all blocks of a document share
    text output       what the block before printed on stdout has to look like this; `…` stands for anything
    sh installed      not run here: it is for an installation on Docker, and tests/installer/journey.sh has its like
    json, mermaid, …  not run
A block that the reader would run and that is run by another step of the tests stands in ELSEWHERE.
Prints `ok` or `FAIL` a block, then `N passed, N failed`.
"""
from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

ELSEWHERE = {"./examples/quickstart.sh": "a step of its own", "./tests/run.sh": "this very run"}
NOT_RUN = {"", "sh installed", "nginx", "json", "text", "mermaid", "http", "toml", "yaml", "ini"}
BLOCK_SECONDS = 120
FIRST_LINE_SECONDS = 30
FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```[ ]*$", re.MULTILINE | re.DOTALL)


class Failed(Exception):
    """A block that did not do what the document says."""


@dataclass
class Block:
    """A fenced block and where it stands."""

    place: str
    kind: str
    text: str


def blocks_of(path: Path) -> list[Block]:
    source = path.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        indent = len(match.group(1))
        text = "".join(row[indent:] if row[:indent].isspace() else row for row in match.group(3).splitlines(keepends=True))
        found.append(Block(f"{path.name}:{line}", match.group(2).strip(), text))
    return found


class Reader:
    """The reader's shell and Python while going through the documents."""

    def __init__(self, scratch: Path) -> None:
        self.state = scratch / "state.sh"
        self.state.write_text("", encoding="utf-8")
        self.scratch = scratch
        self.background: list[subprocess.Popen[bytes]] = []
        self.names: dict[str, object] = {}
        self.printed = ""

    def begin(self) -> None:
        self.names = {"__name__": "__main__"}
        self.printed = ""

    def read(self, block: Block) -> str:
        """Runs a block; gives the word for the report."""
        if block.kind == "sh":
            commands = [line for line in block.text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
            other = {ELSEWHERE.get(line.split("  #")[0].strip()) for line in commands}
            if None not in other and other:
                return "ok (" + ", ".join(sorted(filter(None, other))) + ")"
            self.printed = self.shell(block.text)
        elif block.kind == "sh background":
            self.start(block.text)
        elif block.kind == "python":
            self.printed = self.python(block)
        elif block.kind == "text output":
            self.compare(block.text)
        elif block.kind not in NOT_RUN:
            raise Failed(f"a fence of the kind `{block.kind}` is not known; use sh, python, or one of {sorted(NOT_RUN - {''})}")
        else:
            return ""
        return "ok"

    def shell(self, text: str) -> str:
        script = f"source {self.state}\n{text}\n{{ export -p; printf 'cd %q\\n' \"$PWD\"; }} >{self.state}\n"
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=BLOCK_SECONDS, check=False)
        if done.returncode != 0:
            raise Failed(f"exit code {done.returncode}\n{(done.stdout + done.stderr).decode(errors='replace')}")
        return done.stdout.decode(errors="replace")

    def start(self, text: str) -> None:
        out, log = self.scratch / f"background{len(self.background)}.out", self.scratch / f"background{len(self.background)}.log"
        script = f"source {self.state}\n{text}"
        with out.open("wb") as stdout, log.open("wb") as stderr:
            process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", script], stdin=subprocess.DEVNULL, stdout=stdout,
                                       stderr=stderr, start_new_session=True)
        self.background.append(process)
        until = time.monotonic() + FIRST_LINE_SECONDS
        while b"\n" not in out.read_bytes():
            if process.poll() is not None or time.monotonic() > until:
                raise Failed("it printed no line\n" + log.read_text(errors="replace")[-2000:])
            time.sleep(0.05)
        self.printed = out.read_text(errors="replace")

    def python(self, block: Block) -> str:
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(block.text, block.place, "exec"), self.names)  # noqa: S102  the documents are ours
        except Exception as error:
            raise Failed("".join(traceback.format_exception(error)[-3:]) + out.getvalue()) from error
        return out.getvalue()

    def compare(self, text: str) -> None:
        pattern = ".*?".join(re.escape(piece) for piece in text.strip().split("…"))
        if not re.fullmatch(pattern, self.printed.strip(), re.DOTALL):
            raise Failed(f"the document shows\n{text}\nbut it printed\n{self.printed}")

    def end(self) -> None:
        for process in reversed(self.background):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 15)
        for process in self.background:
            try:
                process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)


def main(files: list[str]) -> int:
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="ambient-documents.") as scratch:
        reader = Reader(Path(scratch))
        try:
            for path in map(Path, files):
                reader.begin()
                for block in blocks_of(path):
                    try:
                        word = reader.read(block)
                    except (Failed, subprocess.TimeoutExpired) as failure:
                        failed += 1
                        print(f"FAIL {block.place} ({block.kind}): {failure}", flush=True)
                        continue
                    if word:
                        passed += 1
                        print(f"{word} {block.place} ({block.kind})", flush=True)
        finally:
            reader.end()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
