# Checks that go on after one has failed, and their count. Sourced by the journeys, which set `work`.

passed=0
failed=0

# check NAME COMMAND…   what the command says is shown only when it fails.
check() {
    local name=$1
    shift
    if "$@" >"$work/check.log" 2>&1; then
        passed=$((passed + 1))
        echo "ok     $name"
    else
        failed=$((failed + 1))
        echo "FAILED $name"
        sed 's/^/       /' "$work/check.log" | tail -n 30
    fi
}

refuses() { ! "$@"; }

# The last line, and whether all went well.
counted_checks() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}
