"""What a sandbox cannot see, and cannot do, though it is root in there."""

import os
import socket
from pathlib import Path

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


# The other end of the way out has an address of its own in IPv6, which its hardware address gives away.
NEIGHBOUR = """
import socket, sys
neighbours = [line.split() for line in open("/proc/net/arp").readlines()[1:]]
tried = 0
for hardware in (fields[3] for fields in neighbours if fields[5] == "eth0"):
    first, *middle, last = bytes.fromhex(hardware.replace(":", ""))
    address = bytes([0xfe, 0x80, 0, 0, 0, 0, 0, 0, first ^ 2, *middle[:2], 0xff, 0xfe, *middle[2:], last])
    tried += 1
    with socket.socket(socket.AF_INET6) as one:
        one.settimeout(3)
        try:
            one.connect((socket.inet_ntop(socket.AF_INET6, address), int(sys.argv[1]), 0, socket.if_nametoindex("eth0")))
            print("open")
        except OSError:
            pass
print("tried", tried)
"""


def test_the_host_is_not_reached_by_its_other_addresses(make):
    if not socket.has_dualstack_ipv6():
        return  # A machine without IPv6 has no such addresses.
    sandbox = make()
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as service:
        port = service.getsockname()[1]
        sandbox.commands.run("timeout 2 bash -c '</dev/tcp/'$(ip route show default | cut -d ' ' -f 3)'/9' || true")
        sandbox.files.write("/tmp/neighbour.py", NEIGHBOUR)
        tried = sandbox.commands.run(f"python3 /tmp/neighbour.py {port}").stdout
    assert "open" not in tried and ("tried 1" in tried or not sandbox.commands.run("ip route show default").stdout), tried


DEEP = """
import os
for _ in range(16000):
    os.mkdir("deep")
    os.chdir("deep")
"""


def test_folders_of_any_depth_are_removed(make):
    sandbox, other = make(), make()
    for folder in ("/dev/shm/one", "/home/user/two"):
        sandbox.files.make_dir(folder)
        sandbox.commands.run(f"python3 -c '{DEEP}'", cwd=folder, timeout=100)
    sandbox.files.remove("/dev/shm/one")
    assert not sandbox.files.exists("/dev/shm/one")
    sandbox.kill()
    until(lambda: not any((Path(os.environ["SANDBOXD_DATA"]) / "s").glob(f"{sandbox.sandbox_id}*")), 60)
    assert other.commands.run("echo well").stdout == "well\n"


# As many children as may be, each until this program ends.
CROWD = """
import os, sys
ours, theirs = os.pipe()
try:
    while True:
        if os.fork() == 0:
            os.close(theirs)
            os.read(ours, 1)
            os._exit(0)
except OSError:
    print("full", flush=True)
    sys.stdin.read()
"""


def test_a_sandbox_that_is_full_of_processes_can_be_emptied(make):
    sandbox = make()
    sandbox.files.write("kept", "kept")
    told = []
    crowd = sandbox.commands.run(f"exec python3 -c '{CROWD}'", background=True, stdin=True)
    for out, _err, _pty in crowd:
        told.append(out)
        if "full" in "".join(filter(None, told)):
            break
    with pytest.raises(Exception, match="as many processes as it may"):
        sandbox.commands.run("true")
    assert sandbox.files.read("kept") == "kept"
    assert "kept" in [entry.name for entry in sandbox.files.list("/home/user")]
    assert crowd.pid in [process.pid for process in sandbox.commands.list()]
    assert sandbox.commands.kill(crowd.pid)

    def runs():
        try:
            return sandbox.commands.run("echo again").stdout
        except Exception:
            return ""

    assert until(runs, 30) == "again\n"


def test_sudo_and_the_usual_work_go_on(shared):
    assert shared.commands.run("sudo sh -c 'echo x > /root/x && chown user /root/x && cat /root/x'").stdout == "x\n"
    assert shared.commands.run("python3 -c 'import os; print(os.cpu_count() > 0)'").stdout == "True\n"
    assert shared.commands.run("python3 -m venv /tmp/v && ls /tmp/v/bin/python").exit_code == 0
    assert shared.commands.run("df /dev/shm /tmp >/dev/null && echo x > /dev/null && head -c 2 /dev/urandom | wc -c").stdout == "2\n"
