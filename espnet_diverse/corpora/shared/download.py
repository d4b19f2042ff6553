"""Downloads of archives and files, which are resumed after an interruption and verified."""

import hashlib
import re
import shutil
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse
from math import ceil
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from espnet_diverse import __version__
from espnet_diverse.data.files.locks import file_lock
from espnet_diverse.errors import DataError
from espnet_diverse.progress import progress

ATTEMPTS = 5
PAUSE_SECONDS = 2.0
TIMEOUT_SECONDS = 60.0
_CHUNK_BYTES = 1 << 20
_HEADERS_SENT = {"User-Agent": f"espnet_diverse/{__version__}"}  # some mirrors refuse that of Python itself
_PASSING = (408, 429)  # HTTP statuses below 500 after which a later attempt may succeed
_LENGTH = re.compile("[0-9]{1,18}")
_WEB_PAGE = (b"<!doctype html", b"<html")
_MAGIC = {
    ".zip": (0, b"PK"),
    ".gz": (0, b"\x1f\x8b"),
    ".tgz": (0, b"\x1f\x8b"),
    ".bz2": (0, b"BZh"),
    ".xz": (0, b"\xfd7zXZ"),
    ".tar": (257, b"ustar"),
}
"""Position and value of the bytes that identify a kind of file, by suffix."""


def download(url: str, target: Path, md5: str | None = None) -> Path:
    """Download `url` to `target`; an interrupted download is resumed, also by a later run.

    Args:
        url: Address with http or https.
        target: Path of the file, which is created when the download is complete; until then the data is in
            `<target>.part`.
        md5: Expected MD5 checksum in hexadecimal digits, if known.

    Returns:
        `target`. Nothing is downloaded if it exists and its checksum, if given, is right. If another process is
        downloading it, the call waits for its end.

    Raises:
        DataError: The address cannot be fetched or returns a web page, the disk is full, or the checksum is wrong twice
            (the file is then deleted).
    """
    if not url.startswith(("http://", "https://")):
        raise DataError(f"{url}: only http and https addresses can be fetched")
    if target.exists() and not _wrong(target, target.name, md5):
        return target
    partial = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(target):  # two processes that append to one file would damage it
            if target.exists() and _wrong(target, target.name, md5):
                target.unlink()
            return target if target.exists() else _complete(url, partial, target, md5)
    except OSError as error:
        raise DataError(f"{partial}: cannot be written ({error}); make room or choose another place") from error


def _complete(url: str, partial: Path, target: Path, md5: str | None) -> Path:
    for _ in range(2):
        _fetch(url, partial)
        wrong = _wrong(partial, target.name, md5)
        if not wrong:
            return partial.replace(target)
        partial.unlink()
    raise DataError(f"{url}: {wrong}, twice; the file was deleted: try later or another source")


def _wrong(path: Path, name: str, md5: str | None) -> str:
    """The fault of a file with this name, or ""."""
    return _wrong_checksum(path, md5) or _wrong_content(path, name)


def _fetch(url: str, partial: Path) -> None:
    problem: Exception | str = ""
    for attempt in range(ATTEMPTS):
        time.sleep(PAUSE_SECONDS * attempt)
        try:
            problem = _fetch_rest(url, partial)
        except HTTPError as error:
            problem = f"HTTP status {error.code} {error.reason}"
            if error.code == 416:  # the partial file is complete, or too long: start again
                if (error.headers.get("Content-Range") or "").rpartition("/")[2] == str(_size(partial)):
                    return
                partial.unlink(missing_ok=True)
            elif error.code < 500 and error.code not in _PASSING:
                why = "the server refuses this program" if error.code == 403 else "check the address"
                by_hand = f"or fetch the file by hand and save it as {partial.with_suffix('')}"
                raise DataError(f"{url}: {problem}; {why}, {by_hand}") from error
        except (URLError, HTTPException, ConnectionError) as error:
            problem = getattr(error, "reason", None) or error
        if not problem:
            return
    again = f"{_size(partial)} bytes are kept in {partial}; run the same command again to resume"
    raise DataError(f"{url}: broke off {ATTEMPTS} times ({problem}); {again}")


def _fetch_rest(url: str, partial: Path) -> str:
    """Download the rest of `partial`; return "" if it is complete, otherwise how much is missing."""
    have = _size(partial)
    request = Request(url, headers=_HEADERS_SENT | ({"Range": f"bytes={have}-"} if have else {}))
    with _online(urlopen, request, timeout=TIMEOUT_SECONDS) as response:
        if response.headers.get_content_type() == "text/html":
            raise DataError(f"{url}: answered with a web page instead of a file; check the address or the connection")
        if have and not (response.headers.get("Content-Range") or "").startswith(f"bytes {have}-"):
            have = 0  # the server cannot resume and sends the whole file
        length = response.headers.get("Content-Length") or ""
        missing = int(length) if _LENGTH.fullmatch(length) else None  # anything else counts as no length
        _check_space(partial, missing or 0)
        with partial.open("ab" if have else "wb") as file:
            total = ceil(missing / _CHUNK_BYTES) if missing is not None else None
            for _ in progress(_copied(response, file), f"fetch {partial.stem}", total, "MiB"):
                pass
    if missing is not None and _size(partial) < have + missing:
        return f"{_size(partial)} of {have + missing} bytes arrived"
    return ""


def _online(step: Callable, *args, **kwargs):
    """Call a function of the network. An OSError becomes a ConnectionError, since one of the disk is not retried."""
    try:
        return step(*args, **kwargs)
    except URLError:
        raise
    except OSError as error:
        raise ConnectionError(error) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _copied(response: HTTPResponse, file: BinaryIO) -> Iterator[None]:
    """Write received data at once, so that it is kept if the rest does not arrive; yield after each MiB."""
    copied = 0
    while chunk := _online(response.read1, _CHUNK_BYTES):
        file.write(chunk)
        before, copied = copied, copied + len(chunk)
        yield from (None for _ in range(copied // _CHUNK_BYTES - before // _CHUNK_BYTES))
    if copied % _CHUNK_BYTES:
        yield None


def _check_space(partial: Path, needed: int) -> None:
    free = shutil.disk_usage(partial.parent).free
    if free < needed:
        raise DataError(f"{partial.parent}: {needed} bytes are needed and {free} are free; make room and run again")


def _wrong_checksum(path: Path, md5: str | None) -> str:
    """Compare with the given checksum; return a description of the difference, or ""."""
    if md5 is None:
        return ""
    # Corpora publish no other checksums; MD5 detects damage in transit, not tampering.
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    return "" if digest == md5.lower() else f"md5 is {digest} and must be {md5.lower()}"


def _wrong_content(path: Path, name: str) -> str:
    """The reason why a file is not of the kind that its name states, by its first bytes; "" if it may be."""
    with path.open("rb") as file:
        head = file.read(512)
    if not head:
        return "the file is empty"
    if head.lstrip().lower().startswith(_WEB_PAGE):
        return "the file is a web page"
    for suffix, (place, magic) in _MAGIC.items():
        if name.endswith(suffix) and head[place : place + len(magic)] != magic:
            return f"the file is no {suffix}, for it begins with {head[:8]!r}"
    return ""
