"""Fetch the files that a release consists of and lay them out in one folder, all of it or nothing."""

import shutil
import stat
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from espnet_diverse.corpora.shared.download import download, unpack
from espnet_diverse.data.atomic_files import staged_directory
from espnet_diverse.errors import DataError


def fetch_release(urls: Mapping[str, str | None], corpus_dir: Path) -> Path:
    """Fetch files and unpack those that are archives (tar, tgz, zip) into `corpus_dir`.

    Args:
        urls: Address of each file and its md5 checksum, None where none is published.
        corpus_dir: Where the release is to lie; the files are fetched to the folder above it.

    Returns:
        `corpus_dir`; at once where an earlier call finished.

    Raises:
        DataError: a file cannot be fetched or unpacked.
    """
    if corpus_dir.is_dir():
        return corpus_dir
    fetched = [
        download(url, corpus_dir.parent / PurePosixPath(urlsplit(url).path).name, md5) for url, md5 in urls.items()
    ]
    with staged_directory(corpus_dir) as staging:
        for file in fetched:
            if file.suffix == ".zip":
                unzip(file, staging)
            elif file.suffix in (".tar", ".tgz") or ".tar." in file.name:
                unpack(file, staging, f"unpack {file.name}")
            else:
                shutil.copyfile(file, staging / file.name)
    return corpus_dir


def unzip(archive: Path, target: Path, max_bytes: int = 1 << 36, max_files: int = 2_000_000) -> None:
    """Unpack a zip archive of files and folders into the existing folder `target`.

    Args:
        archive: The archive.
        target: Where to; give a staged directory, for a refused archive leaves there what came before the fault.
        max_bytes: Greatest sum of file sizes, against archive bombs (64 GiB).
        max_files: Greatest number of members.

    Raises:
        DataError: naming the member that is a link or points outside `target`; or the archive, where it is damaged or
            passes a cap.
    """
    try:
        with zipfile.ZipFile(archive) as zipped:
            members = zipped.infolist()
            size = sum(member.file_size for member in members)
            if size > max_bytes or len(members) > max_files:
                caps = f"{max_bytes} bytes and {max_files} members are allowed"
                raise DataError(f"{archive}: holds {len(members)} members of {size} bytes; {caps}")
            for member in members:
                _check_member(archive, member)
                zipped.extract(member, target)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        todo = "make room where the disk is full, else delete the archive and fetch it again"
        raise DataError(f"{archive}: cannot be unpacked ({error}); {todo}") from error


def _check_member(archive: Path, member: zipfile.ZipInfo) -> None:
    name = PurePosixPath(member.filename)
    if name.is_absolute() or ".." in name.parts:
        raise DataError(f"{archive}: member {member.filename!r} points outside; the archive is not to be trusted")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise DataError(f"{archive}: member {member.filename!r} is a link; only files and folders are unpacked")
