"""Audio with missing or wrong length headers."""

import numpy as np
import pytest
import soundfile
from references.converted_audio import piped_flac, run_ffmpeg, seconds_and_pitches

from espnet_diverse.audio.reading import read_audio
from espnet_diverse.audio.resampling import RATE
from espnet_diverse.errors import DataError


@pytest.fixture
def flac_from_a_pipe(tmp_path, ffmpeg):
    return piped_flac(tmp_path)


def test_flac_from_a_pipe_is_read(flac_from_a_pipe):
    assert soundfile.info(flac_from_a_pipe).frames > 1 << 60  # which is not true
    assert seconds_and_pitches(flac_from_a_pipe) == (2.0, [440] * 2)


def test_damaged_flac_from_a_pipe_is_refused(flac_from_a_pipe):
    content = bytearray(flac_from_a_pipe.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    flac_from_a_pipe.write_bytes(content)
    with pytest.raises(DataError, match=r"x\.flac: cannot be decoded \(.*\); the file is damaged"):
        seconds_and_pitches(flac_from_a_pipe)


@pytest.fixture(scope="module")
def broadcast(tmp_path_factory, ffmpeg):
    """Three seconds of noise, loud or soft first, in mp3 of variable bit rate without its length."""
    folder = tmp_path_factory.mktemp("broadcast")
    noise = np.random.default_rng(0).standard_normal(48_000)
    paths = []
    for name, loud in (("loud", slice(0, 16_000)), ("soft", slice(32_000, 48_000))):
        samples = 1e-4 * noise
        samples[loud] = 0.2 * noise[loud]
        soundfile.write(folder / f"{name}.wav", samples, 16_000)
        how = ["-q:a", "7", "-write_xing", "0", "-metadata", "title=ä", folder / f"{name}.mp3"]
        run_ffmpeg("-i", folder / f"{name}.wav", *how)
        paths.append(folder / f"{name}.mp3")
    return paths


def test_mp3_without_its_length_is_read_to_its_end(broadcast):
    estimated = [soundfile.info(path).duration for path in broadcast]
    assert estimated[0] < 2.5 and estimated[1] > 4  # else there would be nothing to correct
    for path, loud in zip(broadcast, (slice(2000, 14_000), slice(36_000, 46_000)), strict=True):
        samples, rate = read_audio(path)
        assert rate == RATE and len(samples) / RATE == pytest.approx(3.0, abs=0.15)
        assert np.abs(samples[loud]).mean() > 0.1 and np.abs(samples).mean() < 0.1


def test_mp3_without_its_length_nor_sound_is_refused(tmp_path):
    (tmp_path / "x.mp3").write_bytes(b"\xff\xfb\x90\x00" + bytes(20_000))
    with pytest.raises(DataError, match=r"x\.mp3: not readable as audio"):
        read_audio(tmp_path / "x.mp3")
