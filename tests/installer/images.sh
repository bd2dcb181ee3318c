#!/usr/bin/env bash
# The three images of the shipped stack, made from Debian's packages where no registry is reached.
#
#     tests/installer/images.sh PROGRAM CACHE
#
# Needs `docker` with DOCKER_HOST set. CACHE keeps the packages' files from run to run. The images carry the names that
# `compose/docker-compose.yml` asks for; the engine's is ambient-test-engine:latest, laid out as compose/Dockerfile does.
set -euo pipefail

program=${1:?the ambientctl to put into the image of the engine}
cache=${2:?the folder to keep packages in}
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ambient-images.XXXXXX")
trap 'rm -rf "$work"' EXIT

# base NAME PACKAGES   a minimal Debian with these packages, as an archive; prints its path.
base() {
    local archive=$cache/$1.tar
    if [ ! -s "$archive" ]; then
        mkdir -p "$cache"
        debootstrap --variant=minbase --include="$2" bookworm "$work/$1" http://deb.debian.org/debian >"$work/$1.log" 2>&1 \
            || { tail -n 20 "$work/$1.log" >&2; exit 1; }
        rm -rf "$work/$1"/var/cache/apt/*.bin "$work/$1"/var/cache/apt/archives/*.deb "$work/$1"/var/lib/apt/lists/*
        tar -C "$work/$1" -c . >"$archive.unfinished"
        mv "$archive.unfinished" "$archive"
    fi
    printf '%s\n' "$archive"
}

has() { docker image inspect "$1" >/dev/null 2>&1; }

services=$(base services ca-certificates,postgresql,redis-server,ffmpeg)
has ambient-test-base:1 || docker import "$services" ambient-test-base:1 >/dev/null

# build TAG FILES…   from the Dockerfile on stdin.
build() {
    local tag=$1 folder=$work/context
    shift
    rm -rf "$folder"
    mkdir -p "$folder"
    cat >"$folder/Dockerfile"
    [ $# = 0 ] || cp "$@" "$folder/"
    DOCKER_BUILDKIT=0 docker build --quiet --tag "$tag" "$folder" >"$work/build.log" 2>&1 || { cat "$work/build.log" >&2; exit 1; }
}

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

cp "$program" "$work/ambientctl"
build ambient-test-engine:latest "$work/ambientctl" <<'FILE'
FROM ambient-test-base:1
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /data ambient && install --directory --owner ambient --group ambient /data
COPY ambientctl /usr/local/bin/ambientctl
ENV SERVER_HOST=0.0.0.0 SERVER_PORT=8080 AMBIENT_HOME=/data HOME=/data
USER ambient
WORKDIR /data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=10s --retries=6 --start-period=60s CMD ["ambientctl", "health"]
ENTRYPOINT ["ambientctl"]
CMD ["serve"]
FILE
docker images --format '{{.Repository}}:{{.Tag}} {{.Size}}' | sort
