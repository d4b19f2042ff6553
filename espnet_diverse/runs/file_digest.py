"""SHA-256 digests inside files of weights: a file that was altered or cut is recognised before it is used.

A file of `torch.save` is a zip archive. Its digest is the comment of the archive, "sha256=" and 64 hexadecimal digits,
the last bytes of the file, and covers all bytes before it. A safetensors file has the digest as `sha256` among its
metadata; it covers the rest of the header and the tensors. Other programs read both kinds of file as before.

A file without a digest, from an earlier version or another program, is checked by the CRC-32 of its records if it is a
zip archive, otherwise not at all.
"""

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import safetensors.torch
from torch import Tensor

from espnet_diverse.errors import ModelError

SAFETENSORS = ".safetensors"
_MARK = b"sha256="
_COMMENT = len(_MARK) + 64
_BEGINNING = b"PK\x03\x04"  # the first record of a zip archive
_END = b"PK\x05\x06"  # the last record of a zip archive; the length of the comment is the last 2 of its 22 bytes
_END_SIZE = 22
_BLOCK = 1 << 20


def add_digest(file: BinaryIO) -> None:
    """Add its digest to the zip archive in `file`, which was just written and has no comment."""
    file.seek(-2, 2)
    file.write(_COMMENT.to_bytes(2, "little"))
    end = file.tell()
    file.seek(0)
    digest = _digest(file, end)
    file.seek(end)
    file.write(_MARK + digest.encode())


def safetensors_with_digest(tensors: Mapping[str, Tensor]) -> bytes:
    """The content of a safetensors file with these tensors, and its digest among the metadata."""
    content = safetensors.torch.save(dict(tensors))
    return safetensors.torch.save(dict(tensors), {"sha256": _digest_of_safetensors(content)[0]})


def check_digest(path: Path) -> None:
    """Check the digest of a file of weights, or the CRC-32 of its records if it has none.

    Raises:
        ModelError: The file is altered, or cut off.
        OSError: The file cannot be read.
    """
    if not (_is_sound_safetensors(path) if path.suffix == SAFETENSORS else _is_sound_archive(path)):
        raise ModelError(
            f"{path}: the file is damaged, its content does not fit its SHA-256 or CRC-32; use another checkpoint, "
            "copy it again or train again"
        )


def is_archive(path: Path) -> bool:
    """Return whether a file begins as a zip archive; PyTorch reads any other file as a pickle, whatever its end.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        return file.read(len(_BEGINNING)) == _BEGINNING


def _is_sound_archive(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _COMMENT - _END_SIZE))
        tail = file.read()
        file.seek(0)
        comment = tail[-_COMMENT:]
        if comment.startswith(_MARK):
            return _digest(file, size - _COMMENT).encode() == comment.removeprefix(_MARK)
    if not is_archive(path):
        return True  # `torch.load` will check it
    if not tail[-_END_SIZE:].startswith(_END) or not tail.endswith(b"\0\0"):
        return False  # it had a comment, or is cut off
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError):
        return False


def _is_sound_safetensors(path: Path) -> bool:
    try:
        digest, stored = _digest_of_safetensors(path.read_bytes())
    except (ValueError, AttributeError, TypeError):
        return False
    return stored is None or stored == digest


def _digest_of_safetensors(content: bytes) -> tuple[str, str | None]:
    """The digest of a safetensors file, and the one among its metadata."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    metadata = header.pop("__metadata__", {})
    stored = metadata.pop("sha256", None)
    if stored is None and any(re.fullmatch("[0-9a-f]{64}", value) for value in metadata.values()):
        raise ValueError("the name of the digest is altered")
    described = json.dumps([sorted(header.items()), sorted(metadata.items())])
    hasher = hashlib.sha256(described.encode())
    hasher.update(memoryview(content)[start:])  # a slice of bytes would be a copy
    return hasher.hexdigest(), stored


def _digest(file: BinaryIO, length: int) -> str:
    """SHA-256 of the next `length` bytes of a file."""
    hasher = hashlib.sha256()
    while length > 0:
        block = file.read(min(_BLOCK, length))
        if not block:
            break
        hasher.update(block)
        length -= len(block)
    return hasher.hexdigest()
