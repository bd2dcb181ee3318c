# A PostgreSQL and a Redis for one run, on free ports, with their data under $work. Sourced by tests/run.sh.

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# until_true SECONDS WHAT COMMAND…   tries a command until it succeeds.
until_true() {
    local seconds=$1 what=$2 began=$SECONDS
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $((SECONDS - began)) -lt "$seconds" ] || die "not within $seconds seconds: $what"
        sleep 0.1
    done
}

# PostgreSQL refuses to run as root, so root runs it as the user that its package made.
as_postgres() {
    if [ "$(id -u)" = 0 ]; then
        runuser -u postgres -- "$@"
    else
        "$@"
    fi
}

start_postgres() {
    local bin
    bin=$(postgres_bin)
    postgres_data=$(mktemp -d /tmp/ambient-postgres.XXXXXX)
    postgres_port=$(free_port)
    if [ "$(id -u)" = 0 ]; then chown postgres "$postgres_data"; fi
    (
        cd /tmp
        as_postgres "$bin/initdb" --pgdata "$postgres_data/data" --username ambient --auth trust --encoding UTF8 --locale C \
            --no-sync >"$work/postgres-initdb.log"
        # Nothing here has to survive a power cut. Every test has a database of its own, hence the many connections.
        as_postgres "$bin/pg_ctl" --pgdata "$postgres_data/data" --log "$postgres_data/log" --silent --wait start \
            --options "-p $postgres_port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$postgres_data -c fsync=off -c full_page_writes=off -c synchronous_commit=off -c max_connections=300"
    ) || { cat "$postgres_data/log" >&2; die "PostgreSQL did not start"; }
    until_true 30 "PostgreSQL answers" "$bin/psql" -h 127.0.0.1 -p "$postgres_port" -U ambient -d postgres -c 'select 1'
    "$bin/createdb" -h 127.0.0.1 -p "$postgres_port" -U ambient ambient
    export AMBIENT_TEST_POSTGRES_URL=postgres://ambient@127.0.0.1:$postgres_port/ambient
    echo "PostgreSQL: $("$bin/postgres" --version) on port $postgres_port"
}

stop_postgres() {
    [ -n "${postgres_data:-}" ] || return 0
    if [ -s "$postgres_data/data/postmaster.pid" ]; then
        (cd /tmp && as_postgres "$(postgres_bin)/pg_ctl" --pgdata "$postgres_data/data" --mode immediate --silent --wait stop) || true
    fi
    rm -rf "$postgres_data"
}

start_redis() {
    local redis_port
    redis_port=$(free_port)
    mkdir -p "$work/redis"
    redis-server --port "$redis_port" --bind 127.0.0.1 --dir "$work/redis" --save '' --appendonly no --daemonize no \
        >"$work/redis.log" 2>&1 &
    redis_process=$!
    until_true 15 "Redis answers" redis-cli -h 127.0.0.1 -p "$redis_port" ping
    export AMBIENT_TEST_REDIS_URL=redis://127.0.0.1:$redis_port/0
    echo "Redis: $(redis-server --version | cut -d' ' -f3) on port $redis_port"
}

stop_redis() {
    [ -n "${redis_process:-}" ] || return 0
    kill -TERM "$redis_process" 2>/dev/null || true
    wait "$redis_process" 2>/dev/null || true
}
