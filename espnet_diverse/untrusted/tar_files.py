"""Tar archives of unknown origin, unpacked within limits."""

import tarfile
import zlib
from lzma import LZMAError
from pathlib import Path, PurePosixPath

from espnet_diverse.errors import DataError, first_line
from espnet_diverse.progress import progress

MOST_BYTES, MOST_FILES = 1 << 36, 2_000_000  # of an archive: 64 GiB, against archive bombs, and members
_LONGEST_HEADER = 1 << 16  # bytes; a name has at most 4096
_LATEST = 1 << 40  # seconds since 1970 that a file system may have
_HEADERS = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)


def unpack(archive: Path, target: Path, name: str | None = None) -> None:
    """Unpack a tar archive (plain, gz, bz2, xz) of files and folders into the existing folder `target`.

    Args:
        archive: Path of the archive.
        target: Output folder. Give a staged directory: after an error, the members before it remain there.
        name: Label of the progress bar; None shows no bar.

    Raises:
        DataError: A member is a link or device, points outside `target` or exceeds `MOST_BYTES` or `MOST_FILES`, or the
            archive is damaged.
    """
    total = 0
    try:
        with tarfile.open(archive, "r:*", tarinfo=_Member) as tar:
            for count, member in enumerate(progress(tar, name, unit="file") if name else tar, start=1):
                total += member.size
                _check_member(archive, member)
                if total > MOST_BYTES or count > MOST_FILES:
                    caps = f"{MOST_BYTES} bytes and {MOST_FILES} members are allowed"
                    raise DataError(f"{archive}: {member.name!r} exceeds the limits of an archive; {caps}")
                tar.extract(member, target, filter="data")
                tar.members.clear()  # they would grow with the archive
    except DataError:
        raise
    except (tarfile.TarError, EOFError, zlib.error, LZMAError, OSError, ValueError, OverflowError) as error:
        reason = first_line(error) if str(error) else "it ends too early"
        todo = "free space if the disk is full, otherwise delete the archive and download it again"
        raise DataError(f"{archive}: cannot be unpacked ({reason}); {todo}") from error


class _HeaderError(tarfile.TarError):
    """An error that, unlike a ReadError, does not lead to an attempt with another compression."""


class _Member(tarfile.TarInfo):
    """A member whose headers, such as a long name's, are limited in size, because tarfile reads them into memory."""

    @classmethod
    def frombuf(cls, buf, encoding, errors):
        """Parse a header, before the data that it announces is read."""
        return cls._checked(super().frombuf(buf, encoding, errors))

    @classmethod
    def _frombuf(cls, buf, *rest, **options):  # newer versions of Python, such as 3.13.5, call it instead
        return cls._checked(super()._frombuf(buf, *rest, **options))  # type: ignore[misc]

    @staticmethod
    def _checked(member: tarfile.TarInfo) -> tarfile.TarInfo:
        if member.type in _HEADERS and member.size > _LONGEST_HEADER:
            raise _HeaderError(f"a header of {member.size} bytes; at most {_LONGEST_HEADER} are allowed")
        return member


def _check_member(archive: Path, member: tarfile.TarInfo) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise DataError(f"{archive}: member {member.name!r} points outside; the archive cannot be trusted")
    if not (member.isfile() or member.isdir()):
        raise DataError(f"{archive}: member {member.name!r} is a link or device; only files and folders are unpacked")
    if not 0 <= member.mtime < _LATEST or not 0 <= member.size < 1 << 63:  # arbitrary values in the POSIX format
        reason = f"has time {member.mtime} and size {member.size}"
        raise DataError(f"{archive}: member {member.name!r} {reason}; the archive is damaged or cannot be trusted")
