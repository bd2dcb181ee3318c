#!/usr/bin/env bash
# A Docker engine that is reached over TLS, and one behind ssh.
#
#     tests/installer/elsewhere.sh PROGRAM WORK
#
# Needs DOCKER_HOST, and the image ambient-test:1. In front of that engine stand a server of TLS that asks for a client's
# certificate, and Debian's sshd for this very user. Ends with `N passed, N failed`.
set -euo pipefail

program=$(realpath "${1:?the ambientctl to try}")
work=${2:?a folder to work in}
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
here=$DOCKER_HOST
project=elsewhere-$$
# shellcheck source=tests/installer/checks.sh
. "$root/tests/installer/checks.sh"
# shellcheck source=tests/lib/services.sh
. "$root/tests/lib/services.sh"
die() { echo "$*" >&2; exit 1; }

servers=()
clean_up() {
    kill "${servers[@]}" 2>/dev/null || true
    docker ps --all --quiet --filter "label=com.docker.compose.project=$project" | xargs -r docker rm --force >/dev/null || true
    docker network rm "${project}_default" >/dev/null 2>&1 || true
}
trap clean_up EXIT

mkdir -p "$work/stack" "$work/certificates" "$work/others"
cat >"$work/stack/docker-compose.yml" <<STACK
name: $project
services:
  engine: {image: "ambient-test:1", command: [sleep, "1000"], stop_signal: SIGKILL, environment: {LLM_MODEL: "\${LLM_MODEL:-}"}}
STACK

# certificate FOLDER NAME EXTENSIONS   signed by the authority of the folder.
authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=authority" \
        -keyout "$1/ca-key.pem" -out "$1/ca.pem" 2>/dev/null
}
certificate() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$2" -keyout "$1/$2-key.pem" -out "$1/$2.csr" 2>/dev/null
    openssl x509 -req -in "$1/$2.csr" -CA "$1/ca.pem" -CAkey "$1/ca-key.pem" -CAcreateserial -days 2 -out "$1/$2.pem" \
        -extfile <(printf '%s\n' "$3") 2>/dev/null
}
for folder in certificates others; do
    authority "$work/$folder"
    certificate "$work/$folder" server "subjectAltName=IP:127.0.0.1"
    certificate "$work/$folder" client "extendedKeyUsage=clientAuth"
    cp "$work/$folder/client.pem" "$work/$folder/cert.pem"
    cp "$work/$folder/client-key.pem" "$work/$folder/key.pem"
done

python3 -u - "${here#unix://}" "$work/certificates" >"$work/tls.log" 2>&1 <<'SERVER' &
import socket, ssl, sys, threading

engine, folder = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{folder}/server.pem", f"{folder}/server-key.pem")
context.load_verify_locations(f"{folder}/ca.pem")
context.verify_mode = ssl.CERT_REQUIRED
listener = socket.create_server(("127.0.0.1", 0))
print("port", listener.getsockname()[1])


def carry(one, other):
    try:
        while data := one.recv(65536):
            other.sendall(data)
    except OSError:
        pass
    for end in (one, other):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client):
    # What dockerd says to those who speak no TLS; a greeting of TLS begins with 22.
    if client.recv(1, socket.MSG_PEEK) != b"\x16":
        client.recv(65536)
        client.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
        client.close()
        return
    try:
        client = context.wrap_socket(client, server_side=True)
    except OSError:
        return
    server = socket.socket(socket.AF_UNIX)
    server.connect(engine)
    threading.Thread(target=carry, args=(client, server), daemon=True).start()
    carry(server, client)


while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
SERVER
servers+=($!)
until_true 10 "the server of TLS says its port" grep -q port "$work/tls.log"
tls=tcp://127.0.0.1:$(sed -n 's/^port //p' "$work/tls.log")

# ambientctl NAME=VALUE… -- WORDS…
ambientctl() {
    local settings=()
    while [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    shift
    env -i HOME="$work" PATH="$work/bin:$PATH" "${settings[@]}" "$program" "$@" --dir "$work/stack" 2>&1 | tee "$work/last"
    return "${PIPESTATUS[0]}"
}
tells() { grep -qF -- "$1" "$work/last" || { cat "$work/last"; false; }; }
runs() { test -n "$(docker ps --quiet --filter "name=^$project-engine-1$" --filter "ancestor=ambient-test:1")"; }
trusting=(DOCKER_HOST="$tls" DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH="$work/certificates")

check "a stack is started over TLS" ambientctl "${trusting[@]}" -- start
check "and runs" runs
check "and is seen over TLS" ambientctl "${trusting[@]}" -- status
check "a setting is changed over TLS" ambientctl "${trusting[@]}" -- config set LLM_MODEL=other
check "an engine of somebody else's authority is not trusted" \
    refuses ambientctl DOCKER_HOST="$tls" DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH="$work/others" -- status
check "and that is said" tells "docker does not speak TLS with us at \`$tls\`"
check "without TLS it is not spoken to" refuses ambientctl DOCKER_HOST="$tls" -- status
check "and what to set is said" tells "it wants TLS, and \`DOCKER_TLS_VERIFY\` is not set"
check "a context with certificates" env -i HOME="$work" PATH="$PATH" docker --config "$work/contexts" context create far \
    --docker "host=$tls,ca=$work/certificates/ca.pem,cert=$work/certificates/cert.pem,key=$work/certificates/key.pem"
check "is followed" ambientctl DOCKER_CONFIG="$work/contexts" DOCKER_CONTEXT=far -- status

# sshd for this very user, with keys of its own. `ssh` reads no settings of the person who runs this.
port=$(free_port)
mkdir -p "$work/bin" "$work/ssh"
ssh-keygen -q -t ed25519 -N '' -f "$work/ssh/host"
ssh-keygen -q -t ed25519 -N '' -f "$work/ssh/key"
cp "$work/ssh/key.pub" "$work/ssh/authorized_keys"
echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 "$work/ssh/host.pub")" >"$work/ssh/known_hosts"
cat >"$work/ssh/sshd_config" <<CONFIG
Port $port
ListenAddress 127.0.0.1
HostKey $work/ssh/host
AuthorizedKeysFile $work/ssh/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
SetEnv DOCKER_HOST=$here PATH=$PATH
CONFIG
cat >"$work/ssh/config" <<CONFIG
IdentityFile $work/ssh/key
IdentitiesOnly yes
BatchMode yes
UserKnownHostsFile $work/ssh/known_hosts
CONFIG
printf '#!/bin/sh\nexec /usr/bin/ssh -F "%s" "$@"\n' "$work/ssh/config" >"$work/bin/ssh"
chmod 0755 "$work/bin/ssh"
if [ "$(id -u)" = 0 ]; then mkdir -p /run/sshd; fi
/usr/sbin/sshd -D -e -f "$work/ssh/sshd_config" >"$work/sshd.log" 2>&1 &
servers+=($!)
until_true 10 "sshd answers" grep -q listening "$work/sshd.log"
far=ssh://$(id -un)@127.0.0.1:$port

check "a stack is seen over ssh" ambientctl DOCKER_HOST="$far" -- status
check "a setting is changed over ssh" ambientctl DOCKER_HOST="$far" -- config set LLM_MODEL=third
check "and it runs" runs
check "logs come over ssh" ambientctl DOCKER_HOST="$far" -- logs
no_ssh_is_left() {
    local tries
    for tries in {1..50}; do
        pgrep -f -- "ssh .*-p $port " || return 0
        read -rt 0.1 <> <(:) || true
    done
    return "$tries"
}
check "no program of ssh is left" no_ssh_is_left
rm "$work/ssh/key"
check "without the key ssh is refused" refuses ambientctl DOCKER_HOST="$far" -- status
check "in the words of ssh" tells "Permission denied (publickey"
check "an address that is none" refuses ambientctl DOCKER_HOST=ssh://ann:password@host -- status
check "is named with who said it" tells "(from \`DOCKER_HOST\`) cannot be used"
counted_checks
