"""What a sandbox cannot see, and cannot do, though it is root in there."""

import socket

import pytest
from conftest import until
from e2b import CommandExitException


def as_root(sandbox, line):
    try:
        return sandbox.commands.run(line, user="root").stdout
    except CommandExitException as failed:
        return f"exit {failed.exit_code}"


def test_processes_of_others_are_not_there(make):
    one, two = make(), make()
    one.commands.run("exec -a secret-name sleep 600", background=True)
    assert "secret-name" in one.commands.run("ps ax").stdout
    assert "secret-name" not in as_root(two, "ps ax")
    assert int(as_root(two, "ls -d /proc/[0-9]* | wc -l")) < 20


def test_files_of_others_are_not_there(make):
    one, two = make(), make()
    one.files.write("/opt/mine", "x", user="root")
    assert not two.files.exists("/opt/mine")


def test_files_of_the_template_stay_as_they_are(make):
    one = make()
    as_root(one, "rm -rf /etc/debian_version /usr/share/doc")
    assert make().files.exists("/etc/debian_version")


def test_the_machine_is_out_of_reach_of_root(shared):
    for line in [
        "mount -t tmpfs none /mnt",
        "mknod /tmp/disk b 8 0",
        "unshare --user true",
        "nsenter --target 1 --mount --pid true",
        "echo 1 > /proc/sys/kernel/sysrq",
        "echo b > /proc/sysrq-trigger",
        "head -c 1 /proc/kcore | grep .",
        "hostname other",
        "cat /proc/1/environ /proc/1/mem",
        "ls -l /proc/1/exe | grep '>'",
        "dmesg",
        "swapoff -a; chroot /proc/1/root true",
        "kill -9 1; sleep 0.2; test -d /proc/1 && exit 9",
    ]:
        assert as_root(shared, line).startswith("exit"), line
    assert shared.is_running()


def test_loopback_is_its_own(shared):
    import os
    import urllib.parse

    port = urllib.parse.urlsplit(os.environ["E2B_API_URL"]).port
    with pytest.raises(CommandExitException):
        shared.commands.run(f"curl --max-time 5 -s http://127.0.0.1:{port}/health")


def test_neither_the_host_nor_other_sandboxes_are_reached(make):
    one, two = make(), make()
    one.commands.run("python3 -m http.server 8300 --directory /etc", background=True)
    addresses = one.commands.run("hostname -I").stdout.split()
    until(lambda: "debian" in as_root(one, "curl -s http://127.0.0.1:8300/os-release").lower())
    # A service of the host on all its addresses, and where a sandbox that has a way out would find it.
    with socket.create_server(("0.0.0.0", 0)) as service:
        port = service.getsockname()[1]
        gateways = two.commands.run("ip route show default | cut -d ' ' -f 3").stdout.split()
        for address in [*(f"{address}:8300" for address in addresses), *(f"{gateway}:{port}" for gateway in gateways), "169.254.169.254:80"]:
            host, at = address.split(":")
            assert as_root(two, f"timeout 2 bash -c '</dev/tcp/{host}/{at}'").startswith("exit"), address


def test_sudo_and_the_usual_work_go_on(shared):
    assert shared.commands.run("sudo sh -c 'echo x > /root/x && chown user /root/x && cat /root/x'").stdout == "x\n"
    assert shared.commands.run("python3 -c 'import os; print(os.cpu_count() > 0)'").stdout == "True\n"
    assert shared.commands.run("python3 -m venv /tmp/v && ls /tmp/v/bin/python").exit_code == 0
    assert shared.commands.run("df /dev/shm /tmp >/dev/null && echo x > /dev/null && head -c 2 /dev/urandom | wc -c").stdout == "2\n"
