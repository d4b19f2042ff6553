"""Recordings whose header leaves out half of the samples, by kind, and how each is made at a path."""

import struct
from collections.abc import Callable
from pathlib import Path

from references.bad_audio import RATE, encoded

HALF = RATE  # bytes of half a second of 16-bit samples


def claiming_half(mark: bytes, place: int, form: str, more: int = 0, **options) -> Callable[[Path], str]:
    """A file with the length of half its samples `place` bytes after the last `mark`, and `more` bytes."""

    def make(path: Path) -> str:
        content = bytearray(encoded(path, subtype="PCM_16", **options))
        struct.pack_into(form, content, content.rindex(mark) + place, HALF + more)
        path.write_bytes(content)
        return str(path)

    return make


def in_an_ark(coded: bool) -> Callable[[Path], str]:
    """An entry of an ark that is whole, with a wav as Kaldi writes it or as coded audio."""

    def make(path: Path) -> str:
        KINDS["wav"](path)
        content = path.read_bytes()
        before = b"a AUDIO" + b"\x04" + struct.pack("<I", len(content)) if coded else b"a "
        path.write_bytes(before + content)
        return f"{path}:2"

    return make


KINDS: dict[str, Callable[[Path], str]] = {
    "wav": claiming_half(b"data", 4, "<I", format="WAV"),
    "wav of any channels": claiming_half(b"data", 4, "<I", format="WAVEX"),
    "wav of big numbers": claiming_half(b"data", 4, ">I", format="WAV", endian="BIG"),
    "long wav": claiming_half(b"ds64", 16, "<Q", format="RF64"),
    "aiff": claiming_half(b"SSND", 4, ">I", more=8, format="AIFF"),
    "au": claiming_half(b".snd", 8, ">I", format="AU"),
    "caf": claiming_half(b"data", 4, ">Q", more=4, format="CAF"),
    "wav in an ark": in_an_ark(coded=False),
    "coded wav in an ark": in_an_ark(coded=True),
}
"""By kind what makes the file at a path; the result is its entry in wav.scp."""
