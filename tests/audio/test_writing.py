from pathlib import Path

import kaldiio
import numpy as np
import pytest
import soundfile

from espnet_diverse.audio.reading import inspect_audio, read_audio
from espnet_diverse.audio.resampling import RATE
from espnet_diverse.audio.writing import ArkWriter, ogg_bytes, write_audio
from espnet_diverse.errors import DataError


@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_sixteen_bits_pass_through_unchanged(tmp_path, suffix):
    integers = np.arange(-32768, 32768, dtype=np.int16)
    soundfile.write(tmp_path / "in.wav", integers, RATE)
    write_audio(tmp_path / f"out.{suffix}", read_audio(tmp_path / "in.wav")[0])
    assert inspect_audio(tmp_path / f"out.{suffix}").is_ready()
    np.testing.assert_array_equal(soundfile.read(tmp_path / f"out.{suffix}", dtype="int16")[0], integers)


def test_another_rate(tmp_path, tone):
    write_audio(tmp_path / "x.wav", tone(0.5, 8000), 8000)
    info = inspect_audio(tmp_path / "x.wav")
    assert info.is_ready(8000) and not info.is_ready() and info.seconds == 0.5


def test_equal_samples_give_equal_bytes_of_ogg(tmp_path, tone):
    first, second, other = (ogg_bytes(tone(1.0, hertz=hertz)) for hertz in (440, 440, 880))
    assert first == second != other
    (tmp_path / "x.ogg").write_bytes(first)
    samples, rate = read_audio(tmp_path / "x.ogg")
    assert (len(samples), rate) == (RATE, RATE)
    assert np.abs(samples - tone(1.0, hertz=440)).max() < 0.05
    (tmp_path / "x.ogg").write_bytes(first[:-9] + bytes([first[-9] ^ 1]) + first[-8:])
    with pytest.raises(DataError, match="the ogg page at byte .* is damaged"):
        read_audio(tmp_path / "x.ogg")


def test_loud_samples_are_clipped_not_wrapped(tmp_path):
    write_audio(tmp_path / "x.wav", np.array([1.5, -1.5, 0.0], np.float32))
    assert soundfile.read(tmp_path / "x.wav", dtype="int16")[0].tolist() == [32767, -32768, 0]


def test_write_to_nowhere(tmp_path, tone):
    with pytest.raises(DataError, match=r"x.wav: cannot be written \(.*\); is the disk full\?"):
        write_audio(tmp_path / "no" / "x.wav", tone(0.1))


def test_ark_round_trip_matches_kaldiio(tmp_path, tone):
    with ArkWriter(tmp_path / "x.ark") as ark:
        offsets = [ark.write(name, tone(0.25 * number, 8000), 8000) for number, name in enumerate(("a", "ü"), start=1)]
    for number, offset in enumerate(offsets, start=1):
        entry = f"{tmp_path / 'x.ark'}:{offset}"
        samples, rate = read_audio(Path(entry))
        np.testing.assert_array_equal(samples, tone(0.25 * number, 8000))
        assert rate == 8000 and kaldiio.load_mat(entry)[0] == 8000
        np.testing.assert_array_equal(kaldiio.load_mat(entry)[1], samples)  # which training does
    assert [name for name, _ in kaldiio.load_ark(str(tmp_path / "x.ark"))] == ["a", "ü"]
