# The shipped binary and the scripted model, started for one step. Sourced by tests/run.sh, which sets `binary` and `work`.
# Meant for the shell of a step: what was started ends with that shell.

step_processes=()

stop_all() {
    local process
    for process in ${step_processes[@]+"${step_processes[@]}"}; do
        kill -TERM "$process" 2>/dev/null || true
    done
    for process in ${step_processes[@]+"${step_processes[@]}"}; do
        wait "$process" 2>/dev/null || true
    done
}

# first_line FILE PROCESS   waits for the first line that a process prints into a file.
first_line() {
    local tries=0
    until [ "$(wc -l <"$1")" -ge 1 ]; do
        kill -0 "$2" 2>/dev/null || return 1
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || return 1
        sleep 0.1
    done
    head -n 1 "$1"
}

# start_model   the scripted model; sets model_url, and FAKE_LLM_PORT for the kit.
start_model() {
    local out=$work/model.out
    trap stop_all EXIT
    : >"$out"
    python3 "$root/tests/sdk/fake_llm.py" --port 0 --log "$work/model.jsonl" >"$out" 2>"$work/model.log" &
    step_processes+=($!)
    model_url=$(first_line "$out" $! | cut -d' ' -f3) || { cat "$work/model.log" >&2; die "the scripted model did not start"; }
    FAKE_LLM_PORT=$(sed 's|.*:\([0-9]*\)/v1$|\1|' <<<"$model_url")
    export FAKE_LLM_PORT
}

# start_stand_in   the model of the examples, which calls tools of itself; sets model_url.
start_stand_in() {
    local out=$work/stand_in.out
    trap stop_all EXIT
    : >"$out"
    python3 "$root/examples/stand_in_model.py" >"$out" 2>"$work/stand_in.log" &
    step_processes+=($!)
    model_url=$(first_line "$out" $!) || { cat "$work/stand_in.log" >&2; die "the stand-in did not start"; }
}

# start_engine [NAME=VALUE…] [-- WORD…]   the engine in an empty home, with the model of start_model; sets engine_url and
# engine_process. WORDs go to `ambientctl serve`; without any it takes a free port.
start_engine() {
    local settings=() words=(--port 0) out log
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    if [ $# -gt 0 ]; then
        shift
        words=("$@")
    fi
    trap stop_all EXIT
    engine_home=$(mktemp -d "$work/home.XXXXXX")
    out=$engine_home/stdout
    log=$engine_home/stderr
    : >"$out"
    (
        cd "$engine_home"
        exec env -u DATABASE_URL -u REDIS_URL AMBIENT_HOME="$engine_home/data" RUST_LOG="${RUST_LOG:-info}" \
            LLM_BASE_URL="$model_url" LLM_API_KEY=test AGENT_BASE_URL="$model_url" AGENT_API_KEY=test \
            MODEL_CATALOGUE_URL= ${settings[@]+"${settings[@]}"} "$binary" serve "${words[@]}"
    ) >"$out" 2>"$log" &
    engine_process=$!
    step_processes+=("$engine_process")
    engine_url=$(first_line "$out" "$engine_process") || { cat "$log" >&2; die "the engine did not start"; }
    engine_url=${engine_url##* }
}

# start_round_robin URL…   one address for several engines; sets round_robin_url.
start_round_robin() {
    local out=$work/round_robin.out
    : >"$out"
    python3 "$root/tests/lib/round_robin.py" "$@" >"$out" 2>"$work/round_robin.log" &
    step_processes+=($!)
    round_robin_url=$(first_line "$out" $!) || { cat "$work/round_robin.log" >&2; die "the balancer did not start"; }
}

# The end of the engine's log, for a step that failed.
engine_log() {
    printf '\n--- the end of the log of the engine\n' >&2
    tail -n "${1:-40}" "$engine_home/stderr" >&2
}

# No panic and no internal error may stand in the log of an engine that was only used, or misused.
log_is_clean() {
    if grep -nE 'panicked|internal error' "$engine_home/stderr" | head -n 20 | grep .; then
        echo "the log of the engine tells of a bug of ours" >&2
        return 1
    fi
}
