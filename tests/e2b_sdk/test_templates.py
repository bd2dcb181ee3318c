"""Templates: built, tagged, used, kept apart."""

import hashlib
import os
import zipfile
from pathlib import Path

import httpx
import pytest
from conftest import running, until
from e2b import BuildException, Sandbox, Template, wait_for_file, wait_for_port
from e2b.exceptions import SandboxException

MEMORY = {"cpu_count": 1, "memory_mb": 512}


def build(template, name, **options):
    lines = []
    info = Template.build(template, name, on_build_logs=lambda entry: lines.append(entry.message), **MEMORY, **options)
    return info, "\n".join(lines)


def test_steps_make_a_root(make, word, tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main.py").write_text("print('copied')\n")
    (tmp_path / "one.txt").write_text("one")
    template = (
        Template(file_context_path=tmp_path)
        .from_base_image()
        .set_envs({"GREETING": "hello"})
        .run_cmd("echo $GREETING > /home/user/greeting; id -un >> /home/user/greeting")
        .run_cmd("echo root > /opt/by-root", user="root")
        .copy("app", "/srv/app", user="root")
        .copy("one.txt", "/srv/", mode=0o600)
        .set_workdir("/work")
    )
    _info, log = build(template, word)
    assert "RUN echo root" in log
    sandbox = make(word)
    assert sandbox.files.read("/home/user/greeting") == "hello\nuser\n"
    assert sandbox.files.read("/opt/by-root") == "root\n"
    assert sandbox.commands.run("python3 /srv/app/main.py").stdout == "copied\n"
    assert sandbox.commands.run("stat -c %U:%a /srv/app/main.py /srv/one.txt").stdout.split()[0].startswith("root:")
    assert sandbox.commands.run("sudo stat -c %U:%a /srv/one.txt").stdout == "user:600\n"
    assert sandbox.commands.run("pwd; echo [$GREETING]").stdout == "/work\n[]\n"
    assert sandbox.get_info().name == word
    assert sandbox.get_info().cpu_count == 1 and sandbox.get_info().memory_mb == 512


def test_the_same_steps_are_cached(word):
    template = Template().from_base_image().run_cmd(f"echo {word}; date +%N > /home/user/time")
    _info, first = build(template, word)
    assert f"[stdout]: {word}" in first and "CACHED" not in first
    _info, second = build(template, word)
    assert "CACHED" in second
    _info, third = build(template, word, skip_cache=True)
    assert "CACHED" not in third


def test_a_step_of_one_team_is_no_other_s(make, word, other_key, tmp_path):
    (tmp_path / "program").write_text(f"echo {word}\n")
    template = (
        Template(file_context_path=tmp_path)
        .from_base_image()
        .run_cmd(f"head -c 16 /dev/urandom | md5sum > /home/user/secret; : {word}")
        .copy("program", "/home/user/program")
    )
    secrets = set()
    for key in (None, other_key):
        whose = {"api_key": key} if key else {}
        _info, log = build(template, word, **whose)
        assert key is None or "CACHED" not in log
        sandbox = make(word, **whose)
        assert sandbox.commands.run("sh /home/user/program").stdout == f"{word}\n"
        secrets.add(sandbox.files.read("/home/user/secret"))
    assert len(secrets) == 2


def test_output_without_lines_is_cut_into_some(word):
    _info, log = build(Template().from_base_image().run_cmd(f"head -c 200000 /dev/zero | tr '\\0' x; echo {word}"), word)
    lines = [line.split("[stdout]: ", 1)[1] for line in log.splitlines() if "[stdout]: " in line]
    assert "".join(lines) == 200000 * "x" + word and len(lines) > 2, [len(line) for line in lines]


# What a build may be at when its template is deleted.
AT_WORK = {
    "a step": lambda template, line: template.run_cmd(line),
    "a value": lambda template, line: template.run_cmd(f"echo '{line}' >> /root/.profile", user="root").set_envs({"A": "$HOME"}),
    "the end": lambda template, line: template.set_start_cmd(line, "false"),
}


@pytest.mark.parametrize("what", AT_WORK)
def test_a_template_that_is_deleted_ends_its_build(word, what):
    template = AT_WORK[what](Template().from_base_image(), f"exec -a {word} sleep 7777")
    build_of = Template.build_in_background(template, word, **MEMORY)
    until(lambda: running(word), 30)
    answer = httpx.delete(f"{os.environ['E2B_API_URL']}/templates/{build_of.template_id}", headers={"X-API-Key": os.environ["E2B_API_KEY"]})
    assert answer.status_code == 204, answer.text
    until(lambda: not running(word), 30)


def test_a_failing_step_is_named(word):
    with pytest.raises(BuildException, match="failed to run command 'exit 3': exit status 3"):
        build(Template().from_base_image().run_cmd("exit 3"), word)
    with pytest.raises(BuildException, match="invalid username: 'nobody-here'"):
        build(Template().from_base_image().run_cmd("true", user="nobody-here"), word)
    with pytest.raises(SandboxException, match="not exist|not found"):
        Sandbox.create(word)


def test_an_unknown_image_is_named(word):
    with pytest.raises(BuildException, match=f"registry.invalid/{word}"):
        build(Template().from_image(f"registry.invalid/{word}"), word)


def test_a_start_command_runs_from_the_start(make, word):
    template = (
        Template()
        .from_base_image()
        .set_start_cmd("python3 -m http.server 8200 --directory /etc", wait_for_port(8200))
    )
    build(template, word)
    assert "debian" in make(word).commands.run("curl -s http://127.0.0.1:8200/os-release").stdout.lower()


def test_a_template_begins_with_a_template(make, word):
    build(Template().from_base_image().set_user("ann").run_cmd("echo below > below.txt"), f"{word}-a")
    template = Template().from_template(f"{word}-a").run_cmd("cat below.txt > above.txt")
    build(template.set_ready_cmd(wait_for_file("/home/ann/above.txt")), f"{word}-b")
    sandbox = make(f"{word}-b")
    assert sandbox.commands.run("cat above.txt; whoami").stdout == "below\nann\n"


def test_a_dockerfile_is_built(make, word):
    dockerfile = f"""
FROM debian:bookworm
ENV NAME={word}
RUN echo "$NAME" > /opt/name
WORKDIR /data
RUN pwd > where
"""
    build(Template().from_dockerfile(dockerfile), word)
    sandbox = make(word)
    assert sandbox.files.read("/opt/name") == f"{word}\n"
    assert sandbox.files.read("/data/where") == "/data\n"


def test_names_exist_or_not(word, other_key):
    assert not Template.exists(word)
    build(Template().from_base_image().run_cmd("true"), word)
    assert Template.exists(word)
    assert not Template.exists(word, api_key=other_key)
    assert Template.exists("base")
    with pytest.raises(SandboxException, match="not found"):
        Sandbox.create(word, api_key=other_key)


def test_tags(make, word):
    build(Template().from_base_image().run_cmd("echo one > /home/user/v"), f"{word}:v1")
    build(Template().from_base_image().run_cmd("echo two > /home/user/v"), f"{word}:v2")
    assert make(f"{word}:v1").files.read("v") == "one\n"
    assert make(f"{word}:v2").files.read("v") == "two\n"
    Template.assign_tags(f"{word}:v2", ["stable", "production"])
    assert {tag.tag for tag in Template.get_tags(word)} >= {"v1", "v2", "stable", "production"}
    assert make(f"{word}:stable").files.read("v") == "two\n"
    Template.remove_tags(word, ["stable"])
    with pytest.raises(SandboxException, match="tag 'stable' does not exist"):
        Sandbox.create(f"{word}:stable")


def test_a_build_in_the_background(word):
    info = Template.build_in_background(Template().from_base_image().run_cmd("sleep 1; echo done"), word, **MEMORY)
    status = until(
        lambda: (status := Template.get_build_status(info)).status.value in ("ready", "error") and status, 60
    )
    assert status.status.value == "ready"


def test_templates_are_listed_and_deleted(word, make):
    import httpx

    api, key = os.environ["E2B_API_URL"], {"X-API-KEY": os.environ["E2B_API_KEY"]}
    info, _log = build(Template().from_base_image().run_cmd("true"), word)
    listed = {entry["templateID"]: entry for entry in httpx.get(f"{api}/templates", headers=key).json()}
    assert listed[info.template_id]["aliases"] == [word]
    sandbox = make(word)
    assert httpx.delete(f"{api}/templates/{word}", headers=key).status_code == 400
    sandbox.kill()
    assert httpx.delete(f"{api}/templates/{word}", headers=key).status_code == 204
    assert not Template.exists(word)


SHIPPED = Path(__file__).resolve().parents[2] / "compose" / "sandbox" / "Dockerfile"
# Gives what lies in `/mirror`, as the releases' server gives it.
CURL = """#!/bin/sh
for word in "$@"; do url=$word; done
file=/mirror/${url##*/}
[ -f "$file" ] || { echo "404: $url" >&2; exit 22; }
case " $* " in *" --remote-name "*) cp "$file" . ;; *) cat "$file" ;; esac
"""


def releases(folder):
    """What the paragraph about YouTube fetches, with programs that only tell their names."""
    mirror = folder / "mirror"
    mirror.mkdir()
    for machine in ("x86_64", "aarch64"):
        name = f"deno-{machine}-unknown-linux-gnu.zip"
        with zipfile.ZipFile(mirror / name, "w") as archive:
            program = zipfile.ZipInfo("deno")
            program.external_attr = 0o755 << 16
            archive.writestr(program, "#!/bin/sh\necho deno\n")
        (mirror / f"{name}.sha256sum").write_text(f"{hashlib.sha256((mirror / name).read_bytes()).hexdigest()}  {name}\n")
    programs = ("yt-dlp", "yt-dlp_linux", "yt-dlp_linux_aarch64")
    for name in programs:
        (mirror / name).write_text("#!/bin/sh\necho yt-dlp\n")
    sums = (f"{hashlib.sha256((mirror / name).read_bytes()).hexdigest()}  {name}\n" for name in programs)
    (mirror / "SHA2-256SUMS").write_text("".join(sums))
    (folder / "curl").write_text(CURL)
    return mirror


def with_youtube(folder):
    """The paragraph as it ships, between what it needs and nothing else."""
    paragraph = next(part for part in SHIPPED.read_text().split("\n\n") if part.startswith("# youtube:"))
    needs = "RUN apt-get update && apt-get install --yes --no-install-recommends unzip"
    start = f"FROM e2bdev/base:latest\n{needs}\nCOPY mirror /mirror\nCOPY curl /usr/local/bin/curl\nRUN chmod 0755 /usr/local/bin/curl\n"
    return Template(file_context_path=folder).from_dockerfile(start + paragraph)


def test_the_shipped_paragraph_for_youtube_installs_its_programs(make, word, tmp_path):
    releases(tmp_path)
    build(with_youtube(tmp_path), word)
    sandbox = make(word)
    assert sandbox.commands.run("cd / && deno && yt-dlp").stdout == "deno\nyt-dlp\n"
    assert sandbox.commands.run("stat -c %a /usr/local/bin/yt-dlp; ls /tmp").stdout == "755\n"


@pytest.mark.parametrize("name", ["yt-dlp_linux", "deno-x86_64-unknown-linux-gnu.zip"])
def test_what_has_another_sum_is_not_installed(word, tmp_path, name):
    mirror = releases(tmp_path)
    for twin in (name, name.replace("x86_64", "aarch64").replace("dlp_linux", "dlp_linux_aarch64")):
        (mirror / twin).write_bytes((mirror / twin).read_bytes() + b"\n")
    with pytest.raises(BuildException, match="exit status 1"):
        build(with_youtube(tmp_path), word)
