#!/usr/bin/env bash
# From a fresh checkout to a streamed answer about a video.
#
#     ./examples/quickstart.sh ["QUESTION"]
#
# Installs what is missing (and says each command before it runs it), builds the release binary, makes a short video,
# starts the engine with its defaults in a folder of its own, checks it with the official Anthropic SDK and asks a
# question. With LLM_BASE_URL (and LLM_API_KEY, where the server wants one) your model answers; otherwise a scripted
# stand-in does. Nothing is left running and no setting of yours is changed; it can be run again and again.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
question=${1:-What happens in this video, and when?}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ambient-quickstart
work=
children=()

say() { printf '\n==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
fail() { printf '\nquickstart failed: %s\n' "$*" >&2; exit 1; }

# Shows a command, then runs it.
run() {
    printf '  $ %s\n' "$*"
    "$@"
}

# The same with the rights to install packages.
run_as_root() {
    if [ "$(id -u)" = 0 ]; then
        run "$@"
    elif command -v sudo >/dev/null; then
        run sudo "$@"
    else
        fail "installing packages needs root or sudo; run this yourself, then start again: $*"
    fi
}

clean_up() {
    local child
    for child in ${children[@]+"${children[@]}"}; do
        kill -TERM "$child" 2>/dev/null || true
    done
    for child in ${children[@]+"${children[@]}"}; do
        wait "$child" 2>/dev/null || true
    done
    if [ -n "$work" ]; then
        rm -rf "$work"
    fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- what has to be there -------------------------------------------------------------------------------------------

python_is_complete() { python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }

missing_tools() {
    local tool
    for tool in ffmpeg ffprobe curl; do
        command -v "$tool" >/dev/null || printf '%s ' "$tool"
    done
    python_is_complete || printf 'python3-with-venv '
    { command -v cc || command -v clang; } >/dev/null || printf 'c-compiler '
}

install_packages() {
    local missing
    missing=$(missing_tools)
    if [ -z "$missing" ]; then
        note "ffmpeg, python3, curl and a C compiler are there"
        return
    fi
    note "missing: $missing"
    if command -v apt-get >/dev/null; then
        run_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q
        run_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
            build-essential ca-certificates curl ffmpeg python3 python3-venv
    elif command -v dnf >/dev/null; then
        # Fedora names its build of ffmpeg ffmpeg-free; systems with RPM Fusion have ffmpeg.
        run_as_root dnf install -y gcc gcc-c++ make curl python3
        command -v ffmpeg >/dev/null || run_as_root dnf install -y ffmpeg-free || run_as_root dnf install -y ffmpeg
    elif command -v pacman >/dev/null; then
        run_as_root pacman -S --needed --noconfirm base-devel curl ffmpeg python
    elif command -v brew >/dev/null; then
        run brew install ffmpeg python
    else
        fail "no apt-get, dnf, pacman or brew here; install these yourself, then start again: $missing"
    fi
    missing=$(missing_tools)
    [ -z "$missing" ] || fail "still missing after the installation: $missing"
}

# The newest Rust that the project asks for, as `1.95`.
wanted_rust() { sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/Cargo.toml"; }

rust_is_new_enough() {
    local have
    have=$(cargo --version 2>/dev/null | cut -d' ' -f2) || return 1
    [ -n "$have" ] && [ "$(printf '%s\n%s\n' "$(wanted_rust)" "$have" | sort -V | head -n 1)" = "$(wanted_rust)" ]
}

install_rust() {
    if ! command -v cargo >/dev/null && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
        PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    fi
    if rust_is_new_enough; then
        note "$(cargo --version) is there"
        return
    fi
    if command -v rustup >/dev/null; then
        run rustup toolchain install stable --profile minimal --no-self-update
        export RUSTUP_TOOLCHAIN=stable
    else
        note "Rust $(wanted_rust) or newer is missing; rustup installs it into your home folder"
        printf '  $ %s\n' "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal"
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal
        PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    fi
    rust_is_new_enough || fail "cargo is still older than $(wanted_rust): $(cargo --version 2>&1)"
}

# A folder for the SDK alone, so that the system's Python stays as it is.
install_sdk() {
    local pinned=$root/examples/requirements.txt
    if ! cmp -s "$pinned" "$cache/requirements.txt" || ! "$cache/venv/bin/python" -c 'import anthropic' 2>/dev/null; then
        rm -rf "$cache"
        mkdir -p "$cache"
        run python3 -m venv "$cache/venv"
        run "$cache/venv/bin/pip" install --quiet --disable-pip-version-check -r "$pinned"
        cp "$pinned" "$cache/requirements.txt"
    fi
    note "the SDK is in $cache/venv: $(tr '\n' ' ' <"$pinned")"
}

# --- what is started ------------------------------------------------------------------------------------------------

# Waits for the first line that a child prints into a file, which is how both servers tell where they listen.
first_line_of() {
    local file=$1 child=$2 log=$3 tries=0
    until [ -s "$file" ] && [ "$(wc -l <"$file")" -ge 1 ]; do
        kill -0 "$child" 2>/dev/null || { cat "$log" >&2; fail "a server ended before it listened; its log stands above"; }
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || fail "a server did not listen within 30 seconds"
        sleep 0.1
    done
    head -n 1 "$file"
}

start_stand_in() {
    python3 "$root/examples/stand_in_model.py" >"$work/stand_in.out" 2>"$work/stand_in.log" &
    children+=($!)
    LLM_BASE_URL=$(first_line_of "$work/stand_in.out" $! "$work/stand_in.log")
    export LLM_BASE_URL LLM_API_KEY=none AGENT_BASE_URL=$LLM_BASE_URL AGENT_API_KEY=none
}

# The engine's own defaults: what a deployment may have set in this shell is no part of the try-out.
start_engine() {
    local binary=$1 line
    unset DATABASE_URL REDIS_URL VIDEO_FOLDER SANDBOX_BACKEND S3_ENDPOINT S3_BUCKET SERVER_HOST SERVER_PORT API_KEY
    export AMBIENT_HOME=$work/home
    printf '  $ %s\n' "ambientctl serve --port 0"
    (cd "$work" && exec "$binary" serve --port 0) >"$work/engine.out" 2>"$work/engine.log" &
    children+=($!)
    line=$(first_line_of "$work/engine.out" $! "$work/engine.log")
    note "$line"
    export AMBIENT_BASE_URL=${line##* } AMBIENT_API_KEY=dev-token
}

# --- the way through ------------------------------------------------------------------------------------------------

say "Tools"
install_packages
install_rust
install_sdk

say "Building ambientctl (some minutes the first time)"
(cd "$root" && run cargo build --release --locked --bin ambientctl)
binary=$(cd "$root" && cargo metadata --format-version 1 --no-deps --locked \
    | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/release/ambientctl

work=$(mktemp -d "${TMPDIR:-/tmp}/ambient-quickstart.XXXXXX")

say "A short video with a clock in it"
run "$root/examples/sample_video.sh" "$work/clip.mp4"

say "The model"
scripted=
if [ -n "${LLM_BASE_URL:-}" ]; then
    note "your endpoint answers: $LLM_BASE_URL"
else
    scripted=yes
    start_stand_in
    note "LLM_BASE_URL is not set, so a scripted stand-in answers: NO MODEL LOOKS AT THE VIDEO."
    note "Everything else is real. For real answers: LLM_BASE_URL=… LLM_API_KEY=… ./examples/quickstart.sh"
fi

say "The engine"
start_engine "$binary"

say "Is it up?"
run curl --silent --show-error --fail --noproxy '*' "$AMBIENT_BASE_URL/v1/healthz"
printf '\n'

say "A session, and a question"
no_proxy=127.0.0.1,localhost${no_proxy:+,$no_proxy}
export no_proxy NO_PROXY=$no_proxy
if ! run "$cache/venv/bin/python" "$root/examples/ask.py" "$work/clip.mp4" "$question"; then
    tail -n 30 "$work/engine.log" >&2
    fail "the question got no answer; the end of the engine's log stands above"
fi

say "Done"
if [ -n "$scripted" ]; then
    note "The answer was scripted: no model looked at the video."
fi
note "To keep an engine running: $binary serve"
