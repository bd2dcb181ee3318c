#!/usr/bin/env bash
# One installation from the first line to the last, with the shipped program, the shipped stack and a real Docker engine.
#
#     tests/installer/journey.sh PROGRAM WORK
#
# Needs DOCKER_HOST, and the images of images.sh. Installs from a local web server into a fresh home, changes settings, breaks
# the engine, upgrades, uninstalls, purges; and looks for a secret everywhere. Ends with `N passed, N failed`.
set -euo pipefail

program=$(realpath "${1:?the ambientctl to install}")
work=${2:?a folder to work in}
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
home=$work/home
project=journey
canary=canary-$$-7d1f
unset AMBIENT_DIR || true

# shellcheck source=tests/installer/checks.sh
. "$root/tests/installer/checks.sh"

clean_up() {
    kill "$server" 2>/dev/null || true
    docker ps --all --quiet --filter "label=com.docker.compose.project=$project" | xargs -r docker rm --force >/dev/null || true
    docker network rm "${project}_default" >/dev/null 2>&1 || true
    docker volume ls --quiet --filter "label=com.docker.compose.project=$project" | xargs -r docker volume rm >/dev/null || true
}
trap clean_up EXIT

mkdir -p "$home" "$work/site/latest"
BINARY=$program "$root/installer/release.sh" "$work/site/latest/download" >/dev/null
: >"$work/server.log"
python3 -u -m http.server 0 --bind 127.0.0.1 --directory "$work/site" >"$work/server.log" 2>&1 &
server=$!
until port=$(sed -n 's/.* port \([0-9]*\).*/\1/p' "$work/server.log") && [ -n "$port" ]; do
    kill -0 "$server"
    read -rt 0.1 <> <(:) || true
done
base=http://127.0.0.1:$port

# A docker command without its compose plugin, as some systems have it: nothing here may call it.
mkdir -p "$work/fake"
printf '#!/bin/sh\necho "unknown shorthand flag: d in -d" >&2\necho "$*" >>"%s/called"\nexit 125\n' "$work" >"$work/fake/docker"
chmod 0755 "$work/fake/docker"

# everything that is said goes into one file, in which the secret must not stand
said=$work/said
as_operator() {
    env -i HOME="$home" PATH="$home/.local/bin:$work/fake:$PATH" DOCKER_HOST="$DOCKER_HOST" TERM=dumb "$@" 2>&1 | tee -a "$said"
    return "${PIPESTATUS[0]}"
}
install_it() {
    curl --fail --silent "$base/latest/download/install.sh" | as_operator AMBIENT_DOWNLOAD_BASE="$base" \
        AMBIENT_PROJECT="$project" AMBIENT_ENGINE_IMAGE=ambient-test-engine AMBIENT_SKIP_PULL=1 "$@" sh -s -- --yes
}
ambientctl() { as_operator ambientctl "$@"; }
value() { ambientctl config get "$1"; }
engine() { docker ps --quiet --no-trunc --filter "name=^${project}-engine-1$"; }
inside() { docker inspect --format '{{range .Config.Env}}{{println .}}{{end}}' "$(engine)" | grep -qxF -- "$1"; }
env_file=$home/.ambient/.env

check "a one-line installation becomes healthy" \
    install_it AMBIENT_LLM_KEY="$canary" AMBIENT_LLM_BASE_URL=http://127.0.0.1:9/v1
check "no compose plugin is needed, and that is said" grep -qF "neither its command nor its compose plugin is needed" "$said"
check "nor was the command called" test ! -e "$work/called"
check "the engine answers where it says" curl --fail --silent "$(ambientctl open --print)/v1/healthz"
check "everything is well" ambientctl status
check ".env is private" test "$(stat -c %a "$env_file")" = 600
check "the folder is private" test "$(stat -c %a "$home/.ambient")" = 700
check "the program is linked" test -x "$home/.local/bin/ambientctl"
check "the secret reaches the engine" inside "LLM_API_KEY=$canary"

before=$(engine)
check "a value that is so already" ambientctl config set LLM_API_KEY - <<<"$canary"
check "touches nothing" test "$(engine)" = "$before"
check "a change is applied" ambientctl config set 'LLM_MODEL=new/model' MAX_CLIPS_PER_PROMPT=3
check "and reaches the engine" inside MAX_CLIPS_PER_PROMPT=3
check "in a new container" test "$(engine)" != "$before"
before=$(engine) env_before=$(sha256sum <"$env_file")
check "a change that breaks the engine is refused" refuses ambientctl config set --force SERVER_WORKERS=many
check "the old container runs again" test "$(engine)" = "$before"
check "the old settings are back" test "$(sha256sum <"$env_file")" = "$env_before"
check "everything is well again" ambientctl status

# An upgrade: somebody's own keys, comments and override stay.
printf '\n# my own\nMY_OWN=1\n' >>"$env_file"
check "the E2B block of the documents" ambientctl config set SANDBOX_WALL_SECONDS=900
override=$(cat "$home/.ambient/docker-compose.override.yml")
cp "$env_file" "$work/env"
echo "# by hand" >>"$home/.ambient/docker-compose.yml"
check "an installation over the first one" install_it
check "says that a hand-edited compose file is kept aside" grep -qF "was edited by hand and is written anew" "$said"
check "where it is" grep -qxF "# by hand" "$home"/.ambient/backups/docker-compose.yml.*
check "and not in the new one" refuses grep -qxF "# by hand" "$home/.ambient/docker-compose.yml"
check "keeps every line of .env" diff "$work/env" "$env_file"
check "keeps the override" test "$(cat "$home/.ambient/docker-compose.override.yml")" = "$override"
check "keeps the settings" inside SANDBOX_WALL_SECONDS=900
if [ -n "${AMBIENT_TEST_COMPOSE:-}" ]; then
    before=$(docker ps --quiet --filter "label=com.docker.compose.project=$project" | sort)
    check "docker compose takes it as its own" env -i HOME="$home" DOCKER_HOST="$DOCKER_HOST" "$AMBIENT_TEST_COMPOSE" \
        --project-directory "$home/.ambient" up --detach --wait
    after=$(docker ps --quiet --filter "label=com.docker.compose.project=$project" | sort)
    check "and makes nothing anew" test "$before" = "$after"
fi

# A database without its password.
mv "$env_file" "$work/env"
check "a lost password stops an installation" refuses install_it
check "which says the two ways out" grep -q 'docker volume rm journey_postgres-data' "$said"
mv "$work/env" "$env_file"

# With every log on, the secret is in nobody's words, in no label and in no layer.
check "all logs on" ambientctl config set RUST_LOG=trace
everything() {
    docker ps --all --quiet --filter "label=com.docker.compose.project=$project" | while read -r container; do
        docker logs "$container" 2>&1
        docker inspect --format '{{json .Config.Labels}} {{json .Config.Cmd}} {{json .State}} {{json .HostConfig}} {{.Name}}' "$container"
        docker top "$container" -eo pid,args
    done
    docker history --no-trunc ambient-test-engine:latest
    ps -eo args
}
everything >"$work/everything"
check "there is much to look through" test "$(wc -c <"$work/everything")" -gt 10000
check "the secret is in no log, no label, no list of processes" refuses grep -qF -- "$canary" "$work/everything"
check "only the engine has it in its environment" test "$(docker ps --all --quiet --filter "label=com.docker.compose.project=$project" \
    | xargs docker inspect --format '{{.Name}} {{json .Config.Env}}' | grep -F -- "$canary" | cut -d' ' -f1)" = "/$project-engine-1"

check "the secret is in nobody's words" refuses grep -qF -- "$canary" "$said"
check "nor in any file but .env and its backups" test -z "$(grep -rlF -- "$canary" "$home" | grep -vE '/\.ambient/(\.env|backups/\.env\.[0-9]+)$')"

check "uninstalling" ambientctl uninstall
check "leaves no container" test -z "$(docker ps --all --quiet --filter "label=com.docker.compose.project=$project")"
check "and keeps the data" docker volume inspect "${project}_postgres-data"
check "starting again brings it back" ambientctl start
check "purging" ambientctl uninstall --purge --yes
check "leaves no data" refuses docker volume inspect "${project}_postgres-data"
check "and no files" test ! -e "$home/.ambient"

counted_checks
