#!/usr/bin/env bash
# The official E2B Python SDK, unmodified, and the stories of our Rust client against a fresh `ambientctl sandboxd`.
#   tests/e2b_sdk/run.sh BINARY DATA_FOLDER [PYTEST_WORD…]
# DATA_FOLDER may stay between runs: the root of the template `base` in it costs a minute of debootstrap once. Sandboxes do not outlive
# a run, and templates of earlier runs have names that no case asks for. Needs root. E2B_PYTHON names a Python that has e2b and pytest,
# E2B_CONTRACT the program that tells the client's stories: `cargo build --workspace --example contract`. SANDBOXD_DRIVER names what sandboxes are
# made of; `docker` takes the engine of DOCKER_HOST, a socket.
# Ends with `N passed, N failed`.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lib/sandboxd.sh
. "$here/../lib/sandboxd.sh"
binary=$1 data=$2
shift 2
export SANDBOXD_MOST=12
AMBIENTCTL=$(realpath -- "$binary")
SANDBOXD_DATA=$data
export AMBIENTCTL SANDBOXD_DATA

clean_up() {
    local status=$?
    trap - EXIT
    stop_host "$status"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

start_host "$binary" "$data" --max-sandboxes "$SANDBOXD_MOST"
status=0
# Files of cases among the words choose those; else all are told.
if [[ " $* " != *.py* ]]; then set -- "$here" "$@"; fi
PYTHONPATH=$here/../lib "${E2B_PYTHON:-python3}" -m pytest -p pytest_counts -p no:cacheprovider --rootdir "$here" --timeout 120 -q --tb short "$@" || status=$?
end_host || status=1
exit "$status"
