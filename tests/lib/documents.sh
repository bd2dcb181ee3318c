#!/usr/bin/env bash
# The seed's two scripts as they stand in examples/, then every command block of the documents.
#
# Both name http://127.0.0.1:8080, so this runs where that port is free: see `on_port_8080` in tests/run.sh.
# Needs from its caller: binary, python (with the SDK), work.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tests/lib/report.sh
. "$root/tests/lib/report.sh"
# shellcheck source=tests/lib/engine.sh
. "$root/tests/lib/engine.sh"

scripts_passed=0
scripts_failed=0

# script NAME EXPECTED   runs an example beside clip.mp4; its stdout has to be this.
script() {
    local printed
    if printed=$("$python" "$root/examples/$1" 2>"$work/script.log") && [ "$printed" = "$2" ]; then
        scripts_passed=$((scripts_passed + 1))
        echo "ok examples/$1"
    else
        scripts_failed=$((scripts_failed + 1))
        printf 'FAIL examples/%s printed\n%s\n' "$1" "$printed"
        cat "$work/script.log"
    fi
}

reader=$(mktemp -d "$work/reader.XXXXXX")
cd "$reader"
"$root/examples/sample_video.sh" clip.mp4
ln -s "$root/examples" examples
export PYTHONDONTWRITEBYTECODE=1 no_proxy=127.0.0.1,localhost NO_PROXY=127.0.0.1,localhost

start_model
start_engine -- --port 8080
ready="idle
{'backend': 'inprocess', 'status': 'ready', 'id': None}"
script verify_sandbox.py "$ready"
script boot_error.py "$ready"
stop_all
step_processes=()

start_stand_in
export LLM_BASE_URL=$model_url LLM_API_KEY=test AMBIENT_HOME=$reader/home MODEL_CATALOGUE_URL=
export PATH="$(dirname -- "$binary"):$(dirname -- "$python"):$PATH"
# The quickstart starts the engine that the others go on with.
mapfile -t others < <(find "$root/docs" -name '*.md' ! -name sdk-quickstart.md | sort)
status=0
"$python" "$root/tests/lib/documents.py" "$root/README.md" "$root/docs/sdk-quickstart.md" "${others[@]}" | tee "$work/documents.log" || status=$?
counted_line=$(tail -n 1 "$work/documents.log")
passed=$((scripts_passed + $(sum_of '([0-9]+) passed' "$counted_line")))
failed=$((scripts_failed + $(sum_of '([0-9]+) failed' "$counted_line")))
echo "$passed passed, $failed failed"
[ "$status" = 0 ] && [ "$failed" = 0 ]
