import io
import os
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from espnet_diverse.audio import live
from espnet_diverse.audio.live import open_live
from espnet_diverse.audio.resampling import resample
from espnet_diverse.errors import ConfigError, DataError

SAMPLES = np.random.default_rng(0).integers(-20_000, 20_000, 5001).astype("<i2")


@pytest.fixture
def standard_input(monkeypatch):
    """A function that gives bytes as standard input, whose writer then closes it."""

    def give(content):
        out, into = os.pipe()
        threading.Thread(target=lambda: (os.write(into, content), os.close(into)), daemon=True).start()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(os.fdopen(out, "rb")))

    return give


def blocks_of(*arguments, **options):
    with open_live(*arguments, **options) as blocks:
        return list(blocks)


def test_raw_samples_come_in_blocks(standard_input):
    standard_input(SAMPLES.tobytes())
    found = blocks_of("-", seconds=0.1)
    assert [len(block) for block in found] == [1600, 1600, 1600, 201]
    np.testing.assert_array_equal(np.concatenate(found), SAMPLES.astype(np.float32) / 2**15)
    assert found[0].dtype == np.float32


def test_raw_samples_of_another_rate_are_resampled(standard_input):
    standard_input(SAMPLES.tobytes())
    found = np.concatenate(blocks_of("-", 8000, 16_000))
    np.testing.assert_array_equal(found, resample(SAMPLES.astype(np.float32) / 2**15, 8000))


def test_a_block_comes_before_the_next_is_written(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    heard = threading.Event()

    def speak():
        with fifo.open("wb", buffering=0) as into:
            content = SAMPLES.tobytes()
            for start, end in ((0, 801), (801, 3201), (3201, len(content))):
                into.write(content[start:end])
                if end == 3201:
                    assert heard.wait(10)

    thread = threading.Thread(target=speak)
    thread.start()
    with open_live(str(fifo), seconds=0.1) as blocks:
        found = [next(blocks)]
        heard.set()
        found += blocks
    thread.join()
    np.testing.assert_array_equal(np.concatenate(found), SAMPLES.astype(np.float32) / 2**15)


def test_a_file_is_read_like_any_other(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.stack([SAMPLES, SAMPLES], 1), 8000)
    found = blocks_of(str(tmp_path / "a.wav"), seconds=0.2)
    np.testing.assert_array_equal(np.concatenate(found), resample(SAMPLES.astype(np.float32) / 2**15, 8000))
    with pytest.raises(DataError, match="gone.wav: no such audio file"):
        blocks_of(str(tmp_path / "gone.wav"))


def test_a_truncated_file_is_read_to_its_end_with_a_warning(tmp_path, caplog):
    path = tmp_path / "cut.wav"
    soundfile.write(path, SAMPLES, 16_000)
    path.write_bytes(path.read_bytes()[: 44 + 2 * 3000])
    np.testing.assert_array_equal(np.concatenate(blocks_of(str(path))), SAMPLES[:3000].astype(np.float32) / 2**15)
    assert (
        "cut.wav: holds 6000 of 10002 bytes; the file is truncated, and the 0.2 s that are there are read"
        in caplog.text
    )


def test_a_file_in_real_time_takes_its_length(tmp_path, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(
        live, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=lambda s: clock.__setitem__(0, clock[0] + s))
    )
    soundfile.write(tmp_path / "a.wav", SAMPLES, 16_000)
    with open_live(str(tmp_path / "a.wav"), seconds=0.1, real_time=True) as blocks:
        next(blocks)
        assert clock[0] == pytest.approx(100.1)
        clock[0] += 0.15  # the search took longer than a block
        next(blocks)
        assert clock[0] == pytest.approx(100.25)
        list(blocks)
    assert clock[0] == pytest.approx(100 + 5001 / 16_000)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "-: was closed before a sample came; give 16-bit samples"),
        (SAMPLES.tobytes()[:-1], "-: 10001 bytes are an odd number; samples must have 16 bits, little-endian, mono"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "-: begins with 'RIFF', the header of a file; give raw samples"),
    ],
    ids=["nothing", "odd", "wav"],
)
def test_invalid_raw_audio_is_refused(standard_input, content, message):
    standard_input(content)
    with pytest.raises(DataError, match=message):
        blocks_of("-")


def test_samples_before_an_odd_end_are_given(standard_input):
    standard_input(SAMPLES.tobytes()[:-1])
    found = []
    with pytest.raises(DataError, match="odd"), open_live("-", seconds=0.1) as blocks:
        for block in blocks:
            found.append(block)
    assert sum(map(len, found)) == 5000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-", 10), "pcm_rate 10 is not allowed; give 1000 to 768000 Hz"),
        (("a.wav", 8000), "pcm_rate 8000 is for raw samples, and a.wav is a file; leave it out"),
    ],
    ids=str,
)
def test_rates_that_mean_nothing_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        blocks_of(*arguments)


def test_real_time_is_for_files():
    with pytest.raises(ConfigError, match="real_time is for files, and - is live; leave it out"):
        blocks_of("-", real_time=True)
