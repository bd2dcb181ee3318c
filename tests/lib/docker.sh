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
        # Its images are kept from run to run; all containers of a run are gone with it.
        docker_data=$test_cache/docker
        mkdir -p "$docker_data"
        dockerd --data-root "$docker_data" --exec-root "$work/docker-exec" --pidfile "$work/docker.pid" \
            --host "unix://$AMBIENT_TEST_DOCKER" --storage-driver overlay2 >"$work/dockerd.log" 2>&1 &
        docker_process=$!
        until_true 60 "the Docker engine answers" docker_command version
    fi
    docker_command image inspect ambient-test:1 >/dev/null 2>&1 || test_image
    echo "Docker: $(docker_command version --format '{{.Server.Version}}') at $AMBIENT_TEST_DOCKER"
}

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
    [ -n "${docker_process:-}" ] || return 0
    docker_command ps --all --quiet | while read -r container; do
        docker_command rm --force --volumes "$container" >/dev/null 2>&1 || true
    done
    kill -TERM "$docker_process" 2>/dev/null || true
    wait "$docker_process" 2>/dev/null || true
}
