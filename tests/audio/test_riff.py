"""Bytes that the header of a file leaves out."""

import io
import struct

import pytest
from references.bad_audio import encoded
from references.lying_headers import KINDS

from espnet_diverse.audio.riff import unread_bytes

FORMATS = [
    {"format": "WAV"},
    {"format": "WAV", "endian": "BIG"},
    {"format": "WAVEX"},
    {"format": "RF64"},
    {"format": "AIFF"},
    {"format": "AU"},
    {"format": "CAF"},
]


def unread(content):
    return unread_bytes(io.BytesIO(content))


@pytest.fixture
def wav(tmp_path):
    return encoded(tmp_path / "a.wav", format="WAV", subtype="PCM_16")


@pytest.mark.parametrize("options", FORMATS, ids=str)
@pytest.mark.parametrize("subtype", ["PCM_16", "FLOAT"])
def test_whole_files_leave_nothing_out(options, subtype, tmp_path):
    content = encoded(tmp_path / "a", subtype=subtype, **options)
    assert unread(content) == 0
    assert unread(content + bytes(100)) == 0  # padding


def test_other_chunks_are_no_samples(wav, tmp_path):
    assert unread(wav + b"LIST" + struct.pack("<I", 2000) + bytes(2000)) == 0
    assert unread(wav + b"LIST" + struct.pack("<I", 2001) + bytes(2002)) == 0
    aiff = encoded(tmp_path / "a", format="AIFF")
    assert unread(aiff + b"ANNO" + struct.pack(">I", 2000) + bytes(2000)) == 0


@pytest.mark.parametrize("content", [b"", b"RIFF", b"RIFF....WAVE", b"FORM....AIFF", b".snd", b"caff", b"RF64....WAVE"])
def test_a_part_of_a_header_leaves_nothing_out(content):
    assert unread(content) == unread(b"fLaC" + bytes(4000)) == 0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "ark" not in kind])
def test_samples_after_the_length_in_the_header_are_counted(kind, tmp_path):
    KINDS[kind](tmp_path / "a")
    assert unread((tmp_path / "a").read_bytes()) == 16_000


def test_a_second_file_behind_the_first_is_counted(wav):
    assert unread(wav + wav) == len(wav)


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF])
def test_a_length_that_was_never_filled_in_leaves_nothing_out(wav, size, tmp_path):
    assert unread(wav[:40] + struct.pack("<I", size) + wav[44:]) == 0
    au = encoded(tmp_path / "a", format="AU")
    assert unread(au[:8] + struct.pack(">I", size) + au[12:]) == 0


def test_a_wav_that_was_never_closed_is_read_whole(wav):
    """libsndfile takes sizes of 8 and 0 for unknown, and reads to the end of the file."""
    assert unread(wav[:4] + struct.pack("<I", 8) + wav[8:40] + bytes(4) + wav[44:]) == 0
