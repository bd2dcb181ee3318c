#!/usr/bin/env bash
# The figures of the shipped binary: start, memory, time per turn, streams, uploads, requests; and the operator's tool beside
# Docker Compose.
#
#     tests/bench/run.sh [--only start,turn,sessions,streams,upload,requests,operator] [--upload-bytes N]
#
# Builds the release binary and the measuring program, then prints a line a figure with its bound. Some minutes; nothing
# else should run meanwhile. Exit code 1 when a figure is out of bounds. The operator's figures need what the tests of an
# installation need: a Docker engine, started here where none answers, and its images, made here where they are missing.
#
#     BINARY=path    measures this release binary instead of building one
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
test_cache=${XDG_CACHE_HOME:-$HOME/.cache}/ambient-tests
work=$(mktemp -d "${TMPDIR:-/tmp}/ambient-bench.XXXXXX")
mkdir -p "$test_cache"
for part in report packages services docker; do
    # shellcheck source=/dev/null
    . "$root/tests/lib/$part.sh"
done
clean_up() {
    local status=$?
    trap - EXIT
    stop_docker
    rm -rf "$work"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if command -v mold >/dev/null; then
    export RUSTFLAGS="${RUSTFLAGS:--C link-arg=-fuse-ld=mold}"
fi
built=$(cargo metadata --format-version 1 --no-deps --locked \
    | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/release
if [ -z "${BINARY:-}" ]; then
    cargo build --release --locked --bin ambientctl
    BINARY=$built/ambientctl
fi
cargo build --release --locked -p ambient-bench

words=("$@")
case " $* " in
    *" --only "*operator* | *" --only=operator"* | *" --only="*,operator*) wants_docker=1 ;;
    *" --only"*) wants_docker= ;;
    *) wants_docker=1 ;;
esac
if [ -n "$wants_docker" ]; then
    install_packages
    install_compose
    start_docker
    DOCKER_HOST=unix://$AMBIENT_TEST_DOCKER tests/installer/images.sh "$BINARY" "$test_cache/docker-packages"
    words+=(--docker "$AMBIENT_TEST_DOCKER" --compose "$AMBIENT_TEST_COMPOSE")
fi

clip=$work/clip.mp4
examples/sample_video.sh "$clip"
ulimit -n 8192 # a thousand streams, on either side
"$built/ambient-bench" run --binary "$BINARY" --clip "$clip" ${words[@]+"${words[@]}"}
