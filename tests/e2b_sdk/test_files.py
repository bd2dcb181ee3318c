"""Files, and what happens to them."""

import io
import os
import urllib.parse

import httpx
import pytest
from conftest import until
from e2b import FileType, FilesystemEventType, InvalidArgumentException, NotFoundException, Sandbox
from e2b import AuthenticationException, FileNotFoundException

API = os.environ["E2B_API_URL"]


def test_what_is_written_is_read(shared, word):
    info = shared.files.write(f"{word}.txt", "ä text\n")
    assert info.path == f"/home/user/{word}.txt"
    assert shared.files.read(f"{word}.txt") == "ä text\n"
    assert shared.files.read(f"/home/user/{word}.txt", format="bytes") == "ä text\n".encode()


def test_bytes_of_any_kind_and_size(shared, word):
    for content in (b"", bytes(range(256)), os.urandom(5_000_000)):
        shared.files.write(f"/tmp/{word}", content)
        assert bytes(shared.files.read(f"/tmp/{word}", format="bytes")) == content
        assert b"".join(shared.files.read(f"/tmp/{word}", format="stream")) == content


def test_file_objects_and_gzip(shared, word):
    shared.files.write(f"/tmp/{word}", io.BytesIO(b"from an object"))
    assert shared.files.read(f"/tmp/{word}") == "from an object"
    shared.files.write(f"/tmp/{word}", "squeezed " * 1000, gzip=True)
    assert shared.files.read(f"/tmp/{word}", gzip=True) == "squeezed " * 1000


def test_many_files_at_once(shared, word):
    names = ["a.txt", "with space.txt", "ünï.txt", "deep/er/file.txt", 'quo"te.txt']
    written = shared.files.write_files([{"path": f"/tmp/{word}/{name}", "data": name} for name in names])
    assert len(written) == len(names)
    for name in names[:4]:
        assert shared.files.read(f"/tmp/{word}/{name}") == name


def test_owners_are_users(shared, word):
    shared.files.write(f"/tmp/{word}/of-user/file", "x")
    shared.files.write(f"/tmp/{word}/of-root", "x", user="root")
    owners = shared.commands.run(f"stat -c %U:%G:%a /tmp/{word}/of-user /tmp/{word}/of-user/file /tmp/{word}/of-root").stdout
    assert owners.split() == ["user:user:755", "user:user:644", "root:root:644"]


def test_missing_files_and_folders(shared, word):
    with pytest.raises(FileNotFoundException):
        shared.files.read(f"/tmp/{word}")
    with pytest.raises(InvalidArgumentException):
        shared.files.read("/tmp")
    with pytest.raises(InvalidArgumentException):
        shared.files.write("/tmp", "x")
    assert not shared.files.exists(f"/tmp/{word}")


def test_folders_are_made_listed_moved_and_removed(shared, word):
    root = f"/tmp/{word}"
    assert shared.files.make_dir(f"{root}/a/b")
    assert not shared.files.make_dir(f"{root}/a/b")
    shared.files.write(f"{root}/a/file", "12345")
    names = lambda path, **options: [entry.path for entry in shared.files.list(path, **options)]
    assert names(root) == [f"{root}/a"]
    assert names(root, depth=2) == [f"{root}/a", f"{root}/a/b", f"{root}/a/file"]
    assert shared.files.rename(f"{root}/a/file", f"{root}/new/place").path == f"{root}/new/place"
    assert shared.files.read(f"{root}/new/place") == "12345"
    with pytest.raises(NotFoundException):
        shared.files.rename(f"{root}/a/file", f"{root}/x")
    shared.files.remove(root)
    assert not shared.files.exists(root)
    shared.files.remove(root)
    with pytest.raises(NotFoundException):
        shared.files.list(root)
    with pytest.raises(InvalidArgumentException):
        shared.files.list("/etc/passwd")


def test_a_folder_of_the_template_moves(sandbox):
    before = sandbox.commands.run("ls -A /etc/skel").stdout
    sandbox.files.rename("/etc/skel", "/etc/skeleton")
    assert sandbox.commands.run("ls -A /etc/skeleton").stdout == before
    assert not sandbox.files.exists("/etc/skel")


def test_what_a_file_is(shared, word):
    path = f"/tmp/{word}"
    shared.files.write(path, "1234")
    shared.commands.run(f"chmod 640 {path}; ln -s {path} {path}-link; ln -s /nowhere {path}-broken")
    info = shared.files.get_info(path)
    assert (info.name, info.type, info.size, info.mode) == (word, FileType.FILE, 4, 0o640)
    assert (info.permissions, info.owner, info.group) == ("-rw-r-----", "user", "user")
    link = shared.files.get_info(f"{path}-link")
    assert link.symlink_target == path and link.permissions.startswith("L")
    assert shared.files.get_info(f"{path}-broken").symlink_target == f"{path}-broken"
    assert shared.files.get_info("/tmp").type == FileType.DIR


def test_metadata_stays_with_the_file(shared, word):
    shared.files.write(f"/tmp/{word}", "x", metadata={"Author": "ann", "version": "2"})
    assert shared.files.get_info(f"/tmp/{word}").metadata == {"author": "ann", "version": "2"}
    shared.files.write(f"/tmp/{word}", "x", metadata={"other": "1"})
    assert shared.files.get_info(f"/tmp/{word}").metadata == {"other": "1"}


def test_links_lead_nowhere_out_of_the_sandbox(shared, word):
    shared.commands.run(f"ln -s /../../../../../../etc/hostname /tmp/{word}")
    assert shared.files.read(f"/tmp/{word}") == shared.commands.run("hostname").stdout
    shared.commands.run(f"ln -sfn / /tmp/{word}-root")
    names = {entry.name for entry in shared.files.list(f"/tmp/{word}-root")}
    assert {"etc", "home", "usr"} <= names
    assert "root" in names and "work" not in names


def test_watched_folders_tell(shared, word):
    root = f"/tmp/{word}"
    shared.files.make_dir(root)
    watch = shared.files.watch_dir(root)
    shared.files.write(f"{root}/file", "x")
    shared.files.rename(f"{root}/file", f"{root}/other")
    shared.files.remove(f"{root}/other")
    events = []
    until(lambda: events.extend(watch.get_new_events()) or any(event.type == FilesystemEventType.REMOVE for event in events))
    told = [(event.type, event.name) for event in events]
    assert told[:2] == [(FilesystemEventType.CREATE, "file"), (FilesystemEventType.WRITE, "file")]
    assert (FilesystemEventType.RENAME, "file") in told and (FilesystemEventType.CREATE, "other") in told
    watch.stop()
    with pytest.raises(NotFoundException):
        shared.files.watch_dir(f"{root}/none")


def test_watched_trees_tell_of_new_folders(shared, word):
    root = f"/tmp/{word}"
    shared.files.make_dir(root)
    watch = shared.files.watch_dir(root, recursive=True)
    shared.files.write(f"{root}/new/deep/file", "x")
    names = set()
    until(lambda: names.update(event.name for event in watch.get_new_events()) or "new/deep/file" in names)
    watch.stop()


def test_signed_addresses(shared, word):
    shared.files.write(f"/tmp/{word}", "signed")
    answer = httpx.get(shared.download_url(f"/tmp/{word}", use_signature_expiration=60))
    assert (answer.status_code, answer.text) == (200, "signed")
    upload = shared.upload_url(f"/tmp/{word}-up", use_signature_expiration=60)
    assert httpx.post(upload, files={"file": ("any", b"uploaded")}).status_code == 200
    assert shared.files.read(f"/tmp/{word}-up") == "uploaded"
    address = urllib.parse.urlsplit(shared.download_url(f"/tmp/{word}"))
    query = dict(urllib.parse.parse_qsl(address.query))
    for change, message in [({"path": "/etc/passwd"}, "invalid signature"), ({"signature": ""}, "missing signature")]:
        changed = urllib.parse.urlencode({**query, **change})
        answer = httpx.get(address._replace(query=changed).geturl())
        assert answer.status_code == 401 and message in answer.json()["message"]


def test_tokens_are_asked_for(shared):
    headers = {"E2b-Sandbox-Id": shared.sandbox_id, "E2b-Sandbox-Port": "49983"}
    for token in ({}, {"X-Access-Token": "0" * 64}):
        for method, path in [("POST", "/process.Process/List"), ("GET", "/files?path=/etc/passwd"), ("GET", "/envs")]:
            answer = httpx.request(method, API + path, headers={**headers, **token}, json={})
            assert answer.status_code == 401, (path, answer.text)
            assert answer.json()["code"] == 401
    assert httpx.get(f"{API}/health", headers=headers).status_code == 204


def test_a_part_of_a_file(shared, word):
    shared.files.write(f"/tmp/{word}", "0123456789")
    address = shared.download_url(f"/tmp/{word}")
    answer = httpx.get(address, headers={"Range": "bytes=2-4"})
    assert (answer.status_code, answer.text, answer.headers["content-range"]) == (206, "234", "bytes 2-4/10")
    assert httpx.get(address, headers={"Range": "bytes=20-"}).status_code == 416


def test_ports_of_programs_are_reached(make):
    one, two = make(), make()
    for sandbox, text in [(one, "first"), (two, "second")]:
        sandbox.files.write("/srv/index.html", text, user="root")
        sandbox.commands.run("exec python3 -m http.server 8123 --bind 127.0.0.1 --directory /srv", background=True)
    for sandbox, text in [(one, "first"), (two, "second")]:
        by_header = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "8123"}
        answer = until(lambda: (answer := httpx.get(API, headers=by_header)).status_code == 200 and answer)
        assert answer.text == text
        by_host = {"Host": f"8123-{sandbox.sandbox_id}.localhost"}
        assert httpx.get(API, headers=by_host).text == text
    closed = httpx.get(API, headers={"E2b-Sandbox-Id": one.sandbox_id, "E2b-Sandbox-Port": "8124"})
    assert closed.status_code == 502 and "port is not open" in closed.json()["message"]
    gone = httpx.get(API, headers={"E2b-Sandbox-Id": "iunknown", "E2b-Sandbox-Port": "8124"})
    assert gone.status_code == 502 and "was not found" in gone.json()["message"]


def test_files_are_joined_of_regular_ones_that_are_not_the_result(sandbox):
    address = os.environ["E2B_SANDBOX_URL"]
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49983", "X-Access-Token": sandbox._envd_access_token}
    sandbox.commands.run("cd ~; printf one > one; printf two > two; ln -s two link; ln two second; mkfifo pipe; mkdir folder")
    for sources in (["one", "link"], ["one", "second"], ["two"], ["one", "pipe"], ["one", "folder"], ["/dev/zero"]):
        wish = {"source_paths": sources, "destination": "two", "username": "user"}
        answer = httpx.post(f"{address}/files/compose", headers=headers, json=wish, timeout=5)
        assert answer.status_code == 400, (sources, answer.text)
        assert sandbox.files.read("two") == "two", sources
    wish = {"source_paths": ["one", "two"], "destination": "three", "username": "user"}
    assert httpx.post(f"{address}/files/compose", headers=headers, json=wish, timeout=5).status_code == 200
    assert sandbox.files.read("three") == "onetwo"


def test_what_means_nothing_is_refused_as_such(sandbox):
    address = os.environ["E2B_SANDBOX_URL"]
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49983", "X-Access-Token": sandbox._envd_access_token}
    spoken = {"/process.Process/Start": "application/connect+json", "/filesystem.Filesystem/Stat": "application/json"}
    for call, known in spoken.items():
        for sent in ("application/proto", "application/connect+proto", "application/grpc-web+json", "text/plain"):
            answer = httpx.post(f"{address}{call}", headers={**headers, "Content-Type": sent}, content=b"\0\0\0\0\0")
            assert (answer.status_code, answer.headers["Accept-Post"]) == (415, known), (call, sent, answer.text)
            assert sent in answer.json()["message"]
    for path in ("/a\0b", "/" + 256 * "x", 2048 * "/x"):
        answer = httpx.post(f"{address}/filesystem.Filesystem/Stat", headers=headers, json={"path": path})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument"), answer.text
        assert len(answer.text) < 200
        assert httpx.get(f"{address}/files", headers=headers, params={"path": path}).status_code == 400
    assert not sandbox.files.exists("/" + 255 * "x")
