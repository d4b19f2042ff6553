"""Headers and samples that are refused, and headers that are wrong."""

import os
import struct
import tracemalloc

import numpy as np
import pytest
import soundfile
from references.data_fixtures import check_audio

from espnet_diverse.audio.libsndfile import Powers, mono_blocks
from espnet_diverse.audio.reading import inspect_audio, read_audio
from espnet_diverse.audio.resampling import RATE
from espnet_diverse.errors import DataError


def test_ready_means_sixteen_kilohertz_mono_sixteen_bit(tmp_path, write_wav):
    assert inspect_audio(write_wav(tmp_path / "a.wav")).is_ready()
    assert inspect_audio(write_wav(tmp_path / "a.flac")).is_ready()
    assert not inspect_audio(write_wav(tmp_path / "b.wav", rate=8000)).is_ready()
    assert not inspect_audio(write_wav(tmp_path / "b.wav", channels=2)).is_ready()
    assert not inspect_audio(write_wav(tmp_path / "b.wav", subtype="FLOAT")).is_ready()
    assert not inspect_audio(write_wav(tmp_path / "b.sph", format="NIST")).is_ready()


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
    "shorten": (
        lambda path, _: path.write_bytes(
            b"NIST_1A\n   1024\nchannel_count -i 1\nsample_rate -i 8000\nsample_count -i 99\nsample_n_bytes -i 1\n"
            b"sample_coding -s27 ulaw,embedded-shorten-v2.00\nend_head\n".ljust(1024)
            + b"ajkg\x02"
            + bytes(2000)
        ),
        "its samples are compressed (ulaw,embedded-shorten-v2.00), which is not readable; unpack it: sph2pipe -f wav",
    ),
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


def test_a_name_that_is_not_utf_8_is_read(tmp_path, write_wav):
    for name in (b"\xe9t\xe9.wav", b"\xe9t\xe9.flac", b"\xff.sph"):
        path = tmp_path / os.fsdecode(name)
        write_wav(tmp_path / f"x{path.suffix}", **({"format": "NIST"} if path.suffix == ".sph" else {})).rename(path)
        assert len(read_audio(path)[0]) == 8000


def test_a_table_that_is_not_utf_8_is_named(tmp_path):
    with pytest.raises(DataError, match="the name in the table is not UTF-8; rename the file"):
        inspect_audio(tmp_path / "\ufffd.wav")


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


def test_a_wrong_length_in_a_header_takes_no_memory(tmp_path, write_wav):
    content = bytearray(write_wav(tmp_path / "x.flac").read_bytes())
    samples = int.from_bytes(content[21:26], "big") | (1 << 36) - 1  # 256 GB as float32
    content[21:26] = samples.to_bytes(5, "big")
    (tmp_path / "x.flac").write_bytes(content)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"x\.flac: (holds|cannot be decoded)"):
        read_audio(tmp_path / "x.flac")
    assert tracemalloc.get_traced_memory()[1] < 1 << 25
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("others", "differ"), [((0.5,), False), ((0.0,), True), ((None,), True), ((0.0,) * 7, True), ((1.0,) * 3, False)]
)
def test_channels_that_differ_are_found(tmp_path, others, differ):
    """Beside a first channel: the same at another level, silence, or (None) something else."""
    first, noise = np.random.default_rng(0).normal(0, 0.1, (2, 16_000))
    soundfile.write(
        tmp_path / "x.wav", np.stack([first, *(noise if n is None else n * first for n in others)], 1), 8000
    )
    with soundfile.SoundFile(tmp_path / "x.wav") as sound:
        for _ in mono_blocks(sound, "x.wav", 0, 16_000, powers=(powers := Powers())):
            pass
    assert powers.differ == differ and not powers.cancel


def test_channels_of_opposite_phase_are_found_where_they_are(tmp_path):
    left = 0.5 * np.sin(np.arange(16_000))
    channels = np.stack([left, np.where(np.arange(16_000) < 8000, left, -left)], axis=1)
    soundfile.write(tmp_path / "x.wav", channels, 16_000)
    with soundfile.SoundFile(tmp_path / "x.wav") as sound:
        for start, channel, cancel in ((0, None, False), (8000, None, True), (8000, 0, False)):
            blocks = mono_blocks(sound, "x.wav", start, 8000, channel=channel, powers=(powers := Powers()))
            assert sum(map(len, blocks)) == 8000 and powers.cancel == cancel
            sound.seek(0)
