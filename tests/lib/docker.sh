# A Docker engine for one run: the one that answers, else Debian's own, started here with its data under $work. Sourced by
# tests/run.sh.

# The command of the engine, for what the tests need besides ambientctl.
docker_command() {
    DOCKER_HOST=unix://$AMBIENT_TEST_DOCKER docker "$@"
}

start_docker() {
    AMBIENT_TEST_DOCKER=${AMBIENT_TEST_DOCKER:-/var/run/docker.sock}
    export AMBIENT_TEST_DOCKER
    if ! docker_command version >/dev/null 2>&1; then
        [ "$(id -u)" = 0 ] || die "no Docker engine answers at $AMBIENT_TEST_DOCKER, and starting one needs root"
        AMBIENT_TEST_DOCKER=$work/docker.sock
        : >"$work/docker-crashes"
        docker_engine "$test_cache/docker" >"$work/dockerd.log" 2>&1 &
        docker_keeper=$!
        until_true 60 "the Docker engine answers" docker_command version
    fi
    docker_command image inspect ambient-test:1 >/dev/null 2>&1 || test_image
    echo "Docker: $(docker_command version --format '{{.Server.Version}}') at $AMBIENT_TEST_DOCKER"
}

# docker_engine DATA   runs the engine until it is told to stop. Debian's dies now and then of a fault of its own (a map that is read
# while it is written, a network of a run that was cut off); it is started again, and what it died of is kept.
docker_engine() {
    local data=$1 engine
    # Two engines in one folder would break each other's networks: another run at the same time works in a folder of its own.
    mkdir -p "$data"
    exec 8>"$data.lock"
    flock -n 8 || data=$work/docker
    trap 'kill -TERM "$engine" 2>/dev/null; wait "$engine"; exit 0' TERM
    while :; do
        # Its images are kept from run to run, and nothing else.
        rm -rf "$data/network" "$data/containers" "$work/docker.pid"
        mkdir -p "$data"
        dockerd --data-root "$data" --exec-root "$work/docker-exec" --pidfile "$work/docker.pid" \
            --host "unix://$AMBIENT_TEST_DOCKER" --storage-driver overlay2 >"$work/dockerd.last" 2>&1 &
        engine=$!
        wait "$engine" || true
        cat "$work/dockerd.last"
        {
            echo "the Docker engine died:"
            grep -m1 -A12 -E '^(panic|fatal error|unexpected fault)' "$work/dockerd.last" || tail -n 8 "$work/dockerd.last"
        } >>"$work/docker-crashes"
        sleep 1
    done
}

# on_docker COMMAND…   runs a command that needs the engine; once more if it failed and the engine had died meanwhile.
on_docker() {
    local counts died status try
    counts=$(cat "$work/counts")
    for try in first second; do
        died=$(docker_deaths)
        set +e
        (set -euo pipefail; "$@")
        status=$?
        set -e
        if [ "$status" = 0 ] || [ "$(docker_deaths)" = "$died" ] || [ "$try" = second ]; then return "$status"; fi
        cat "$work/docker-crashes" >&2
        echo "so this begins anew" >&2
        until_true 60 "the Docker engine answers" docker_command version
        echo "$counts" >"$work/counts"
    done
}

docker_deaths() { wc -l 2>/dev/null <"$work/docker-crashes" || echo 0; }

# The image of the tests' services: a busybox under the names that they call.
test_image() {
    local root=$work/busybox name
    mkdir -p "$root"/{bin,tmp,data,etc,proc,sys,dev}
    cp "$(command -v busybox)" "$root/bin/busybox"
    for name in cat echo env false httpd id kill ls nc sh sleep tail test touch true wget; do
        ln -s busybox "$root/bin/$name"
    done
    echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
    tar -C "$root" -c . | docker_command import --change 'CMD ["sleep", "100000"]' - ambient-test:1
}

stop_docker() {
    [ -n "${docker_keeper:-}" ] || return 0
    # An engine that no longer answers is ended all the same.
    { docker_command ps --all --quiet 2>/dev/null || true; } | while read -r container; do
        docker_command rm --force --volumes "$container" >/dev/null 2>&1 || true
    done
    kill -TERM "$docker_keeper" 2>/dev/null || true
    wait "$docker_keeper" 2>/dev/null || true
}
