#!/usr/bin/env bash
# Pulling from a real registry, Debian's docker-registry on loopback: open, and with a password.
#
#     tests/installer/registry.sh PROGRAM WORK
#
# Needs DOCKER_HOST, and the image ambient-test:1. Ends with `N passed, N failed`.
set -euo pipefail

program=$(realpath "${1:?the ambientctl to try}")
work=${2:?a folder to work in}
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
project=registry-$$
password=canary-$$-5e0c
said=$work/said
# shellcheck source=tests/installer/checks.sh
. "$root/tests/installer/checks.sh"
# shellcheck source=tests/lib/services.sh
. "$root/tests/lib/services.sh"
die() { echo "$*" >&2; exit 1; }

registries=()
clean_up() {
    kill "${registries[@]}" 2>/dev/null || true
    docker ps --all --quiet --filter "label=com.docker.compose.project=$project" | xargs -r docker rm --force >/dev/null || true
    docker network rm "${project}_default" >/dev/null 2>&1 || true
    docker images --format '{{.Repository}} {{.ID}}' | sed -n 's|.*/ambient/layers ||p' | xargs -r docker rmi --force >/dev/null 2>&1 || true
}
trap clean_up EXIT

# serve NAME AUTH   a registry; its host and port go into the variable NAME.
serve() {
    local port
    port=$(free_port)
    mkdir -p "$work/$1"
    cat >"$work/$1.yml" <<CONFIG
version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: $work/$1}}
http: {addr: "127.0.0.1:$port"}
$2
CONFIG
    docker-registry serve "$work/$1.yml" >"$work/$1.log" 2>&1 &
    registries+=($!)
    until_true 30 "the registry $1 answers" curl --silent --output /dev/null "http://127.0.0.1:$port/v2/"
    printf -v "$1" '%s' "127.0.0.1:$port"
}

htpasswd -Bbn ann "$password" >"$work/htpasswd"
serve open ""
serve closed "auth: {htpasswd: {realm: tests, path: $work/htpasswd}}"

# An image of several layers, in both.
login=$work/login
mkdir -p "$login" "$work/image"
docker --config "$login" login --username ann --password-stdin "$closed" <<<"$password" >/dev/null 2>&1
new_image() {
    {
        echo "FROM ambient-test:1"
        for layer in 1 2 3; do
            head -c 400000 /dev/urandom >"$work/image/layer$layer"
            echo "COPY layer$layer /"
        done
    } >"$work/image/Dockerfile"
    DOCKER_BUILDKIT=0 docker build --quiet --tag "$open/ambient/layers:1" "$work/image" >/dev/null 2>&1
    docker tag "$open/ambient/layers:1" "$closed/ambient/layers:1"
    docker push --quiet "$open/ambient/layers:1" >/dev/null
    docker --config "$login" push --quiet "$closed/ambient/layers:1" >/dev/null
    forget
}
forget() { docker rmi --force "$open/ambient/layers:1" "$closed/ambient/layers:1" >/dev/null 2>&1 || true; }
new_image

stack() {
    mkdir -p "$work/$1"
    cat >"$work/$1/docker-compose.yml" <<STACK
name: $project
services:
  engine: {image: "$2/ambient/layers:1", command: [sleep, "1000"], stop_signal: SIGKILL}
STACK
}
stack from-open "$open"
stack from-closed "$closed"

helpers=$work/helpers
mkdir -p "$helpers" "$work/none" "$work/helper" "$work/broken"
cat >"$helpers/docker-credential-tests" <<HELPER
#!/bin/sh
read -r server
[ "\$1 \$server" = "get $closed" ] || { echo "credentials not found in native keychain"; exit 1; }
echo '{"ServerURL": "$closed", "Username": "ann", "Secret": "$password"}'
HELPER
chmod 0755 "$helpers/docker-credential-tests"
echo '{"credHelpers": {"'"$closed"'": "tests"}}' >"$work/helper/config.json"
echo '{"credsStore": "nowhere"}' >"$work/broken/config.json"

# ambientctl CONFIGURATION WORDS…
ambientctl() {
    local configuration=$1
    shift
    env -i HOME="$work" PATH="$helpers:$PATH" DOCKER_HOST="$DOCKER_HOST" DOCKER_CONFIG="$work/$configuration" TERM=xterm \
        "$program" "$@" 2>&1 | tee -a "$said" "$work/last"
    return "${PIPESTATUS[0]}"
}
tells() { grep -qF -- "$1" "$work/last" || { cat "$work/last"; false; }; }
engine() { docker ps --quiet --no-trunc --filter "name=^$project-engine-1$"; }
gone() { docker ps --all --quiet --filter "label=com.docker.compose.project=$project" | xargs -r docker rm --force >/dev/null; : >"$work/last"; forget; }

check "what is missing is pulled" ambientctl none start --dir "$work/from-open"
check "and said in a line each" tells "image $open/ambient/layers:1: pulled"
check "and it runs" test -n "$(engine)"

# On a terminal, every layer has a bar of its own.
gone
screen() {
    env -i HOME="$work" PATH="$PATH" DOCKER_HOST="$DOCKER_HOST" TERM=xterm \
        script --quiet --return --command "stty cols 100; '$program' start --dir '$work/from-open'" "$work/screen"
}
check "on a terminal too" screen
layers=$(curl --silent --header 'Accept: application/vnd.docker.distribution.manifest.v2+json' \
    "http://$open/v2/ambient/layers/manifests/1" \
    | python3 -c 'import json, sys; print(*(layer["digest"][7:19] for layer in json.load(sys.stdin)["layers"]))')
check "an image has its layers" test "$(wc -w <<<"$layers")" -ge 4
for layer in $layers; do
    check "the layer $layer is shown" grep -qF "$layer" "$work/screen"
done

# A tag that was moved.
before=$(engine)
check "an update without news touches nothing" ambientctl none update --dir "$work/from-open"
check "so the container is the same" test "$(engine)" = "$before"
new_image
check "a moved tag is pulled by an update" ambientctl none update --dir "$work/from-open"
check "and makes the container anew" test "$(engine)" != "$before"

gone
check "without a login a closed registry refuses" refuses ambientctl none start --dir "$work/from-closed"
check "in its own words" tells "no basic auth credentials"
check "with the way out" tells "a private registry needs \`docker login\` first"
check "and nothing was made" test -z "$(docker ps --all --quiet --filter "label=com.docker.compose.project=$project")"
gone
check "a broken helper is told when it may be the reason" refuses ambientctl broken start --dir "$work/from-closed"
check "by its name" tells "docker-credential-nowhere"
gone
check "and is no reason not to pull what is open" ambientctl broken start --dir "$work/from-open"
gone
check "a login is used" ambientctl login start --dir "$work/from-closed"
check "and it runs" test -n "$(engine)"
gone
check "a credential helper is asked" ambientctl helper start --dir "$work/from-closed"
check "and it runs" test -n "$(engine)"
check "the password is in nobody's words" refuses grep -qF -- "$password" "$said"
counted_checks
