"""Tar archives: good ones are unpacked, and hostile or damaged ones are refused."""

import io
import tarfile

import pytest

from espnet_diverse.errors import DataError
from espnet_diverse.untrusted import tar_files
from espnet_diverse.untrusted.tar_files import unpack


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", content: bytes = b"") -> tuple:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(content)
    return info, io.BytesIO(content)


@pytest.fixture
def archive(tmp_path):
    """archive(*members, mode="w:gz") -> path of a tar with these members."""

    def make(*members, mode="w:gz"):
        with tarfile.open(tmp_path / "archive", mode) as tar:
            for info, content in members:
                tar.addfile(info, content)
        (tmp_path / "target").mkdir(exist_ok=True)
        return tmp_path / "archive"

    return make


@pytest.mark.parametrize("mode", ["w:", "w:gz", "w:bz2", "w:xz"])
def test_good_archive_is_unpacked(tmp_path, archive, mode, capsys):
    packed = archive(member("a", tarfile.DIRTYPE), member("a/文件", content=b"hello"), mode=mode)
    unpack(packed, tmp_path / "target", "unpack it")
    assert (tmp_path / "target" / "a" / "文件").read_bytes() == b"hello"
    assert "unpack it: 2 files" in capsys.readouterr().err


HOSTILE = {
    "parent": (member("../outside", content=b"x"), "points outside"),
    "parent inside": (member("a/../../outside", content=b"x"), "points outside"),
    "absolute": (member("/outside", content=b"x"), "points outside"),
    "symbolic link": (member("link", tarfile.SYMTYPE, "../outside"), "is a link or device"),
    "hard link": (member("link", tarfile.LNKTYPE, "../outside"), "is a link or device"),
    "device": (member("null", tarfile.CHRTYPE), "is a link or device"),
    "fifo": (member("pipe", tarfile.FIFOTYPE), "is a link or device"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archives_are_refused(tmp_path, archive, kind):
    bad, what = HOSTILE[kind]
    with pytest.raises(DataError, match=what):
        unpack(archive(bad), tmp_path / "target")
    assert not list((tmp_path / "target").iterdir())
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["archive", "target"]


def test_archive_bombs_are_refused(tmp_path, archive, monkeypatch):
    monkeypatch.setattr(tar_files, "MOST_BYTES", 1000)
    monkeypatch.setattr(tar_files, "MOST_FILES", 5)
    with pytest.raises(DataError, match="'big' exceeds the limits of an archive; 1000 bytes and 5 members are allowed"):
        unpack(archive(member("big", content=bytes(1001))), tmp_path / "target")
    many = [member(f"file{number}") for number in range(6)]
    with pytest.raises(DataError, match="'file5' exceeds the limits"):
        unpack(archive(*many), tmp_path / "target")


def test_damaged_archives_are_named(tmp_path, archive):
    packed = archive(member("a", content=bytes(range(256)) * 100))
    whole = packed.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"<html>"):
        packed.write_bytes(damaged)
        with pytest.raises(
            DataError, match=f"^{packed}: cannot be unpacked \\(.*\\); free space .* download it again$"
        ):
            unpack(packed, tmp_path / "target")


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_header_of_gigabytes_is_refused_before_it_is_read(tmp_path, kind):
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = kind, 6 << 30
    with (tmp_path / "bomb.tar").open("wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.truncate(7 << 30)  # of zeros, which take no room
    with pytest.raises(DataError, match="bomb.tar: cannot be unpacked .a header of 6442450944 bytes; at most 65536"):
        unpack(tmp_path / "bomb.tar", tmp_path)


def test_long_names_are_unpacked(tmp_path):
    name = "/".join(["folder" * 20] * 5)
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / "a.tar", "w", format=form) as tar:
            for number in range(5):
                tar.addfile(tarfile.TarInfo(f"{form}/{name}{number}"))
        unpack(tmp_path / "a.tar", tmp_path)
        assert len(list((tmp_path / str(form)).rglob("*folder[0-4]"))) == 5
