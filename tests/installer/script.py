"""The install script in an empty home, with every kind of machine, every kind of broken download and every cut of itself.

    script.py ARCHIVES WORK

ARCHIVES is what installer/release.sh made. Prints a line for each case and ends with `N passed, N failed`.
"""

import functools
import hashlib
import http.server
import os
import pathlib
import subprocess
import sys
import tarfile
import threading

archives, work = (pathlib.Path(word) for word in sys.argv[1:3])
script = archives / "install.sh"
passed, failed = 0, 0


def case(name, holds, seen=""):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print(f"{'ok    ' if holds else 'FAILED'} {name}" + ("" if holds else f"\n{seen}"))


def serve(folder):
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def fakes(folder, **programs):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return folder


def run(home, base, words=(), first_in_path=None, text=None):
    home.mkdir(parents=True)
    temporary = home.parent / f"{home.name}-tmp"
    temporary.mkdir()
    path = os.environ["PATH"] if first_in_path is None else f"{first_in_path}:{os.environ['PATH']}"
    environment = {"HOME": str(home), "PATH": path, "TMPDIR": str(temporary), "AMBIENT_DOWNLOAD_BASE": base}
    done = subprocess.run(
        ["sh", "-s", "--", *words], input=script.read_bytes() if text is None else text,
        env=environment, capture_output=True, timeout=120,
    )
    left = sorted(str(path.relative_to(home)) for path in home.rglob("*")) + [str(path) for path in temporary.iterdir()]
    return done.returncode, done.stdout.decode() + done.stderr.decode(), left


# A release of a program that only says what it was called with.
stand_in = work / "stand-in"
release = stand_in / "latest/download"
release.mkdir(parents=True)
told = fakes(work / "program", ambientctl='[ "$1" = --version ] && { echo ambientctl 9.9.9; exit 0; }; echo "called with: $*"; touch "$HOME/installed"')
names = [f"ambientctl-{machine}.tar.gz" for machine in ("x86_64-linux", "aarch64-linux", "x86_64-macos", "aarch64-macos")]
for name in names:
    with tarfile.open(release / name, "w:gz") as tar:
        tar.add(told / "ambientctl", arcname="ambientctl")


def sums(folder):
    (folder / "SHA256SUMS").write_text(
        "".join(f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names if (folder / name).exists())
    )


sums(release)
good = serve(stand_in)

code, said, left = run(work / "good", good, ["--yes", "--dir", "/some where"])
case("words reach the program, which runs once", code == 0 and "called with: install --yes --dir /some where" in said, said)
case("the temporary folder goes away", left == ["installed"], str(left))

for system, processor, extra, expected in [
    ("Linux", "x86_64", {}, "x86_64-linux"),
    ("Linux", "amd64", {}, "x86_64-linux"),
    ("Linux", "aarch64", {}, "aarch64-linux"),
    ("Linux", "arm64", {}, "aarch64-linux"),
    ("Darwin", "arm64", {}, "aarch64-macos"),
    ("Darwin", "x86_64", {"sysctl": "echo 0"}, "x86_64-macos"),
    ("Darwin", "x86_64", {"sysctl": "echo 1"}, "aarch64-macos"),
    ("Linux", "armv7l", {}, None),
    ("Linux", "riscv64", {}, None),
    ("Linux", "i386", {}, None),
    ("FreeBSD", "x86_64", {}, None),
]:
    label = f"{system}-{processor}" + "".join(extra.values()).replace("echo ", "-")
    uname = f'case "$1" in -s) echo {system} ;; -m) echo {processor} ;; *) echo {system} ;; esac'
    fake = fakes(work / "fake" / label, uname=uname, **extra)
    code, said, left = run(work / "machine" / label, good, first_in_path=fake)
    if expected:
        case(f"{label} gets {expected}", code == 0 and f"ambientctl-{expected}.tar.gz" in said, said)
    else:
        word = processor if system == "Linux" else system
        case(f"{label} is refused by name", code == 1 and f"`{word}`" in said and not left, said)

for label, spoil, words in [
    ("no such release", lambda folder: None, ["--version", "0.0.7"]),
    ("no archive", lambda folder: [(folder / name).unlink() for name in names], []),
    ("no checksums", lambda folder: (folder / "SHA256SUMS").unlink(), []),
    ("a page instead of checksums", lambda folder: (folder / "SHA256SUMS").write_text("<html>welcome</html>"), []),
    ("a page instead of the archive", lambda folder: [(folder / name).write_text("<html>") for name in names], []),
    ("a cut archive", lambda folder: [(folder / name).write_bytes((folder / name).read_bytes()[:-40]) for name in names], []),
    ("another archive", lambda folder: [(folder / name).write_bytes((folder / name).read_bytes() + b"x") for name in names], []),
]:
    folder = work / "spoiled" / label.replace(" ", "-") / "latest/download"
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes((release / name).read_bytes())
    sums(folder)
    spoil(folder)
    code, said, left = run(work / "home" / label.replace(" ", "-"), serve(folder.parents[1]), words)
    case(f"{label}: nothing is installed", code == 1 and not left and "127.0.0.1" in said, f"{code} {left}\n{said}")

# A step that fails is the last one.
for name in ("mktemp", "sha256sum", "tar", "chmod"):
    fake = fakes(work / "failing" / name, **{name: "echo no luck >&2; exit 1"})
    code, said, left = run(work / "failed" / name, good, first_in_path=fake)
    case(f"a {name} that fails ends it", code != 0 and not left and "called with" not in said, f"{code} {left}\n{said}")
text = script.read_bytes()
bad = []
fake = fakes(work / "fake/cut", **{name: 'echo "$0 $*" >> "$HOME/ran"' for name in ("curl", "wget", "tar", "mktemp", "sha256sum")})
# Whole lines and the bytes around them; the last whole text is the script itself.
ends = sorted({end + shift for end, byte in enumerate(text) if byte == 10 for shift in (0, 1)} | set(range(0, len(text) - 12, 37)))
for end in [end for end in ends if end < len(text) - len('main "$@"\n')]:
    home = work / "cut" / str(end)
    _, said, left = run(home, good, first_in_path=fake, text=text[:end])
    if left:
        bad.append((end, left))
case(f"a script that is cut at any of {len(ends)} places does nothing", not bad, str(bad[:3]))

print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
