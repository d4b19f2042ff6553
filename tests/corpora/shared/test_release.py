"""Releases of several files: fetched, unpacked, complete or not there; hostile zip archives."""

import gzip
import io
import tarfile
import zipfile

import pytest

from espnet_diverse.corpora.shared.release import fetch_release, unzip
from espnet_diverse.errors import DataError


def zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def tarred(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def test_archives_are_unpacked_and_files_kept(tmp_path, serve):
    contents = {
        "a.zip": zipped({"x/wiki.txt": b"text"}),
        "b.tgz": tarred({"y/lines": b"more"}),
        "train.de.gz": gzip.compress(b"Haus\n"),
    }
    urls = {f"{serve(content).url.removesuffix('file')}{name}": None for name, content in contents.items()}
    corpus_dir = fetch_release(urls, tmp_path / "corpus")
    found = {str(path.relative_to(corpus_dir)): path.read_bytes() for path in corpus_dir.rglob("*") if path.is_file()}
    assert found == {"x/wiki.txt": b"text", "y/lines": b"more", "train.de.gz": contents["train.de.gz"]}
    assert fetch_release({"ftp://nowhere": None}, corpus_dir) == corpus_dir  # nothing is fetched again


def test_a_wrong_checksum_leaves_nothing(tmp_path, serve):
    with pytest.raises(DataError, match="md5 is .* and must be 00, twice"):
        fetch_release({serve(b"x").url: "00"}, tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x"])
def test_members_that_point_outside_are_refused(tmp_path, name):
    (tmp_path / "bad.zip").write_bytes(zipped({name: b"x"}))
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match="bad.zip: member '.*' points outside; the archive cannot be trusted$"):
        unzip(tmp_path / "bad.zip", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_links_are_refused(tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(DataError, match="member 'link' is a link; only files and folders are unpacked$"):
        unzip(tmp_path / "bad.zip", tmp_path)


def test_caps_and_damage(tmp_path):
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped({"a": b"xxxx", "b": b"yy"}))
    with pytest.raises(DataError, match="a.zip: holds 2 members of 6 bytes; 5 bytes and 9 members are allowed$"):
        unzip(archive, tmp_path, max_bytes=5, max_files=9)
    with pytest.raises(DataError, match="6 bytes and 1 members are allowed$"):
        unzip(archive, tmp_path, max_bytes=6, max_files=1)
    archive.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(
        DataError, match="a.zip: cannot be unpacked .*; free space if the disk is full, otherwise delete"
    ):
        unzip(archive, tmp_path)


def test_a_member_without_a_name_is_damage(tmp_path):
    content = bytearray(zipped({"a": b"x"}))
    for mark, place in ((b"PK\x03\x04", 26), (b"PK\x01\x02", 28)):  # lengths of the name and of the extra field
        at = content.index(mark) + place
        content[at : at + 4] = b"\0\0\1\0"
    (tmp_path / "b.zip").write_bytes(content)
    with pytest.raises(DataError, match="b.zip: cannot be unpacked"):
        unzip(tmp_path / "b.zip", tmp_path)
