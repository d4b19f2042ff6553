import io
import sys
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import torch

from espnet_diverse.audio.reading import read_audio
from espnet_diverse.audio.resampling import resample
from espnet_diverse.audio.sources import open_audio
from espnet_diverse.errors import DataError

FORMATS = {
    "8 bit": ("x.wav", {"subtype": "PCM_U8"}),
    "16 bit": ("x.wav", {"subtype": "PCM_16"}),
    "24 bit": ("x.wav", {"subtype": "PCM_24"}),
    "32 bit": ("x.wav", {"subtype": "PCM_32"}),
    "float": ("x.wav", {"subtype": "FLOAT"}),
    "double": ("x.wav", {"subtype": "DOUBLE"}),
    "mu-law": ("x.wav", {"subtype": "ULAW"}),
    "flac": ("x.flac", {}),
    "mp3": ("x.mp3", {"format": "MP3"}),
    "ogg": ("x.ogg", {"format": "OGG", "subtype": "VORBIS"}),
    "opus": ("x.opus", {"format": "OGG", "subtype": "OPUS"}),
    "sph": ("x.sph", {"format": "NIST"}),
    "aiff": ("x.aiff", {}),
    "au": ("x.au", {}),
}


def tone(seconds=1.0, rate=16_000, channels=1, hertz=440.0):
    """A sine at half of full scale, (T,) or (T, channels)."""
    mono = 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)
    return mono if channels == 1 else np.stack([mono] * channels, axis=1)


def write(path, rate=16_000, seconds=1.0, channels=1, **options):
    soundfile.write(path, tone(seconds, rate, channels), rate, **options)
    return path


def read(source, rate=None, seconds=30.0):
    """Name, duration and samples of a source."""
    with open_audio(source, rate) as audio:
        return audio.name, audio.duration, np.concatenate(list(audio.blocks(seconds)))


def hertz(samples):
    return float(np.argmax(np.abs(np.fft.rfft(samples))) * 16_000 / len(samples))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("rate", "channels"), [(16_000, 1), (8000, 2), (48_000, 8)])
def test_a_file_matches_read_audio_and_resample(tmp_path, kind, rate, channels):
    file, options = FORMATS[kind]
    channels = min(channels, 2) if kind == "mp3" else channels
    path = write(tmp_path / file, rate, channels=channels, **options)
    name, duration, samples = read(path)
    samples_of_all, rate_of_all = read_audio(path)
    np.testing.assert_array_equal(samples, resample(samples_of_all, rate_of_all))
    assert name == str(path) and samples.dtype == np.float32
    assert len(samples) / 16_000 <= duration == pytest.approx(len(samples_of_all) / rate_of_all, abs=1 / 16_000)
    assert hertz(samples) == pytest.approx(440, abs=3)


@pytest.mark.parametrize("rate", [8000, 11_025, 16_000, 44_100, 96_000])
@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_blocks_are_short_and_change_nothing(tmp_path, rate, suffix):
    path = write(tmp_path / f"x.{suffix}", rate, seconds=3.3, channels=2)
    with open_audio(path) as audio:
        blocks = list(audio.blocks(seconds=0.5))
        assert len(blocks) > 5 and max(map(len, blocks)) <= 8000 + 400
        np.testing.assert_array_equal(np.concatenate(blocks), np.concatenate(list(audio.blocks())))
    np.testing.assert_array_equal(np.concatenate(blocks), resample(*read_audio(path)))


def test_all_samples_are_the_blocks_joined_and_may_be_none(tmp_path):
    with open_audio(write(tmp_path / "x.wav", 44_100, seconds=70)) as audio:
        samples = audio.samples(least=16_000)
        np.testing.assert_array_equal(samples, np.concatenate(list(audio.blocks())))
        assert samples.dtype == np.float32
    with open_audio(np.full(1, 0.1), 48_000) as audio:  # resampling drops it
        assert audio.samples().shape == (0,) and audio.samples().dtype == np.float32
        with pytest.raises(DataError, match="^audio array: has 0 samples at 16000 Hz; give a recording with at least"):
            audio.samples(least=1)


@pytest.mark.parametrize("target_rate", [8000, 22_050])
@pytest.mark.parametrize("rate", [8000, 16_000, 44_100])
def test_blocks_of_another_rate(tmp_path, rate, target_rate):
    path = write(tmp_path / "x.wav", rate, seconds=2.2)
    samples, own_rate = soundfile.read(path, dtype="float32")
    with path.open("rb") as stream:
        for source in (path, stream, samples):
            with open_audio(source, rate, target_rate) as audio:
                blocks = list(audio.blocks(seconds=0.5))
                assert audio.duration == pytest.approx(2.2, abs=1 / target_rate) and audio.rate == own_rate
            assert len(blocks) > 3
            np.testing.assert_array_equal(np.concatenate(blocks), resample(samples, rate, target_rate=target_rate))


@pytest.mark.parametrize("rate", [8001, 11_025, 22_050, 44_100, 48_000, 96_000])
def test_no_sample_lies_after_the_duration(rate):
    for count in range(1000, 1100):
        with open_audio(np.zeros(count), rate) as audio:
            samples = sum(map(len, audio.blocks()))
            assert samples <= round(audio.duration * 16_000) <= samples + 1


class Pipe:
    """A stream that can only be read on."""

    def __init__(self, content):
        self._stream = io.BytesIO(content)
        self.read = self._stream.read


def test_one_channel_of_an_array():
    samples = np.stack([tone(), -0.5 * tone()], axis=1).astype(np.float32)
    for channel, expected in ((None, samples.mean(1)), (0, samples[:, 0]), (1, samples[:, 1])):
        with open_audio(samples, 16_000, channel=channel) as audio:
            np.testing.assert_allclose(audio.samples(), expected, atol=1e-7)
    with open_audio(samples[:, 1], 16_000, channel=0) as audio:
        np.testing.assert_array_equal(audio.samples(), samples[:, 1])
    for wrong in (2, -1):
        with pytest.raises(DataError, match=f"audio array: has no channel {wrong}; it has 2, counted from 0"):
            open_audio(samples, 16_000, channel=wrong).__enter__()
    with pytest.raises(DataError, match="its shape is"):
        open_audio(samples[:0], 16_000, channel=0).__enter__()


def test_one_channel_of_a_file(tmp_path):
    samples = np.stack([np.linspace(-0.5, 0.5, 800), np.zeros(800)], 1).astype(np.float32)
    soundfile.write(tmp_path / "x.wav", samples, 8000, subtype="FLOAT")
    for channel in (0, 1):
        with open_audio(tmp_path / "x.wav", target_rate=8000, channel=channel) as audio:
            assert np.array_equal(audio.samples(), samples[:, channel]) and not audio.powers.differ
    with pytest.raises(DataError, match="x.wav: segment has channel 2, and the audio has 2, counted from 0"):
        open_audio(tmp_path / "x.wav", channel=2).__enter__()


def test_streams_match_their_files(tmp_path, monkeypatch):
    path = write(tmp_path / "x.wav", 22_050)
    expected = read(path)[2]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    with path.open("rb") as file:
        name, _, samples = read(file)
    assert name == str(path)
    np.testing.assert_array_equal(samples, expected)
    for stream in (io.BytesIO(path.read_bytes()), Pipe(path.read_bytes()), path.read_bytes()):
        name, duration, samples = read(stream)
        assert (name, duration) == ("audio", 1.0)
        np.testing.assert_array_equal(samples, expected)
    with path.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        name, _, samples = read("-")
    assert name == "-"
    np.testing.assert_array_equal(samples, expected)
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_stream_that_is_no_audio_is_named():
    with pytest.raises(DataError, match=r"^audio: not readable as audio \(Format not recognised\); readable are wav"):
        read(io.BytesIO(b"some words about nothing"))
    with pytest.raises(DataError, match=r"^audio: the file is empty \(0 bytes\); get it again"):
        read(io.BytesIO(b""))


def test_streams_of_text_and_closed_ones_are_refused(tmp_path):
    write(tmp_path / "x.wav")
    with pytest.raises(DataError, match=r"^audio: cannot be read as a binary file .*; open the file with mode 'rb'"):
        read(io.StringIO("words"))
    file = (tmp_path / "x.wav").open("rb")
    file.close()
    with pytest.raises(DataError, match=r"x\.wav: cannot be read as a binary file \(read of closed file\)"):
        read(file)


def test_a_string_of_numpy_is_a_path(tmp_path):
    path = write(tmp_path / "a.wav")
    assert read(np.str_(path))[:2] == read(path)[:2]


def test_things_that_are_no_source_are_refused(tmp_path):
    with pytest.raises(DataError, match="^audio is a list; give a path, a binary file object, bytes of a file, or an"):
        read([0.1, 0.2], 16_000)
    with pytest.raises(DataError, match=r"cannot be read \(File name too long\); correct the path or the file"):
        read(tmp_path / ("x" * 300))


@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_arrays_match_files(tmp_path, rate):
    integers = np.rint(tone(1.0, rate, 2) * 32767).astype(np.int16)
    soundfile.write(tmp_path / "x.wav", integers, rate, subtype="PCM_16")
    expected = read(tmp_path / "x.wav")[2]
    floats = integers / 32768.0
    for samples in (integers, integers.astype(np.int32) << 16, floats, floats.astype(np.float32)):
        name, duration, found = read(samples, rate)
        assert (name, duration) == ("audio array", 1.0) and found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(read(integers[:, 0], rate)[2], read(integers, rate, seconds=0.1)[2])


def test_whatever_numpy_makes_an_array_of_is_taken():
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return tone()

    np.testing.assert_array_equal(read(Tensor(), 16_000)[2], tone().astype(np.float32))


@pytest.mark.parametrize(
    ("samples", "rate", "what"),
    [
        (tone(), None, "its rate is None; give a number from 1000 to 768000 Hz"),
        (tone(), "16000", "its rate is '16000'; give a number from 1000 to 768000 Hz"),
        (tone(), 16, "its rate is 16; give a number from 1000 to 768000 Hz"),
        (tone().reshape(1, -1), 16_000, r"its shape is \(1, 16000\); give \(samples,\) or \(samples, channels\)"),
        (np.zeros(()), 16_000, r"its shape is \(\)"),
        (np.zeros(0), 16_000, r"its shape is \(0,\)"),
        (np.zeros((2, 0)), 16_000, r"its shape is \(2, 0\)"),
        (np.zeros((2, 2, 2)), 16_000, r"its shape is \(2, 2, 2\)"),
        (np.zeros(9, np.uint8), 16_000, "its type is uint8; give int16, int32, or floats between -1 and 1"),
        (np.array(["a"]), 16_000, "its type is <U1"),
        (np.array([None]), 16_000, "its type is object"),
        (np.zeros((2, 65)), 16_000, r"its shape is \(2, 65\)"),
        (np.array([0, np.nan]), 16_000, "samples reach nan; they must be finite and lie between -1 and 1: scale them"),
        (np.array([0, -np.inf]), 16_000, "samples reach inf"),
        (np.array([0, 20_000.0]), 16_000, "samples reach 20000"),
    ],
)
def test_arrays_that_are_no_sound_are_refused(samples, rate, what):
    with pytest.raises(DataError, match=f"^audio array: {what}"):
        read(samples, rate)


def test_a_fault_at_the_end_shows_before_anything_is_handed_out(tmp_path):
    samples = tone(100.0)
    samples[-5] = np.nan
    soundfile.write(tmp_path / "x.wav", samples, 16_000, subtype="FLOAT")
    with pytest.raises(DataError, match="x.wav: holds NaN or infinite samples, the first at 100.000 s"):
        open_audio(tmp_path / "x.wav").__enter__()


def test_samples_that_a_header_leaves_out_are_warned_of(tmp_path, caplog):
    """As where a recorder was killed that had written the length of its first block."""
    path = write(tmp_path / "x.wav", seconds=2.0)
    whole = path.read_bytes()
    assert read(path)[1] == 2.0 and not caplog.messages
    path.write_bytes(whole[:40] + (32_000).to_bytes(4, "little") + whole[44:])
    for source in (path, io.BytesIO(path.read_bytes())):
        assert read(source)[1] == 1.0
    what = "its header leaves out 32000 bytes after the samples, which are not read"
    said = f"{what}; write the header again, as sox --ignore-length does"
    assert caplog.messages == [f"{path}: {said}", f"audio: {said}"]


def test_a_truncated_file_is_refused_unless_its_rest_is_wanted(tmp_path, caplog):
    content = write(tmp_path / "x.wav").read_bytes()
    (tmp_path / "x.wav").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="x.wav: .*the file is truncated"), open_audio(tmp_path / "x.wav"):
        pass
    with open_audio(tmp_path / "x.wav", complete=False) as audio:
        assert audio.duration == pytest.approx(0.5, abs=0.01)
    assert "the file is truncated, and the 0.5 s that are there are read" in caplog.text


def test_samples_come_with_their_rate_in_other_forms(tmp_path):
    path = write(tmp_path / "a.wav", seconds=0.1)
    samples, rate = soundfile.read(path)
    row = {"array": list(samples), "sampling_rate": rate, "path": "gone.wav"}
    both = torch.tensor(np.stack([samples, samples]))  # (channels, T), as torchcodec has it
    decoder = SimpleNamespace(get_all_samples=lambda: SimpleNamespace(data=both, sample_rate=rate))
    files = {"bytes": path.read_bytes(), "path": None}, {"path": str(path), "bytes": None}
    for form in ((samples, rate), row, decoder, *files):
        with open_audio(form) as audio:
            assert np.allclose(audio.samples(), samples, atol=1e-4) and audio.rate == rate
    for wrong, what in (
        ({"array": samples}, "audio is a dict; give a path"),
        ((rate, samples), "audio is a tuple; give a path"),
        ((samples, "16k"), "its rate is '16k'"),
    ):
        with pytest.raises(DataError, match=what), open_audio(wrong):
            pass
