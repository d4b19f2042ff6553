"""Progress counts seconds of audio."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from espnet_diverse.transcription import audio_progress
from espnet_diverse.transcription.audio_progress import AudioProgress, header_seconds


@pytest.fixture
def files(tmp_path):
    """Ten seconds, something else, and ninety seconds of 8 kHz."""
    soundfile.write(tmp_path / "a.wav", np.zeros(160_000), 16_000)
    (tmp_path / "b.m4a").write_bytes(b"\0\0\0\x20ftypM4A ")
    soundfile.write(tmp_path / "c.flac", np.zeros(720_000), 8000)
    return [str(tmp_path / name) for name in ("a.wav", "b.m4a", "c.flac")]


@pytest.fixture
def clock(monkeypatch):
    """Seconds that have passed; a test sets them."""
    passed = [0.0]
    monkeypatch.setattr(audio_progress, "time", SimpleNamespace(monotonic=lambda: 100.0 + passed[0]))
    return passed


def test_lines_come_now_and_then_and_count_audio(files, clock, capsys):
    counted = AudioProgress(files, every_seconds=10)
    for passed, index, done, length in ((1, 0, 5, 10), (5, 0, 10, 10), (12, 2, 35, 90), (13, 2, 60, 90)):
        clock[0] = passed
        counted.update(index, done, length)
    counted.finish(0)
    clock[0] = 30
    counted.update(1, 0, 3800)
    counted.finish(1)  # it has failed
    counted.update(2, 90, 90)
    counted.close()
    assert capsys.readouterr().err.splitlines() == [
        "transcribe: 0/3 files, 0:00:45/0:01:40+ of audio, 3.8x real time, 12 s",
        "transcribe: 1/3 files, 0:01:10/1:05:00 of audio, 2.3x real time, 30 s",
        "transcribe: 2/3 files, 0:01:40/0:01:40 of audio, 3.3x real time, 30 s",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_a_bar_once_all_lengths_are_known(files, clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    counted = AudioProgress(files)
    counted.update(1, 0.0, 100.0)
    assert "%" not in sys.stderr.getvalue()
    clock[0] = 2
    counted.update(2, 80.0, 90.0)
    shown = sys.stderr.getvalue().rpartition("\r")[2]
    assert shown.startswith("transcribe: 0/3 files, 0:01:20/0:03:20 of audio, 40x real time |") and "| 40% [" in shown
    counted.finish(0)
    counted.close()
    assert sys.stderr.getvalue().rpartition("\r")[0].rpartition("\r")[2].strip() == ""  # nothing of it stays


def test_a_video_that_is_named_mp3_prints_no_notes(files, tmp_path, capfd):
    frames = b"".join(b"\xff\xfb\x90\x64".ljust(417, b"\1") for _ in range(30))  # as compressed sound may have them
    (tmp_path / "v.mp3").write_bytes(b"\0\0\0\x20ftypM4A ".ljust(9000, b"\0") + frames)
    (tmp_path / "page.mp3").write_text("<html>" * 99)
    assert header_seconds(str(tmp_path / "v.mp3")) is header_seconds(str(tmp_path / "page.mp3")) is None
    assert capfd.readouterr().err == ""


def test_lengths_that_no_header_tells(files, tmp_path):
    (tmp_path / "bad.wav").write_bytes(b"words")
    paths = [*files, "-", str(tmp_path), str(tmp_path / "gone.wav"), "a\0b", str(tmp_path / "bad.wav")]
    assert [header_seconds(path) for path in paths] == [10.0, None, 90.0, *[None] * 5]
