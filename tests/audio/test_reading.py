import tempfile
from math import inf

import numpy as np
import pytest
import soundfile
import soxr
from references.converted_audio import HERTZ, KINDS, SECONDS
from references.data_fixtures import check_audio

from espnet_diverse.audio.reading import inspect_audio, open_file, read_at, read_audio
from espnet_diverse.audio.resampling import RATE, resample
from espnet_diverse.audio.segments import Segment
from espnet_diverse.audio.sources import open_audio
from espnet_diverse.errors import DataError

FORMATS = {
    "wav 8 bit": ("x.wav", {"subtype": "PCM_U8"}),
    "wav 16 bit": ("x.wav", {"subtype": "PCM_16"}),
    "wav 24 bit": ("x.wav", {"subtype": "PCM_24"}),
    "wav float": ("x.wav", {"subtype": "FLOAT"}),
    "wav mu-law": ("x.wav", {"subtype": "ULAW"}),
    "flac": ("x.flac", {"subtype": "PCM_16"}),
    "mp3": ("x.mp3", {"format": "MP3", "subtype": "MPEG_LAYER_III"}),
    "ogg": ("x.ogg", {"format": "OGG", "subtype": "VORBIS"}),
    "opus": ("x.opus", {"format": "OGG", "subtype": "OPUS"}),
    "sph": ("x.sph", {"format": "NIST", "subtype": "PCM_16"}),
}


def hertz(samples: np.ndarray) -> float:
    """Frequency of the strongest component of samples (T,) at 16 kHz."""
    return float(np.argmax(np.abs(np.fft.rfft(samples))) * RATE / len(samples))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("rate", "channels"), [(16000, 1), (8000, 2)])
def test_any_format_rate_and_channel_count(tmp_path, write_wav, name, rate, channels):
    file, options = FORMATS[name]
    path = write_wav(tmp_path / file, seconds=1.0, rate=rate, channels=channels, **options)
    assert check_audio(path).seconds == pytest.approx(1.0, abs=0.01)
    samples, found = read_audio(path)
    brought = resample(samples, found)
    assert brought.dtype == np.float32
    assert len(brought) == pytest.approx(RATE, abs=200)
    assert hertz(brought) == pytest.approx(440, abs=3)
    assert np.abs(brought[1000:-1000]).max() == pytest.approx(0.5, abs=0.03)


def test_channels_are_averaged(tmp_path, tone):
    soundfile.write(tmp_path / "x.wav", np.stack([tone(0.1), 0 * tone(0.1)], axis=1), RATE, subtype="FLOAT")
    np.testing.assert_allclose(read_audio(tmp_path / "x.wav")[0], tone(0.1) / 2)


def test_segments_are_cut_at_the_sample(tmp_path, tone):
    soundfile.write(tmp_path / "x.flac", tone(2.0), RATE)
    samples, _ = read_audio(tmp_path / "x.flac", Segment("x", 0.5, 1.25))
    np.testing.assert_array_equal(samples, tone(2.0)[8000:20000])
    np.testing.assert_array_equal(read_audio(tmp_path / "x.flac", Segment("x", 0.5, inf))[0], tone(2.0)[8000:])
    overshooting, _ = read_audio(tmp_path / "x.flac", Segment("x", 1.5, 2.4))
    assert len(overshooting) == 8000
    with pytest.raises(DataError, match=r"x.flac: segment from 1.5 to 2.6 s lies past the end of the audio at 2.000 s"):
        read_audio(tmp_path / "x.flac", Segment("x", 1.5, 2.6))
    with pytest.raises(DataError, match="past the end"):
        read_audio(tmp_path / "x.flac", Segment("x", 2.0, 2.2))


def test_a_segment_may_name_a_channel(tmp_path, tone):
    stereo = np.stack([tone(1.0), -tone(1.0, hertz=300)], axis=1)
    soundfile.write(tmp_path / "x.wav", stereo, RATE, subtype="FLOAT")
    for channel in (0, 1):
        samples, _ = read_audio(tmp_path / "x.wav", Segment("x", 0.25, inf, channel))
        np.testing.assert_array_equal(samples, stereo[4000:, channel])
    with pytest.raises(DataError, match=r"x.wav: segment has channel 2, and the audio has 2, counted from 0$"):
        read_audio(tmp_path / "x.wav", Segment("x", 0.0, 0.5, 2))


@pytest.mark.usefixtures("ffmpeg")
@pytest.mark.parametrize("kind", KINDS)
def test_training_and_transcription_read_the_same_samples(tmp_path, kind):
    make, converted_from = KINDS[kind]
    path = make(tmp_path)
    info = check_audio(path)
    assert info == inspect_audio(path) and info.converted_from == converted_from
    samples, rate = read_audio(path)
    assert len(samples) == info.frames and rate == info.rate
    with open_audio(path) as audio:
        transcribed = np.concatenate(list(audio.blocks()))
    np.testing.assert_array_equal(resample(samples, rate), transcribed)
    assert len(transcribed) / RATE == pytest.approx(SECONDS, abs=0.15) and hertz(transcribed) == pytest.approx(
        HERTZ, 0.01
    )
    part, _ = read_audio(path, Segment("x", 1.25, 1.5))
    np.testing.assert_array_equal(part, samples[round(1.25 * rate) : round(1.5 * rate)])


@pytest.mark.usefixtures("ffmpeg")
def test_files_converted_for_reading_leave_nothing_behind(tmp_path, monkeypatch):
    path = KINDS["concatenated ogg"][0](tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with open_file(path) as file:
        assert file.path.readlink().is_relative_to(tmp_path / "temporary")
        assert list((tmp_path / "temporary").iterdir()) == []  # of which a kill could leave something
    assert list((tmp_path / "temporary").iterdir()) == []


def test_paths_that_cannot_be_opened_are_named(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read \(File name too long\); correct the path or the file"):
        read_audio(tmp_path / ("x" * 300))


def test_a_file_of_the_rate_that_is_wanted_is_not_resampled(tmp_path, tone):
    soundfile.write(tmp_path / "x.wav", tone(1.0, 8000), 8000)
    samples, seconds = read_at(tmp_path / "x.wav", 8000)
    np.testing.assert_array_equal(samples, tone(1.0, 8000))
    part, seconds_of_part = read_at(tmp_path / "x.wav", 8000, Segment("x", 0.25, 0.75))
    np.testing.assert_array_equal(part, samples[2000:6000])
    assert (seconds, seconds_of_part) == (1.0, 0.5)


def test_a_file_is_resampled_once_from_its_own_rate(tmp_path, tone):
    soundfile.write(tmp_path / "x.wav", tone(1.0, 44_100), 44_100)
    samples, seconds = read_at(tmp_path / "x.wav", 8000)
    np.testing.assert_array_equal(samples, soxr.resample(tone(1.0, 44_100), 44_100, 8000))
    assert len(samples) == 8000 and seconds == 1.0


@pytest.mark.usefixtures("ffmpeg")
@pytest.mark.parametrize("name", [name for name, (_, converted_from) in KINDS.items() if converted_from])
def test_a_temporary_wav_has_the_rate_that_is_wanted(tmp_path, name):
    path = KINDS[name][0](tmp_path)
    samples, rate = read_audio(path, target_rate=8000)
    assert rate == 8000 and len(samples) / rate == pytest.approx(SECONDS, abs=0.15)
    assert np.argmax(np.abs(np.fft.rfft(samples))) * rate / len(samples) == pytest.approx(HERTZ, abs=1)
    with open_audio(path, target_rate=8000) as audio:
        np.testing.assert_array_equal(np.concatenate(list(audio.blocks())), samples)


@pytest.mark.usefixtures("ffmpeg")
def test_flac_without_its_length_keeps_its_samples(tmp_path):
    path = KINDS["flac without its length"][0](tmp_path)  # of 8 kHz
    np.testing.assert_array_equal(read_at(path, 8000)[0], read_audio(tmp_path / "source.wav")[0])


def test_a_file_that_holds_too_many_samples_is_not_read_whole(tmp_path, monkeypatch):
    path = tmp_path / "silence.flac"
    soundfile.write(path, np.zeros(40 * RATE, np.int16), RATE)  # 1.28 MB in a file of some hundred bytes
    assert len(read_audio(path)[0]) == 40 * RATE
    monkeypatch.setenv("ESPNET_DIVERSE_MAX_DECODED_MB", "1")
    with pytest.raises(DataError, match="silence.flac: holds more than 1 MB"):
        read_audio(path)
    assert len(read_audio(path, Segment("silence", 1.0, 2.0))[0]) == RATE
