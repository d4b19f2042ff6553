import os
import struct
import tempfile
import tracemalloc

import numpy as np
import pytest
import soundfile
from references.converted_audio import HERTZ, KINDS, SECONDS, encoded, run_ffmpeg

from espnet_diverse.audio.reading import check_audio, inspect_audio, open_file, read_audio
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
    overshooting, _ = read_audio(tmp_path / "x.flac", Segment("x", 1.5, 2.4))
    assert len(overshooting) == 8000
    with pytest.raises(DataError, match=r"x.flac: segment from 1.5 to 2.6 s lies past the end of the audio at 2.000 s"):
        read_audio(tmp_path / "x.flac", Segment("x", 1.5, 2.6))
    with pytest.raises(DataError, match="past the end"):
        read_audio(tmp_path / "x.flac", Segment("x", 2.0, 2.2))


def test_ready_means_sixteen_kilohertz_mono_sixteen_bit(tmp_path, write_wav):
    assert inspect_audio(write_wav(tmp_path / "a.wav")).is_ready
    assert inspect_audio(write_wav(tmp_path / "a.flac")).is_ready
    assert not inspect_audio(write_wav(tmp_path / "b.wav", rate=8000)).is_ready
    assert not inspect_audio(write_wav(tmp_path / "b.wav", channels=2)).is_ready
    assert not inspect_audio(write_wav(tmp_path / "b.wav", subtype="FLOAT")).is_ready
    assert not inspect_audio(write_wav(tmp_path / "b.sph", format="NIST")).is_ready


def spoil_nan(path, write_wav):
    samples = np.zeros(1600, np.float32)
    samples[400:402] = np.nan, np.inf
    soundfile.write(path, samples, RATE, subtype="FLOAT")


def spoil_scale(path, write_wav):
    soundfile.write(path, np.full(1600, 20000, np.float32), RATE, subtype="FLOAT")


def spoil_truncated_wav(path, write_wav):
    write_wav(path)
    path.write_bytes(path.read_bytes()[:8044])


def spoil_truncated_flac(path, write_wav):
    whole = write_wav(path.with_suffix(".flac")).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def spoil_flipped_flac(path, write_wav):
    raw = bytearray(write_wav(path.with_suffix(".flac")).read_bytes())
    raw[len(raw) // 2] ^= 0x10
    path.write_bytes(raw)


def spoil_truncated_mp3(path, write_wav):
    whole = write_wav(path.with_suffix(".mp3"), seconds=2.0, format="MP3", subtype="MPEG_LAYER_III").read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def spoil_truncated(name, **options):
    def spoil(path, write_wav):
        whole = write_wav(path.with_name(name), **options).read_bytes()
        path.write_bytes(whole[: len(whole) // 2])

    return spoil


def spoil_rate(path, write_wav):
    raw = bytearray(write_wav(path).read_bytes())
    raw[24:28] = struct.pack("<I", 1)
    path.write_bytes(raw)


def spoil_header_only(path, write_wav):
    write_wav(path, seconds=0.0)


SPOILED = {
    "missing": (lambda path, _: None, "no such audio file"),
    "folder": (lambda path, _: path.mkdir(), "is not a regular file"),
    "fifo": (lambda path, _: os.mkfifo(path), "is not a regular file"),
    "dangling link": (lambda path, _: path.symlink_to("nowhere"), "no such audio file"),
    "no bytes": (lambda path, _: path.touch(), "the file is empty (0 bytes)"),
    "web page": (
        lambda path, _: path.write_text("<html>"),
        "not readable as audio (Format not recognised); readable are",
    ),
    "no samples": (spoil_header_only, "holds no samples"),
    "nan": (spoil_nan, "holds NaN or infinite samples, the first at 0.025 s"),
    "unscaled float": (spoil_scale, "samples reach 20000; floating-point audio must lie between -1 and 1"),
    "truncated wav": (spoil_truncated_wav, "holds 8000 of 16000 bytes; the file is truncated"),
    "truncated flac": (spoil_truncated_flac, "cannot be decoded (flac decoder lost sync); the file is damaged"),
    "flipped flac": (spoil_flipped_flac, "cannot be decoded"),
    "truncated aiff": (spoil_truncated("x.aiff"), "bytes; the file is truncated"),
    "truncated au": (spoil_truncated("x.au"), "bytes; the file is truncated"),
    "truncated w64": (spoil_truncated("x.w64"), "bytes; the file is truncated"),
    "truncated sph": (spoil_truncated("x.sph", format="NIST"), "of 8000 samples; the file is truncated"),
    "one hertz": (spoil_rate, "its rate is 1 Hz; 1000 to 768000 Hz are allowed"),
    "random": (
        lambda path, _: path.write_bytes(bytes(range(256)) * 9),
        "not readable as audio (Format not recognised)",
    ),
    "truncated mp3": (spoil_truncated_mp3, "samples; the file is truncated"),
}


@pytest.mark.parametrize("kind", SPOILED)
def test_unusable_audio_is_named(tmp_path, write_wav, kind):
    spoil, what = SPOILED[kind]
    path = tmp_path / "bad.wav"
    spoil(path, write_wav)
    with pytest.raises(DataError) as caught:
        check_audio(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_raw_file_without_header_is_refused(tmp_path):
    (tmp_path / "x.raw").write_bytes(bytes(320))
    with pytest.raises(DataError, match="x.raw: not readable as audio"):
        inspect_audio(tmp_path / "x.raw")


def test_permissions_are_named(tmp_path, write_wav, monkeypatch):
    path = write_wav(tmp_path / "x.wav")
    monkeypatch.setattr(os, "access", lambda *_: False)  # chmod would not stop root
    with pytest.raises(DataError, match="may not be read; change its permissions"):
        inspect_audio(path)


@pytest.mark.parametrize("size", [0x7FFFFFF0, 0xFFFFFFFF])
def test_wav_written_to_a_pipe_is_read_to_its_real_end(tmp_path, write_wav, size):
    path = write_wav(tmp_path / "x.wav")
    raw = bytearray(path.read_bytes())
    raw[4:8] = raw[40:44] = struct.pack("<I", size)
    path.write_bytes(raw)
    assert check_audio(path).frames == 8000


@pytest.mark.parametrize("kind", KINDS)
def test_training_reads_what_transcription_reads(tmp_path, kind):
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


def test_an_mp3_of_constant_bit_rate_without_its_length_keeps_its_samples(tmp_path):
    """libsndfile estimates the length of such a file well enough; reading gives exactly its samples."""
    (tmp_path / "x.wav").write_bytes(encoded(rate=44_100, format="WAV"))
    run_ffmpeg("-i", tmp_path / "x.wav", "-b:a", "64k", "-write_xing", "0", tmp_path / "x.mp3")
    whole, rate = soundfile.read(tmp_path / "x.mp3", dtype="float32")
    assert inspect_audio(tmp_path / "x.mp3").converted_from == "mp3 without its length"
    np.testing.assert_array_equal(read_audio(tmp_path / "x.mp3")[0], resample(whole, rate))


def test_files_converted_for_reading_leave_nothing_behind(tmp_path, monkeypatch):
    path = KINDS["concatenated ogg"][0](tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with open_file(path) as file:
        assert file.path.is_relative_to(tmp_path / "temporary")
    assert list((tmp_path / "temporary").iterdir()) == []


def test_paths_that_cannot_be_opened_are_named(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read \(File name too long\); correct the path or the file"):
        read_audio(tmp_path / ("x" * 300))


def test_a_wrong_length_in_a_header_takes_no_memory(tmp_path, write_wav):
    content = bytearray(write_wav(tmp_path / "x.flac").read_bytes())
    content[21:26] = (int.from_bytes(content[21:26]) | (1 << 36) - 1).to_bytes(5)  # samples: 256 GB as float32
    (tmp_path / "x.flac").write_bytes(content)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"x\.flac: (holds|cannot be decoded)"):
        read_audio(tmp_path / "x.flac")
    assert tracemalloc.get_traced_memory()[1] < 1 << 25
    tracemalloc.stop()
