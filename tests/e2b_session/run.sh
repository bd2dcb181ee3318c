#!/usr/bin/env bash
# Whole sessions on sandboxes: the shipped template, engines with `SANDBOX_BACKEND=e2b`, a bucket that checks signatures, the scripted model,
# and a host of sandboxes on this machine. Driven by the official SDKs of Anthropic and E2B.
#   tests/e2b_session/run.sh BINARY DATA_FOLDER VIDEO [PYTEST_WORD…]
# DATA_FOLDER may stay between runs: the steps of the template that have not changed are not done again. Needs root, and in the environment:
#   E2B_PYTHON          a Python with anthropic, e2b and pytest
#   E2B_BUCKET          the program that serves the bucket: `cargo build --workspace --example serve`
#   SESSION_DATABASE    an empty PostgreSQL database      SESSION_REDIS    a Redis database
# Ends with `N passed, N failed`.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lib/sandboxd.sh
. "$here/../lib/sandboxd.sh"
binary=$1 data=$2 video=$3
shift 3

clean_up() {
    local status=$?
    trap - EXIT
    stop_host "$status"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# The bucket is on the loopback of this machine, which sandboxes reach on the host's network alone.
start_host "$binary" "$data" --network host
export AMBIENTCTL=$binary SANDBOXD_DATA=$data SESSION_VIDEO=$video
status=0
PYTHONPATH=$here/../lib "${E2B_PYTHON:-python3}" -m pytest "$here" -p pytest_counts -p no:cacheprovider --timeout 170 -q --tb short --durations 5 "$@" || status=$?
end_host || status=1
exit "$status"
