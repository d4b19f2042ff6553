"""Addresses of the audio of utterances."""

import base64
import io
from urllib.parse import unquote

import numpy as np
import pytest
import soundfile

from espnet_diverse.scoring.figures.audio_links import AudioLinks


@pytest.fixture
def data(tmp_path):
    """A data directory with a wav of one second, an ark and a pipe."""
    samples = np.sin(np.arange(8000) / 10).astype(np.float32) / 2
    soundfile.write(tmp_path / "a b#?.wav", samples, 8000)
    folder = tmp_path / "data"
    folder.mkdir()
    paths = f"r {tmp_path}/a b#?.wav\nark {tmp_path}/wav.1.ark:12\npipe sox x.wav - |\ngone {tmp_path}/gone.wav\n"
    (folder / "wav.scp").write_text(paths)
    return folder


def test_links_are_relative_and_quoted(data, tmp_path):
    links = AudioLinks(data, tmp_path / "exp/test/page.html")
    assert links.of("r") == "../../a%20b%23%3F.wav" and unquote(links.of("r")) == "../../a b#?.wav"
    assert [links.of(name) for name in ("ark", "pipe", "gone", "unknown")] == [None] * 4
    assert AudioLinks(tmp_path, tmp_path / "page.html").of("r") is None


def test_segments_are_parts_of_a_recording(data, tmp_path):
    (data / "segments").write_text("u1 r 0.25 0.75\nu2 r 0.5 -1\n")
    links = AudioLinks(data, tmp_path / "page.html")
    assert [links.of(name) for name in ("u1", "u2")] == ["a%20b%23%3F.wav#t=0.25,0.75", "a%20b%23%3F.wav#t=0.5"]


def test_embedded_audio_matches_the_segment(data, tmp_path):
    (data / "segments").write_text("u1 r 0.25 0.75\n")
    kind, _, content = AudioLinks(data, tmp_path / "page.html", embed=True).of("u1").partition(",")
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(content)), dtype="float32")
    assert (kind, rate) == ("data:audio/flac;base64", 8000)
    assert np.array_equal(samples, soundfile.read(tmp_path / "a b#?.wav", dtype="float32")[0][2000:6000])


def test_audio_that_cannot_be_embedded_is_named(data, tmp_path):
    links = AudioLinks(data, tmp_path / "page.html", embed=True)
    assert links.of("gone") is None and links.of("r") is not None
    assert list(links.unread) == ["gone"] and "gone.wav" in links.unread["gone"]
