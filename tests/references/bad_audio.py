"""Files that are not valid audio, by kind, and how each is made from a valid one."""

import gzip
import math
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile

RATE = 16_000


def sound(seconds: float = 1.0) -> np.ndarray:
    """A tone with some noise, (T,) float32."""
    time = np.arange(round(seconds * RATE)) / RATE
    noise = np.random.default_rng(0).standard_normal(len(time))
    return (0.3 * np.sin(2 * math.pi * 600 * time) + 0.01 * noise).astype(np.float32)


def encoded(path: Path, **options) -> bytes:
    """The tone in some format; `path` holds it for a moment."""
    soundfile.write(path, sound(), RATE, **options)
    content = path.read_bytes()
    path.unlink()
    return content


def raw(content: bytes) -> Callable[[Path], object]:
    """A file of that content."""
    return lambda path: path.write_bytes(content)


def truncated(share: float, **options) -> Callable[[Path], object]:
    """The first part of a file in some format."""

    def make(path: Path) -> None:
        whole = encoded(path, **options)
        path.write_bytes(whole[: int(share * len(whole))])

    return make


def flipped(**options) -> Callable[[Path], object]:
    """A file in some format with a hundred bytes in the middle inverted."""

    def make(path: Path) -> None:
        content = bytearray(encoded(path, **options))
        for place in range(len(content) // 2, len(content) // 2 + 100):
            content[place] ^= 0xFF
        path.write_bytes(content)

    return make


def patched(place: int, form: str, value: int) -> Callable[[Path], object]:
    """A 16-bit wav with one number in its header of 44 bytes replaced."""

    def make(path: Path) -> None:
        content = bytearray(encoded(path, subtype="PCM_16", format="WAV"))
        struct.pack_into(form, content, place, value)
        path.write_bytes(content)

    return make


def spoiled(value: float, place: int, subtype: str = "FLOAT") -> Callable[[Path], object]:
    """A floating-point wav with one sample replaced."""

    def make(path: Path) -> None:
        samples = sound()
        samples[place] = value
        soundfile.write(path, samples, RATE, subtype=subtype, format="WAV")

    return make


def left_by_a_socket(path: Path) -> None:
    """The name that a socket leaves behind."""
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(path.parent)  # the names of sockets are short
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


MP3 = {"format": "MP3", "subtype": "MPEG_LAYER_III"}
OGG = {"format": "OGG", "subtype": "VORBIS"}
OPUS = {"format": "OGG", "subtype": "OPUS"}
NOISE = np.random.default_rng(1).bytes(5000)

KINDS: dict[str, Callable[[Path], object]] = {
    # Nothing to read.
    "missing": lambda path: None,
    "folder": Path.mkdir,
    "fifo": os.mkfifo,
    "socket": left_by_a_socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "empty": raw(b""),
    "one byte": raw(b"R"),
    # Something else under the name of audio.
    "words": raw(b"some words about nothing\n" * 40),
    "words in UTF-16": raw("some words about nothing\n".encode("utf-16") * 40),
    "web page": raw(b"<!DOCTYPE html><html><body>404 Not Found</body></html>"),
    "json": raw(b'{"error": "not found"}'),
    "zeros": raw(bytes(4000)),
    "ones": raw(b"\xff" * 4000),
    "random bytes": raw(NOISE),
    "samples without a header": lambda path: path.write_bytes((sound() * 9999).astype(np.int16).tobytes()),
    "zip": raw(b"PK\x03\x04" + NOISE),
    "pickle": raw(b"\x80\x04\x95\x0f\x00\x00\x00\x00\x00\x00\x00\x8c\x08builtins\x94."),
    "picture": raw(b"\x89PNG\r\n\x1a\n" + NOISE),
    "midi": raw(b"MThd\x00\x00\x00\x06\x00\x00\x00\x01\x00\x60MTrk" + bytes(40)),
    "playlist": raw(b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n#EXT-X-ENDLIST\n"),
    "zipped wav": lambda path: path.write_bytes(gzip.compress(encoded(path, format="WAV"))),
    # wav.
    "wav without samples": lambda path: soundfile.write(path, np.zeros(0), RATE, format="WAV"),
    "wav of four bytes": raw(b"RIFF"),
    "wav truncated in the header": truncated(0.001, format="WAV"),
    "wav truncated": truncated(0.5, format="WAV"),
    "wav truncated at the last sample": truncated(0.9999, format="WAV"),
    "wav that claims more": patched(40, "<I", 40_000),
    "wav of no channels": patched(22, "<H", 0),
    "wav of 65535 channels": patched(22, "<H", 65_535),
    "wav of 0 Hz": patched(24, "<I", 0),
    "wav of 1 Hz": patched(24, "<I", 1),
    "wav of 4 GHz": patched(24, "<I", 0xFFFFFFFF),
    "wav of 0 bits": patched(34, "<H", 0),
    "wav of an unknown codec": patched(20, "<H", 0x7777),
    "wav without its RIFF": patched(0, "<I", 0),
    "NaN": spoiled(math.nan, 700),
    "NaN in doubles": spoiled(math.nan, 700, "DOUBLE"),
    "NaN at the end": spoiled(math.nan, -1),
    "infinity": spoiled(math.inf, 700),
    "minus infinity": spoiled(-math.inf, 0),
    "unscaled": spoiled(20_000.0, 700),
    # Compressed.
    "flac truncated": truncated(0.5, format="FLAC"),
    "flac truncated in the header": truncated(0.002, format="FLAC"),
    "flac flipped": flipped(format="FLAC"),
    "mp3 truncated": truncated(0.5, **MP3),
    "mp3 of a title alone": raw(b"ID3\x03\x00\x00\x00\x00\x00\x0aTIT2" + bytes(60)),
    "ogg truncated": truncated(0.5, **OGG),
    "ogg truncated in the header": truncated(0.02, **OGG),
    "ogg flipped": flipped(**OGG),
    "opus truncated": truncated(0.5, **OPUS),
    "opus truncated in the header": truncated(0.02, **OPUS),
    "opus flipped": flipped(**OPUS),
    "aiff truncated": truncated(0.5, format="AIFF"),
    "au truncated": truncated(0.5, format="AU"),
    "sph truncated": truncated(0.5, format="NIST"),
    "caf truncated": truncated(0.5, format="CAF"),
    "w64 truncated": truncated(0.5, format="W64"),
    # For ffmpeg.
    "m4a of its type alone": raw(b"\0\0\0\x20ftypM4A \0\0\0\0M4A isom"),
    "m4a of noise": raw(b"\0\0\0\x20ftypM4A \0\0\0\0M4A isom" + NOISE),
    "webm of noise": raw(b"\x1a\x45\xdf\xa3" + NOISE),
    "aac of noise": raw(b"\xff\xf1\x50\x80" + NOISE),
    "wma of noise": raw(b"\x30\x26\xb2\x75\x8e\x66\xcf\x11" + NOISE),
    "amr of noise": raw(b"#!AMR\n" + NOISE[:3]),
}
"""By kind what makes the file at a path."""
