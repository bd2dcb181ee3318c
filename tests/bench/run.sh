#!/usr/bin/env bash
# The figures of the shipped binary: start, memory, time per turn, streams, uploads, requests, clips, tiles, frames;
# the operator's tool beside Docker Compose; sandboxes, with our client beside the official SDK of E2B; and a look of `doctor` at all of that.
#
#     tests/bench/run.sh [--only start,turn,sessions,streams,upload,requests,operator,clips,tiles,frames,e2b,doctor] [--upload-bytes N]
#
# Builds the release binary and the measuring program, then prints a line a figure with its bound. Some minutes; nothing
# else should run meanwhile. Exit code 1 when a figure is out of bounds. The operator's figures need what the tests of an
# installation need: a Docker engine, started here where none answers, and its images, made here where they are missing. Those of sandboxes
# need root; those of `doctor` need all of that, and a PostgreSQL and a Redis, which are started here.
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
    stop_redis
    stop_postgres
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
# wants FIGURE   whether the words of the caller choose it.
wants() {
    case " ${words[*]-} " in
        *" --only "*"$1"* | *" --only="*"$1"*) return 0 ;;
        *" --only"*) return 1 ;;
    esac
}
if wants operator; then
    install_packages
    install_compose
    start_docker
    DOCKER_HOST=unix://$AMBIENT_TEST_DOCKER tests/installer/images.sh "$BINARY" "$test_cache/docker-packages"
    words+=(--docker "$AMBIENT_TEST_DOCKER" --compose "$AMBIENT_TEST_COMPOSE")
fi
if wants e2b; then
    install_packages
    words+=(--sandboxd-data "$test_cache/sandboxd" --e2b-python "$(python_with e2b-bench e2b==2.63.0)")
fi

if wants doctor; then
    install_packages
    wants operator || { start_docker; words+=(--docker "$AMBIENT_TEST_DOCKER"); }
    wants e2b || words+=(--sandboxd-data "$test_cache/sandboxd")
    start_postgres
    start_redis
    words+=(--postgres "$AMBIENT_TEST_POSTGRES_URL" --redis "$AMBIENT_TEST_REDIS_URL")
fi

clip=$work/clip.mp4
examples/sample_video.sh "$clip"
ulimit -n 8192 # a thousand streams, on either side
"$built/ambient-bench" run --binary "$BINARY" --clip "$clip" ${words[@]+"${words[@]}"}
