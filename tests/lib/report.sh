# Steps, what they counted, and the summary at the end. Sourced by tests/run.sh, which sets `work`.

passed=0
failed=0
summary=()

say() { printf '\n==> %s\n' "$*"; }
die() { printf 'tests cannot go on: %s\n' "$*" >&2; exit 1; }

# step NAME COMMAND…   runs a command in a shell of its own, which ends at its first failure. It counts as one test, or as
# those that it counted itself. What comes after it runs all the same; its status is in `step_status`.
step() {
    local name=$1 began=$SECONDS good=0 bad=0 more_good more_bad verdict=ok
    shift
    say "$name"
    : >"$work/counts"
    set +e
    (set -euo pipefail; "$@")
    step_status=$?
    set -e
    while read -r more_good more_bad; do
        good=$((good + more_good))
        bad=$((bad + more_bad))
    done <"$work/counts"
    if [ "$step_status" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
    if [ $((good + bad)) = 0 ]; then good=1; fi
    if [ "$bad" != 0 ]; then verdict=FAILED; fi
    passed=$((passed + good))
    failed=$((failed + bad))
    summary+=("$(printf '%-7s%-56s%6d passed%5d failed%6ds' "$verdict" "$name" "$good" "$bad" $((SECONDS - began)))")
}

# counted COMMAND…   runs a command that ends with `N passed, N failed`, or with the summary of nextest, and counts those.
counted() {
    local log pipe reader status line good bad tries
    log=$(mktemp "$work/counted.XXXXXX")
    pipe=$log.pipe
    mkfifo "$pipe"
    tee "$log" <"$pipe" &
    reader=$!
    set +e
    "$@" >"$pipe" 2>&1
    status=$?
    set -e
    # Whatever it left running holds the pipe, and would hold this run.
    for tries in {1..100}; do
        kill -0 "$reader" 2>/dev/null || break
        sleep 0.1
    done
    if kill "$reader" 2>/dev/null; then
        echo "it left programs running that hold its output:" >&2
        fuser -v "$pipe" >&2 2>/dev/null || true
        [ "$status" != 0 ] || status=1
    fi
    wait "$reader" 2>/dev/null || true
    rm -f "$pipe"
    # Below its summary nextest shows the output of failed tests, with counts of their own in it.
    line=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | awk '
        /tests? run: [0-9]+ passed/ { summary = $0 }
        /^[0-9]+ passed, [0-9]+ failed/ { plain = $0 }
        END { print (summary != "" ? summary : plain) }')
    good=$(sum_of '([0-9]+) passed' "$line")
    bad=$(sum_of '([0-9]+) (failed|timed out|exec failed)' "$line")
    if [ "$status" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
    if [ "$status" = 0 ] && [ "$good" = 0 ]; then
        echo "it ended well, but counted no test" >&2
        bad=1
    fi
    echo "$good $bad" >>"$work/counts"
    return "$status"
}

# The sum of the numbers before these words in a line.
sum_of() {
    python3 -c 'import re, sys; print(sum(int(found[0] if isinstance(found, tuple) else found) for found in re.findall(sys.argv[1], sys.argv[2])))' "$1" "$2"
}

# The summary; its last line is the count. Fails when anything failed or nothing ran.
report() {
    say "Summary"
    printf '%s\n' ${summary[@]+"${summary[@]}"}
    printf '\n%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" = 0 ] && [ "$passed" != 0 ]
}
