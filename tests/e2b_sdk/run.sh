#!/usr/bin/env bash
# The official E2B Python SDK, unmodified, against a fresh `ambientctl sandboxd`.
#   tests/e2b_sdk/run.sh BINARY DATA_FOLDER [PYTEST_WORD…]
# DATA_FOLDER may stay between runs: the root of the template `base` in it costs a minute of debootstrap once. Sandboxes do not outlive
# a run, and templates of earlier runs have names that no case asks for. Needs root. E2B_PYTHON names a Python that has e2b and pytest.
# Ends with `N passed, N failed`.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
binary=$1 data=$2
shift 2
log=$(mktemp "${TMPDIR:-/tmp}/sandboxd.XXXXXX")
export E2B_API_KEY=e2b_0123456789abcdef0123456789abcdef01234567
export E2B_API_KEY_2=e2b_fedcba9876543210fedcba9876543210fedcba98
export SANDBOXD_MOST=12
export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost PYTHONDONTWRITEBYTECODE=1
unset E2B_DEBUG E2B_DOMAIN E2B_ACCESS_TOKEN || true

host=
clean_up() {
    local status=$?
    trap - EXIT
    if [ -n "$host" ]; then
        kill -TERM "$host" 2>/dev/null || true
        wait "$host" 2>/dev/null || true
    fi
    if [ "$status" != 0 ]; then
        printf '\n--- the end of the log of the host\n' >&2
        tail -n 40 "$log" >&2
    fi
    rm -f "$log" "$log.out"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

: >"$log.out"
"$binary" sandboxd --listen 127.0.0.1:0 --key "$E2B_API_KEY" --key "$E2B_API_KEY_2" --data-dir "$data" \
    --max-sandboxes "$SANDBOXD_MOST" >"$log.out" 2>"$log" &
host=$!
for _ in $(seq 6000); do
    if [ -s "$log.out" ]; then break; fi
    kill -0 "$host" 2>/dev/null || { echo "the host did not start" >&2; exit 1; }
    sleep 0.1
done
url=$(sed -n '1s/.* //p' "$log.out")
export E2B_API_URL=$url E2B_SANDBOX_URL=$url

status=0
"${E2B_PYTHON:-python3}" -m pytest "$here" -p no:cacheprovider --timeout 120 -q --tb short "$@" || status=$?
if grep -nE 'panicked|ended in a panic' "$log"; then
    echo "the log of the host tells of a bug of ours" >&2
    status=1
fi
# A clean stop leaves no process, no mount and no rule behind.
kill -TERM "$host"
wait "$host" || { echo "the host did not stop cleanly" >&2; status=1; }
host=
if [ -n "$(ls -A "$data/s")" ]; then
    echo "files of sandboxes are left in $data/s" >&2
    status=1
fi
exit "$status"
