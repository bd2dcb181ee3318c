#!/usr/bin/env bash
# The figures of the shipped engine: start, memory, time per turn, streams, uploads, requests.
#
#     tests/bench/run.sh [--only start,turn,sessions,streams,upload,requests] [--upload-bytes N]
#
# Builds the release binary and the measuring program, then prints a line a figure with its bound. Some minutes; nothing
# else should run meanwhile. Exit code 1 when a figure is out of bounds.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
if command -v mold >/dev/null; then
    export RUSTFLAGS="${RUSTFLAGS:--C link-arg=-fuse-ld=mold}"
fi
cargo build --release --locked --bin ambientctl
cargo build --release --locked -p ambient-bench
built=$(cargo metadata --format-version 1 --no-deps --locked \
    | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/release

clip=$(mktemp "${TMPDIR:-/tmp}/ambient-bench.XXXXXX.mp4")
trap 'rm -f "$clip"' EXIT
examples/sample_video.sh "$clip"
ulimit -n 8192 # a thousand streams, on either side
"$built/ambient-bench" run --binary "$built/ambientctl" --clip "$clip" "$@"
