#!/usr/bin/env bash
# Every test of the project.
#
#     ./tests/run.sh
#
# Installs what the tests need (Debian's ffmpeg, PostgreSQL, Redis, Docker with a registry, sshd and mold; cargo-nextest; Python packages in
# folders of their own), starts PostgreSQL, Redis and, where none answers, Docker for this run, checks and tests the workspace, then drives the release binary with
# the official SDK, a fuzzer, the documents and the quickstart. Ends with `N passed, N failed`, leaves nothing running.
# STEPS=pattern runs only the steps whose names match this extended regular expression.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
test_cache=${XDG_CACHE_HOME:-$HOME/.cache}/ambient-tests
work=$(mktemp -d "${TMPDIR:-/tmp}/ambient-tests.XXXXXX")
mkdir -p "$test_cache"

for part in report packages services docker engine; do
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

# The SDK of the examples, and older ones, each from before a change of the wire.
sdk=$(sed -n 's/^anthropic==//p' examples/requirements.txt)
older_sdks=(1.17.0 0.105.2 0.92.0)
e2b_sdk=2.63.0
mcp_sdk=2.3.0
schemathesis=4.32.5
fuzz_seconds=90

export CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never INSTA_UPDATE=no PYTHONDONTWRITEBYTECODE=1
export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost
unset SERVER_HOST SERVER_PORT API_KEY AMBIENT_HOME DATABASE_URL REDIS_URL SANDBOX_BACKEND S3_BUCKET || true
unset LLM_BASE_URL LLM_API_KEY AGENT_BASE_URL AGENT_API_KEY || true

# --- steps ----------------------------------------------------------------------------------------------------------

scripts_parse() {
    local script
    while read -r script; do
        bash -n "$script"
    done < <(git ls-files '*.sh' .ci/run)
    git ls-files '*.py' | python3 -c '
import ast, sys
for name in map(str.strip, sys.stdin):
    ast.parse(open(name, encoding="utf-8").read(), name)'
}

documentation_builds() {
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
}

release_binary() {
    cargo build --release --locked --bin ambientctl
    "$binary" --version
}

docker_tests='(binary_id(ambient-ctl::docker) or (binary_id(ambient::it) and test(/^container::/)))'

rust_tests() {
    counted cargo nextest run --workspace --locked --no-fail-fast -E "not $docker_tests"
}

rust_tests_on_docker() {
    counted cargo nextest run --workspace --locked --no-fail-fast -E "$docker_tests"
}

# sdk_kit VERSION GROUP [NAME=VALUE…]   the official SDK against an engine with these settings.
sdk_kit() {
    local version=$1 group=$2 status=0
    shift 2
    start_model
    start_engine "$@"
    SDK_VERSION=$version KIT_GROUP=$group counted "$root/tests/sdk/run.sh" "$engine_url" dev-token "$clip" || status=$?
    log_is_clean || status=1
    if [ "$status" != 0 ]; then engine_log; fi
    return "$status"
}

# Two engines over one PostgreSQL, one Redis and one video folder; each connection goes to the other engine than the one
# before. The database is for this step alone, so that nothing of another step is in it.
sdk_kit_on_two_engines() {
    local shared first second status=0
    "$(postgres_bin)/createdb" --host 127.0.0.1 --port "$postgres_port" --username ambient kit
    shared=(DATABASE_URL="${AMBIENT_TEST_POSTGRES_URL%/*}/kit" REDIS_URL="${AMBIENT_TEST_REDIS_URL%/*}/9" VIDEO_FOLDER="$work/shared-videos")
    mkdir -p "$work/shared-videos"
    start_model
    start_engine "${shared[@]}"
    first=$engine_url
    local first_home=$engine_home
    start_engine "${shared[@]}"
    second=$engine_url
    start_round_robin "$first" "$second"
    SDK_VERSION=$sdk KIT_GROUP=core,llm counted "$root/tests/sdk/run.sh" "$round_robin_url" dev-token "$clip" || status=$?
    log_is_clean || status=1
    if [ "$status" != 0 ]; then
        engine_log
        engine_home=$first_home engine_log
    fi
    return "$status"
}

# The official client of the Model Context Protocol against `ambientctl mcp`, with an engine of its own and with a running one.
mcp_client() {
    local python status=0
    python=$(python_with "mcp-$mcp_sdk" "mcp==$mcp_sdk")
    start_model
    start_engine
    counted "$python" tests/mcp/cases.py "$binary" "$clip" "$model_url" "$engine_url" dev-token || status=$?
    log_is_clean || status=1
    if [ "$status" != 0 ]; then engine_log; fi
    return "$status"
}

# Odd and broken requests made from the API description: whatever is sent, no answer is a 5xx.
fuzz() {
    local st status=0
    st=$(dirname -- "$(python_with schemathesis "schemathesis==$schemathesis")")/st
    start_model
    start_engine
    cd "$work"
    fuzz_part() {
        timeout $((fuzz_seconds + 120)) "$st" run "$engine_url/openapi.json" --header 'X-Api-Key: dev-token' \
            --checks not_a_server_error --request-timeout 10 --max-examples 25 --seed 20261130 --no-shrink --warnings off \
            --suppress-health-check all "$@"
    }
    # A stream of a session that is there does not end, so streams are asked for by random ids alone.
    fuzz_part --max-time "$fuzz_seconds" --exclude-path-regex '/stream$' || status=$?
    fuzz_part --include-path-regex '/stream$' --phases examples,coverage,fuzzing || status=$?
    log_is_clean || status=1
    if [ "$status" != 0 ]; then engine_log; fi
    return "$status"
}

# Runs a command where port 8080 is free: here, or else in a network of its own.
on_port_8080() {
    if python3 -c 'import socket; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", 8080))' 2>/dev/null; then
        "$@"
    elif [ "$(id -u)" = 0 ]; then
        unshare --net sh -c 'ip link set lo up && exec "$@"' sh "$@"
    else
        unshare --map-root-user --net sh -c 'ip link set lo up && exec "$@"' sh "$@"
    fi
}

documents() {
    local python
    python=$(python_with "anthropic-$sdk" "anthropic==$sdk")
    export binary python work
    counted on_port_8080 "$root/tests/lib/documents.sh"
}

# Twice in a row, the second time with what the first left; and nothing is left running.
quickstart() {
    local before after
    before=$(processes_of_quickstart)
    "$root/examples/quickstart.sh"
    "$root/examples/quickstart.sh" "What is to be seen at the end?"
    after=$(processes_of_quickstart)
    [ "$before" = "$after" ] || { printf 'left running:\n%s\n' "$after" >&2; return 1; }
}

# test_program NAME   a program of the workspace that tests of another language start; prints its path. It is of the same kind as the tests of the
# workspace, so that next to nothing is compiled for it.
test_program() {
    cargo build --workspace --locked --quiet --example "$1" >&2
    printf '%s\n' "$(dirname -- "$binary")/../debug/examples/$1"
}

# The official E2B SDK and our own client's stories against a host of sandboxes. The host's data folder stays between runs: the root of its base
# template, made with debootstrap, costs a minute once.
sandboxes() {
    local python contract
    python=$(python_with "e2b-$e2b_sdk" "e2b==$e2b_sdk" pytest==9.2.0 pytest-timeout==2.4.0)
    contract=$(test_program contract)
    counted as_root env E2B_PYTHON="$python" E2B_CONTRACT="$contract" tests/e2b_sdk/run.sh "$binary" "$test_cache/sandboxd"
}

# Sandboxes that are containers: the cases in which drivers could differ, and those of containers alone.
sandboxes_of_containers() {
    local python
    python=$(python_with "e2b-$e2b_sdk" "e2b==$e2b_sdk" pytest==9.2.0 pytest-timeout==2.4.0)
    counted as_root env E2B_PYTHON="$python" SANDBOXD_DRIVER=docker DOCKER_HOST="unix://$AMBIENT_TEST_DOCKER" \
        tests/e2b_sdk/run.sh "$binary" "$test_cache/sandboxd" tests/e2b_sdk/test_{lifecycle,commands,files,isolation,templates,containers}.py
}

# Whole sessions on that host, with its data folder: so the template is built anew only in what has changed.
sandbox_sessions() {
    local python bucket
    python=$(python_with "e2b-session-$sdk" "anthropic==$sdk" "e2b==$e2b_sdk" pytest==9.2.0 pytest-timeout==2.4.0)
    bucket=$(test_program serve)
    "$(postgres_bin)/createdb" --host 127.0.0.1 --port "$postgres_port" --username ambient e2b_session
    counted as_root env E2B_PYTHON="$python" E2B_BUCKET="$bucket" SESSION_DATABASE="${AMBIENT_TEST_POSTGRES_URL%/*}/e2b_session" \
        SESSION_REDIS="${AMBIENT_TEST_REDIS_URL%/*}/8" tests/e2b_session/run.sh "$binary" "$test_cache/sandboxd" "$clip"
}

# The install script alone, then a whole life of an installation on Docker.
install_script() {
    BINARY=$binary installer/release.sh "$work/release"
    mkdir -p "$work/install-script"
    counted python3 tests/installer/script.py "$work/release" "$work/install-script"
}

# A real registry, open and with a password.
pulling() {
    export DOCKER_HOST=unix://$AMBIENT_TEST_DOCKER
    rm -rf "${work:?}/registry"
    mkdir -p "$work/registry"
    counted tests/installer/registry.sh "$binary" "$work/registry"
}

# Engines that are reached over TLS and over ssh.
engines_elsewhere() {
    export DOCKER_HOST=unix://$AMBIENT_TEST_DOCKER
    rm -rf "${work:?}/elsewhere"
    mkdir -p "$work/elsewhere"
    counted tests/installer/elsewhere.sh "$binary" "$work/elsewhere"
}

installation() {
    export DOCKER_HOST=unix://$AMBIENT_TEST_DOCKER
    tests/installer/images.sh "$binary" "$test_cache/docker-packages"
    rm -rf "${work:?}/installation"
    mkdir -p "$work/installation"
    counted tests/installer/journey.sh "$binary" "$work/installation"
}

processes_of_quickstart() {
    ps -eo pid,args | grep -E 'ambient-quickstart|stand_in_model|ambientctl serve --port 0' | grep -v grep || true
}

# --- the run --------------------------------------------------------------------------------------------------------

chosen() { [[ $1 =~ ${STEPS:-.} ]]; }
maybe() { if chosen "$1"; then step "$@"; fi; }

say "What the tests need"
install_packages
install_rust_tools
install_compose
if command -v mold >/dev/null; then
    export RUSTFLAGS="${RUSTFLAGS:--C link-arg=-fuse-ld=mold}"
fi
binary=$(cargo metadata --format-version 1 --no-deps --locked \
    | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/release/ambientctl
clip=$work/clip.mp4
examples/sample_video.sh "$clip"
start_postgres
start_redis
start_docker

maybe "scripts parse" scripts_parse
maybe "format" cargo fmt --all -- --check
maybe "clippy" cargo clippy --workspace --all-targets --locked -- -D warnings
maybe "documentation builds" documentation_builds
maybe "tests of the workspace" rust_tests
maybe "tests of the workspace on Docker" on_docker rust_tests_on_docker
step "release binary" release_binary
if [ "$step_status" = 0 ]; then
    maybe "SDK $sdk: every case" sdk_kit "$sdk" core,llm
    maybe "SDK $sdk: what the model is sent" sdk_kit "$sdk" wire MAX_CLIPS_PER_PROMPT=2 MAX_FRAMES_PER_PROMPT=8
    maybe "SDK $sdk: two engines, PostgreSQL and Redis" sdk_kit_on_two_engines
    for version in "${older_sdks[@]}"; do
        maybe "SDK $version: what needs no model" sdk_kit "$version" core
    done
    maybe "MCP $mcp_sdk: the tool for other agents" mcp_client
    maybe "fuzzing the API: no 5xx" fuzz
    maybe "the seed's scripts and the documents' commands" documents
    maybe "quickstart, twice" quickstart
    maybe "E2B SDK $e2b_sdk on sandboxd" sandboxes
    maybe "E2B SDK $e2b_sdk on sandboxd's containers" on_docker sandboxes_of_containers
    maybe "sessions on sandboxd" sandbox_sessions
    maybe "the install script" install_script
    maybe "pulling from a registry" on_docker pulling
    maybe "engines over TLS and ssh" on_docker engines_elsewhere
    maybe "an installation, from the first line to the last" on_docker installation
fi
report
