# A host of sandboxes with three keys, for one script; nobody builds a template with the third. Sourced. The script calls `stop_host` at its end, whatever the end.

export E2B_API_KEY=e2b_0123456789abcdef0123456789abcdef01234567
export E2B_API_KEY_2=e2b_fedcba9876543210fedcba9876543210fedcba98
export E2B_API_KEY_3=e2b_00112233445566778899aabbccddeeff00112233
export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost PYTHONDONTWRITEBYTECODE=1
unset E2B_DEBUG E2B_DOMAIN E2B_ACCESS_TOKEN || true

host=
host_log=$(mktemp "${TMPDIR:-/tmp}/sandboxd.XXXXXX")

# start_host BINARY DATA_FOLDER [WORD…]   starts it and says where it is, as E2B's SDKs read it. SANDBOXD_DRIVER names what sandboxes are made of.
start_host() {
    local binary=$1 data=$2 driver=${SANDBOXD_DRIVER:-namespace} url
    shift 2
    : >"$host_log.out"
    # A careless shell left the machine's root open: no sandbox is to get at it.
    "$binary" sandboxd --listen 127.0.0.1:0 --key "$E2B_API_KEY" --key "$E2B_API_KEY_2" --key "$E2B_API_KEY_3" \
        --data-dir "$data" --driver "$driver" "$@" >"$host_log.out" 2>"$host_log" 9</ &
    host=$!
    host_data=$data
    for _ in $(seq 6000); do
        if [ -s "$host_log.out" ]; then break; fi
        kill -0 "$host" 2>/dev/null || { echo "the host did not start" >&2; return 1; }
        sleep 0.1
    done
    url=$(sed -n '1s/.* //p' "$host_log.out")
    export E2B_API_URL=$url E2B_SANDBOX_URL=$url
}

# A clean stop leaves no process, no mount and no rule behind, and the log of a host tells of no bug of ours.
end_host() {
    local status=0
    if grep -nE 'panicked|ended in a panic' "$host_log"; then
        echo "the log of the host tells of a bug of ours" >&2
        status=1
    fi
    kill -TERM "$host"
    wait "$host" || { echo "the host did not stop cleanly" >&2; status=1; }
    host=
    if [ -n "$(ls -A "$host_data/s")" ]; then
        echo "files of sandboxes are left in $host_data/s" >&2
        status=1
    fi
    return "$status"
}

# stop_host STATUS   for the script's exit: ends what still runs, and shows the log if the script failed.
stop_host() {
    if [ -n "$host" ]; then
        kill -TERM "$host" 2>/dev/null || true
        wait "$host" 2>/dev/null || true
    fi
    if [ "$1" != 0 ]; then
        printf '\n--- the end of the log of the host\n' >&2
        tail -n 40 "$host_log" >&2
    fi
    rm -f "$host_log" "$host_log.out"
}
