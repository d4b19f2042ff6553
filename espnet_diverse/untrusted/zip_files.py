"""Zip archives of unknown origin, unpacked within limits."""

import stat
import struct
import zipfile
import zlib
from lzma import LZMAError
from pathlib import Path, PurePosixPath

from espnet_diverse.errors import DataError
from espnet_diverse.untrusted.foreign_yaml import shortened
from espnet_diverse.untrusted.tar_files import MOST_BYTES, MOST_FILES

_DAMAGED = (NotImplementedError, RuntimeError, EOFError, OSError, IndexError, ValueError)
"""Errors that zipfile raises for damaged fields, such as the IndexError of an empty name."""


def unzip(archive: Path, target: Path, max_bytes: int = MOST_BYTES, max_files: int = MOST_FILES) -> None:
    """Unpack a zip archive of files and folders into the existing folder `target`.

    Args:
        archive: Path of the archive.
        target: Output folder. Give a staged directory: after an error, the members before it remain there.
        max_bytes: Maximum sum of file sizes, against archive bombs.
        max_files: Maximum number of members.

    Raises:
        DataError: A member is a link or points outside `target`, or the archive is damaged or exceeds a limit.
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
    except DataError:
        raise
    except (zipfile.BadZipFile, zlib.error, LZMAError, struct.error, *_DAMAGED) as error:
        todo = "free space if the disk is full, otherwise delete the archive and download it again"
        raise DataError(f"{archive}: cannot be unpacked ({shortened(str(error))}); {todo}") from error


def _check_member(archive: Path, member: zipfile.ZipInfo) -> None:
    name = PurePosixPath(member.filename)
    if name.is_absolute() or ".." in name.parts:
        raise DataError(f"{archive}: member {member.filename!r} points outside; the archive cannot be trusted")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise DataError(f"{archive}: member {member.filename!r} is a link; only files and folders are unpacked")
