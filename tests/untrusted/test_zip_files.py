"""Zip archives that are hostile or damaged are refused."""

import io
import zipfile

import pytest

from espnet_diverse.errors import DataError
from espnet_diverse.untrusted.zip_files import unzip


def zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


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
