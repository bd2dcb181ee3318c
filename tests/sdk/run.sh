#!/bin/sh
# The official Anthropic SDK against a running engine.
#   tests/sdk/run.sh BASE_URL API_KEY VIDEO_FILE        e.g. tests/sdk/run.sh http://127.0.0.1:8080 dev-token clip.mp4
# The engine has to use http://127.0.0.1:$FAKE_LLM_PORT/v1 (18099) as its chat-completions endpoint, for the agent
# and for the video model; the kit starts the scripted model there itself, or uses one that already runs.
# Environment: KIT_GROUP=core,llm,wire  KIT_ONLY=name,name  KIT_TRACE=1  KIT_TIMES=1  KIT_CASE_SECONDS=30
#   SDK_VERSION=2.14.0  KIT_VENV=folder  KIT_BASH_TOOL=name  FAKE_LLM_PORT  FAKE_LLM_LOG
# Prints `ok NAME` or `FAIL NAME: why` a case, then `N passed, M failed`; status 1 when any failed.
set -eu
here=$(cd -- "$(dirname -- "$0")" && pwd)
version=${SDK_VERSION:-2.14.0}
venv=${KIT_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/ambient-tests/anthropic-$version}
if ! "$venv/bin/python" -c "import anthropic, sys; sys.exit(anthropic.__version__ != '$version')" 2>/dev/null; then
    rm -rf "$venv"
    python3 -m venv "$venv" >&2
    "$venv/bin/pip" install --quiet --disable-pip-version-check "anthropic==$version" >&2
fi
unset ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL ANTHROPIC_CUSTOM_HEADERS ANTHROPIC_PROFILE || true
NO_PROXY=127.0.0.1,localhost,${NO_PROXY:-}; export NO_PROXY
PYTHONDONTWRITEBYTECODE=1; export PYTHONDONTWRITEBYTECODE
exec "$venv/bin/python" "$here/kit.py" "$@"
