#!/usr/bin/env bash
# The three images of the shipped stack, made from Debian's packages where no registry is reached.
#
#     tests/installer/images.sh PROGRAM CACHE
#
# Needs `docker` with DOCKER_HOST set. CACHE keeps packages' files from run to run. The images of the database and of Redis
# carry the names that `compose/docker-compose.yml` asks for. The engine's is ambient-test-engine:latest, built from
# `compose/Dockerfile` itself: with this PROGRAM, with the tools of the pinned versions from PyPI, and on a Debian of our own
# making under the name that the file asks for.
set -euo pipefail

program=${1:?the ambientctl to put into the image of the engine}
cache=${2:?the folder to keep packages in}
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
dockerfile=$here/../../compose/Dockerfile
work=$(mktemp -d "${TMPDIR:-/tmp}/ambient-images.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$cache"

has() { docker image inspect "$1" >/dev/null 2>&1; }

# quietly COMMAND…   shows what it says only when it fails.
quietly() { "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; exit 1; }; }

# base TAG NAME PACKAGES   a minimal Debian with these packages as an image.
base() {
    local archive=$cache/$2.tar
    if has "$1"; then return; fi
    if [ ! -s "$archive" ]; then
        quietly debootstrap --variant=minbase --include="$3" bookworm "$work/$2" http://deb.debian.org/debian
        rm -rf "$work/$2"/var/cache/apt/*.bin "$work/$2"/var/cache/apt/archives/*.deb "$work/$2"/var/lib/apt/lists/*
        tar -C "$work/$2" -c . >"$archive.unfinished"
        rm -rf "${work:?}/$2"
        mv "$archive.unfinished" "$archive"
    fi
    quietly docker import "$archive" "$1"
}

# build TAG FILES…   from the Dockerfile on stdin.
build() {
    local tag=$1 folder=$work/context
    shift
    rm -rf "$folder"
    mkdir -p "$folder"
    cat >"$folder/Dockerfile"
    [ $# = 0 ] || cp "$@" "$folder/"
    DOCKER_BUILDKIT=0 quietly docker build --tag "$tag" "$folder"
}

# A client with BuildKit: those before version 23 have it in them, later ones have it as their plugin buildx.
with_buildkit() {
    local client
    for client in docker /usr/bin/docker; do
        if "$client" buildx version >/dev/null 2>&1 \
            || [ "$("$client" version --format '{{.Client.Version}}' 2>/dev/null | cut -d. -f1)" -lt 23 ] 2>/dev/null; then
            DOCKER_BUILDKIT=1 "$client" "$@"
            return
        fi
    done
    echo "no docker command with BuildKit is here: install the package docker-buildx" >&2
    return 1
}

# pinned NAME   the version that the Dockerfile names.
pinned() { sed -n "s/^ARG $1=//p" "$dockerfile"; }

# tools FOLDER   deno and yt-dlp, as the Dockerfile would fetch them.
tools() {
    local deno yt_dlp kept
    deno=$(pinned DENO_VERSION) yt_dlp=$(pinned YT_DLP_VERSION)
    kept=$cache/tools-$deno-$yt_dlp
    if [ ! -d "$kept" ]; then
        quietly python3 -m venv "$work/venv"
        quietly "$work/venv/bin/pip" install --disable-pip-version-check --no-deps --no-compile --target "$work/deno" "deno==$deno"
        quietly "$work/venv/bin/pip" install --disable-pip-version-check --no-deps --no-compile --target "$work/yt-dlp" "yt-dlp==$yt_dlp"
        rm -rf "$work/yt-dlp"/{bin,share,*.dist-info}
        mkdir "$work/tools"
        install -m 0755 "$work/deno/bin/deno" "$work/tools/deno"
        quietly python3 -m zipapp --main yt_dlp:main --python '/usr/bin/env python3' --output "$work/tools/yt-dlp" "$work/yt-dlp"
        chmod 0755 "$work/tools/yt-dlp"
        mv "$work/tools" "$kept"
    fi
    mkdir -p "$1"
    cp "$kept"/* "$1/"
}

base ambient-test-base:1 services ca-certificates,postgresql,redis-server

build postgres:16-alpine "$here/postgres-entrypoint.sh" <<'FILE'
FROM ambient-test-base:1
COPY postgres-entrypoint.sh /usr/local/bin/
RUN ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/ 2>/dev/null; mkdir -p /var/lib/postgresql/data && chown postgres /var/lib/postgresql/data
ENV PGDATA=/var/lib/postgresql/data
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT ["postgres-entrypoint.sh"]
FILE

build redis:7-alpine <<'FILE'
FROM ambient-test-base:1
RUN mkdir -p /data
VOLUME /data
WORKDIR /data
# The official image answers other containers too.
ENTRYPOINT ["sh", "-c", "exec \"$@\" --protected-mode no", "redis"]
CMD ["redis-server"]
FILE

# With Python, since the yt-dlp of PyPI is no program of its own.
base debian:bookworm-slim slim python3-minimal,python3
mkdir "$work/engine"
cp "$program" "$work/engine/ambientctl"
tools "$work/engine/tools"
quietly with_buildkit build --file "$dockerfile" --tag ambient-test-engine:latest \
    --build-arg PROGRAM=given-program --build-arg TOOLS=given-tools "$work/engine"
for tool in "ambientctl --version" "deno --version" "yt-dlp --version" "ffmpeg -version"; do
    # shellcheck disable=SC2086  # a command and its word
    docker run --rm --entrypoint "${tool%% *}" ambient-test-engine:latest "${tool#* }" | sed -n 1p
done
docker images --format '{{.Repository}}:{{.Tag}} {{.Size}}' | sort
