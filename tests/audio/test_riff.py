"""Bytes of a wav file that its header leaves out."""

import numpy as np
import pytest
import soundfile

from espnet_diverse.audio.riff import unread_bytes


@pytest.fixture
def wav(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, np.linspace(-0.5, 0.5, 8001), 16000, subtype="PCM_16")
    return path


def test_whole_files_and_other_chunks_leave_nothing_out(wav, tmp_path):
    assert unread_bytes(wav) == 0
    content = wav.read_bytes()
    wav.write_bytes(content + b"LIST" + (2000).to_bytes(4, "little") + bytes(2000))
    assert unread_bytes(wav) == 0
    wav.write_bytes(content + bytes(100))  # padding
    assert unread_bytes(wav) == 0
    for text in (b"", b"RIFF", b"RIFF....WAVE", b"fLaC" + bytes(4000)):
        (tmp_path / "b").write_bytes(text)
        assert unread_bytes(tmp_path / "b") == 0


def test_samples_after_the_length_in_the_header_are_counted(wav):
    content = bytearray(wav.read_bytes())
    content[40:44] = (6002).to_bytes(4, "little")
    wav.write_bytes(content)
    assert unread_bytes(wav) == 10_000
    wav.write_bytes(content + b"RIFF" + bytes(3000))  # a second file behind it
    assert unread_bytes(wav) == 13_004
