"""Releases of several files: fetched, unpacked, complete or not there."""

import gzip
import io
import tarfile

import pytest
from untrusted.test_zip_files import zipped

from espnet_diverse.corpora.shared.release import fetch_release
from espnet_diverse.errors import DataError


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
