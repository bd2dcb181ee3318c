"""What only sandboxes that are containers can show: what the Docker engine was asked for, and what is left of it. Runs with `--driver docker`."""

import hashlib
import os
import signal

import httpx
import pytest
from conftest import until
from e2b import BuildException, Sandbox, Template
from own_host import start_host

MEMORY = {"cpu_count": 1, "memory_mb": 512}
LABEL = "io.ambient.sandboxd"
RIGHTS = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}


@pytest.fixture(scope="module")
def docker():
    """The engine's API."""
    socket = os.environ["DOCKER_HOST"].removeprefix("unix://")
    with httpx.Client(transport=httpx.HTTPTransport(uds=socket), base_url="http://docker", timeout=60) as client:
        yield client


def containers_of(docker, sandbox_id):
    """The containers of a sandbox, running or not, with everything about them."""
    listed = docker.get("/containers/json", params={"all": "true", "filters": f'{{"label": ["{LABEL}"]}}'}).json()
    return [docker.get(f"/containers/{one['Id']}/json").json() for one in listed if one["Names"][0].endswith(f"-{sandbox_id}")]


def base_image(docker):
    """The image of the template `base`."""
    images = docker.get("/images/json").json()
    tags = [tag for image in images for tag in image["RepoTags"] or [] if tag.startswith("ambient-sandboxd-")]
    return next(tag for tag in tags if tag.split(":")[1].startswith("base-"))


def test_a_sandbox_is_one_container_with_the_limits_of_its_template(docker, make, word):
    Template.build(Template().from_base_image().run_cmd("true"), word, **MEMORY)
    sandbox = make(word)
    [seen] = containers_of(docker, sandbox.sandbox_id)
    asked = seen["HostConfig"]
    assert (asked["Memory"], asked["NanoCpus"], asked["PidsLimit"]) == (512 << 20, 10**9, 4096)
    assert not asked["Privileged"] and asked["CapDrop"] == ["ALL"]
    assert {right.removeprefix("CAP_") for right in asked["CapAdd"]} == RIGHTS
    assert asked["PortBindings"] in ({}, None) and asked["PidMode"] == "" and asked["IpcMode"] != "host"
    # The program, which cannot be written to, and the folder where it meets the host.
    assert [mount["RW"] for mount in sorted(seen["Mounts"], key=lambda mount: mount["Destination"])] == [False, True]
    assert set(seen["Config"]["Labels"]) == {LABEL}
    bits = sandbox.commands.run("sed -n 's/^CapBnd:\\t//p' /proc/self/status").stdout
    assert int(bits, 16).bit_count() == len(RIGHTS)


def test_variables_of_a_sandbox_are_not_told_to_the_engine(docker, make):
    sandbox = make(envs={"SECRET": "s3cr3t-value"})
    assert sandbox.commands.run("echo $SECRET").stdout == "s3cr3t-value\n"
    [seen] = containers_of(docker, sandbox.sandbox_id)
    assert "s3cr3t-value" not in str(seen)
    assert sandbox.commands.run("ls -A /.sandboxd/door", user="root").stdout == "agent\n"


def test_its_container_goes_with_it(docker, make):
    killed, timed_out = make(), make(timeout=1)
    killed.kill()
    until(lambda: containers_of(docker, killed.sandbox_id) == [])
    until(lambda: containers_of(docker, timed_out.sandbox_id) == [])


def test_a_pause_is_one_of_the_container_and_files_outlive_its_processes(docker, sandbox):
    sandbox.pause()
    [seen] = containers_of(docker, sandbox.sandbox_id)
    assert seen["State"]["Paused"]
    sandbox.connect()
    sandbox.commands.run("echo kept > /opt/kept && sleep 600", user="root", background=True)
    until(lambda: sandbox.files.exists("/opt/kept"))
    sandbox.pause(mode="filesystem")
    [seen] = containers_of(docker, sandbox.sandbox_id)
    assert not seen["State"]["Running"]
    sandbox.connect()
    assert sandbox.files.read("/opt/kept") == "kept\n"
    assert "sleep 600" not in sandbox.commands.run("ps ax").stdout


def test_without_internet_there_is_no_network(docker, make):
    sandbox = make(allow_internet_access=False)
    [seen] = containers_of(docker, sandbox.sandbox_id)
    assert seen["HostConfig"]["NetworkMode"] == "none"
    assert sandbox.commands.run("ls /sys/class/net").stdout == "lo\n"


def test_images_of_the_engine_are_roots(docker, make, word):
    base = base_image(docker)
    # With words of its own, which are not to be heard: what is in a volume would be lost between steps.
    made = docker.post("/containers/create", json={"Image": base, "Cmd": ["x"]}).json()["Id"]
    words = {"container": made, "repo": "registry.invalid/sandbox", "tag": word, "changes": "VOLUME /opt\nENV LEAKED=yes\nUSER nobody"}
    assert docker.post("/commit", params=words, json={}).status_code == 201
    docker.delete(f"/containers/{made}")
    try:
        template = Template().from_image(f"registry.invalid/sandbox:{word}").run_cmd("echo step > /opt/step", user="root")
        Template.build(template, word, **MEMORY)
    finally:
        docker.delete(f"/images/registry.invalid/sandbox:{word}")
    sandbox = make(word)
    assert sandbox.commands.run("cat /opt/step; whoami; echo [$LEAKED]").stdout == "step\nuser\n[]\n"


def test_an_image_in_which_the_agent_cannot_run_is_named():
    with pytest.raises(BuildException, match="cannot be made a root for sandboxes|does not run in the image"):
        Template.build(Template().from_image("ambient-test:1"), "never", **MEMORY)


def test_sandboxes_end_with_their_host_and_the_next_one_sweeps(docker, tmp_path):
    """A host of its own dies without a word."""
    data = (tmp_path / "data").resolve()
    # It takes over the root of the host that all other cases are told to: making an image of one takes a while.
    name = hashlib.sha256(str(data).encode()).hexdigest()[:8]
    image = base_image(docker)
    base = image.split(":")[1]
    (data / "l" / base).mkdir(parents=True)
    docker.post(f"/images/{image}/tag", params={"repo": f"ambient-sandboxd-{name}", "tag": base})
    host, at = start_host(data, "--driver", "docker")
    try:
        running, frozen = Sandbox.create(timeout=600, **at), Sandbox.create(timeout=600, **at)
        frozen.pause()
        host.send_signal(signal.SIGKILL)
        host.wait()
        until(lambda: not containers_of(docker, running.sandbox_id)[0]["State"]["Running"])
        [left] = containers_of(docker, frozen.sandbox_id)
        assert left["State"]["Paused"] and left["Config"]["Labels"][LABEL] == name
        host, at = start_host(data, "--driver", "docker")
        assert containers_of(docker, running.sandbox_id) == containers_of(docker, frozen.sandbox_id) == []
        assert Sandbox.list(**at).next_items() == []
    finally:
        host.terminate()
        assert host.wait(30) == 0
        docker.delete(f"/images/ambient-sandboxd-{name}:{base}")
    networks = [network["Name"] for network in docker.get("/networks").json()]
    assert f"ambient-sandboxd-{name}" not in networks
