import errno
import hashlib
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from types import SimpleNamespace

import pytest

from espnet_diverse.corpora.shared import download as module
from espnet_diverse.corpora.shared.download import ATTEMPTS, download
from espnet_diverse.errors import DataError

CONTENT = bytes(range(256)) * 4096  # 1 MiB
MD5 = hashlib.md5(CONTENT).hexdigest()


def test_file_is_fetched_once(tmp_path, serve):
    server = serve(CONTENT)
    target = tmp_path / "new" / "file"
    for checks in ({}, {"md5": MD5}, {"md5": MD5.upper()}):
        assert download(server.url, target, **checks) == target
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None]
    assert [entry.name for entry in target.parent.iterdir()] == ["file"]


def test_two_at_a_time_fetch_a_file_once(tmp_path, serve, monkeypatch):
    server, copied = serve(CONTENT), module._copied

    def slowly(response, file):
        time.sleep(0.3)  # in which the other one begins
        yield from copied(response, file)

    monkeypatch.setattr(module, "_copied", slowly)
    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(download, server.url, tmp_path / "file") for _ in range(2)]
        assert [each.result() for each in both] == [tmp_path / "file"] * 2
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.ranges == [None]
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_broken_transfer_continues_where_it_stopped(tmp_path, serve):
    server = serve(CONTENT)
    server.broken = 2
    assert download(server.url, tmp_path / "file", md5=MD5).read_bytes() == CONTENT
    half = len(CONTENT) // 2
    assert server.ranges == [None, f"bytes={half}-", f"bytes={half + half // 2}-"]


@pytest.mark.parametrize("name", ["begin", "read1"])
def test_a_lost_connection_is_not_taken_for_a_full_disk(tmp_path, serve, monkeypatch, name):
    server, lost = serve(CONTENT), [OSError(errno.EHOSTUNREACH, "No route to host")] * 2
    step = getattr(HTTPResponse, name)
    monkeypatch.setattr(HTTPResponse, name, lambda *args: _raise(lost.pop()) if lost else step(*args))
    assert download(server.url, tmp_path / "file", md5=MD5).read_bytes() == CONTENT
    lost += [OSError(errno.EHOSTUNREACH, "No route to host")] * ATTEMPTS
    with pytest.raises(DataError, match=f"broke off {ATTEMPTS} times .*No route to host.*; 0 bytes are kept"):
        download(server.url, tmp_path / "other")


def _raise(error):
    raise error


def test_later_run_continues(tmp_path, serve):
    server = serve(CONTENT)
    server.broken = ATTEMPTS
    with pytest.raises(DataError, match=f"broke off {ATTEMPTS} times .*bytes are kept in .*file.part; run the same"):
        download(server.url, tmp_path / "file")
    assert not (tmp_path / "file").exists()
    download(server.url, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.ranges[-1] is not None


def test_server_that_cannot_resume(tmp_path, serve):
    server = serve(CONTENT)
    server.resumes = False
    server.broken = 1
    assert download(server.url, tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("part", [CONTENT, CONTENT + b"more"])
def test_part_that_is_complete_or_too_long(tmp_path, serve, part):
    (tmp_path / "file.part").write_bytes(part)
    assert download(serve(CONTENT).url, tmp_path / "file").read_bytes() == CONTENT


def test_wrong_checksum_is_retried_once_then_refused(tmp_path, serve):
    server = serve(CONTENT)
    with pytest.raises(DataError, match=f"md5 is {MD5} and must be 00ff, twice; the file was deleted"):
        download(server.url, tmp_path / "file", md5="00FF")
    assert server.ranges == [None, None]
    assert not list(tmp_path.iterdir())


def test_damaged_part_is_healed_by_the_retry(tmp_path, serve):
    (tmp_path / "file.part").write_bytes(b"garbage")
    assert download(serve(CONTENT).url, tmp_path / "file", md5=MD5).read_bytes() == CONTENT


def test_damaged_file_is_fetched_again(tmp_path, serve):
    (tmp_path / "file").write_bytes(b"garbage")
    assert download(serve(CONTENT).url, tmp_path / "file", md5=MD5).read_bytes() == CONTENT


def test_downloads_have_a_user_agent_of_their_own(tmp_path, serve):
    """Some mirrors refuse that of Python itself."""
    server = serve(CONTENT)
    download(server.url, tmp_path / "file")
    assert [agent.partition("/")[0] for agent in server.agents] == ["espnet_diverse"]
    server.status = 403
    with pytest.raises(
        DataError, match=f"HTTP status 403 .*; the server refuses .* by hand and save it as {tmp_path}/x$"
    ):
        download(server.url, tmp_path / "x")


def test_refusals_of_the_server(tmp_path, serve):
    server = serve(CONTENT)
    server.kind = "text/html"
    with pytest.raises(DataError, match="answered with a web page instead of a file"):
        download(server.url, tmp_path / "file")
    server.kind, server.status = "text/plain", 404
    with pytest.raises(DataError, match="HTTP status 404 Not Found; check the address"):
        download(server.url, tmp_path / "file")
    for server.status in (503, 429, 408):
        with pytest.raises(DataError, match=f"broke off {ATTEMPTS} times .HTTP status {server.status}"):
            download(server.url, tmp_path / "file")
    server.close()
    with pytest.raises(DataError, match=f"broke off {ATTEMPTS} times .*refused.*; 0 bytes are kept"):
        download(server.url, tmp_path / "file")
    with pytest.raises(DataError, match="file:///etc/passwd: only http and https addresses"):
        download("file:///etc/passwd", tmp_path / "file")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("length", ["many", "-1", "1e9", "0x10", "9" * 30])
def test_a_length_that_is_no_number_is_as_good_as_none(tmp_path, serve, length):
    server = serve(CONTENT)
    server.length = length
    assert download(server.url, tmp_path / "file").read_bytes() == CONTENT


def test_bytes_received_before_a_broken_transfer_are_kept(tmp_path, serve):
    server = serve(CONTENT[:1000])
    server.length, server.broken = "2000", ATTEMPTS
    with pytest.raises(DataError, match="[1-9][0-9]* bytes are kept in"):
        download(server.url, tmp_path / "file")
    assert (tmp_path / "file.part").read_bytes()[:500] == CONTENT[:500]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.zip", b"not a zip", "the file is no .zip, for it begins with b'not a zi'"),
        ("a.tar.gz", b"BZh9" + bytes(99), "the file is no .gz"),
        ("a.tgz", b"{}", "the file is no .tgz"),
        ("a.tar", bytes(600), "the file is no .tar"),
        ("a.tar.bz2", b"x", "the file is no .bz2"),
        ("a.txt", b" \n<!DOCTYPE HTML><p>", "the file is a web page"),
        ("a.txt", b"", "the file is empty"),
    ],
)
def test_files_without_a_checksum_must_match_their_suffix(tmp_path, serve, name, content, said):
    with pytest.raises(DataError, match=f"{said}.*, twice; the file was deleted"):
        download(serve(content).url, tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / name).write_bytes(content)  # a file that an earlier version has kept
    with pytest.raises(DataError, match=said):
        download(serve(content).url, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_disk_too_small_or_not_writable(tmp_path, serve, monkeypatch):
    server = serve(CONTENT)
    (tmp_path / "blocked").touch()
    with pytest.raises(DataError, match="file.part: cannot be written .*; make room or choose another place"):
        download(server.url, tmp_path / "blocked" / "file")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=5))
    with pytest.raises(DataError, match=f"{len(CONTENT)} bytes are needed and 5 are free"):
        download(server.url, tmp_path / "file")
