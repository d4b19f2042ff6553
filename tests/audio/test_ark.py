"""Entries of arks: audio is read exactly; any other content is refused, and never unpickled or run."""

import io
import pickle
from pathlib import Path

import kaldiio
import numpy as np
import pytest
from references.data_fixtures import check_audio

from espnet_diverse.audio.ark import CODED, WAV, ArkEntry, ArkPart, ark_entry, file_size, is_file
from espnet_diverse.audio.reading import inspect_audio, read_audio
from espnet_diverse.audio.resampling import RATE
from espnet_diverse.audio.segments import Segment
from espnet_diverse.audio.sources import open_audio
from espnet_diverse.errors import DataError


@pytest.fixture
def save(tmp_path):
    """save(**options of kaldiio) -> entries of an ark of two recordings, and their samples as integers."""

    def make(**coding):
        samples = {name: np.random.default_rng(ord(name)).integers(-9999, 9999, 8000).astype(np.int16) for name in "ab"}
        content = {name: (RATE, x) for name, x in samples.items()}
        kaldiio.save_ark(str(tmp_path / "x.ark"), content, scp=str(tmp_path / "x.scp"), **coding)
        return [Path(line.split()[1]) for line in (tmp_path / "x.scp").read_text().splitlines()], samples.values()

    return make


CODINGS = {
    "wav": ({}, WAV, "WAV"),
    "coded wav": ({"write_function": "soundfile"}, CODED, "WAV"),
    "flac": ({"write_function": "soundfile", "write_kwargs": {"format": "flac"}}, CODED, "FLAC"),
}


@pytest.mark.parametrize("coding", CODINGS)
def test_entries_are_read_exactly(save, coding):
    options, kind, container = CODINGS[coding]
    for entry, samples in zip(*save(**options), strict=True):
        info = check_audio(entry)
        assert info == inspect_audio(entry) and (info.frames, info.rate, info.container) == (8000, RATE, container)
        assert info.converted_from == kind and not info.is_ready(RATE)
        np.testing.assert_array_equal(32768 * read_audio(entry)[0], samples)
        part = read_audio(entry, Segment("x", 0.125, 0.25))[0]
        np.testing.assert_array_equal(32768 * part, samples[2000:4000])
        with open_audio(entry) as audio:
            np.testing.assert_array_equal(32768 * np.concatenate(list(audio.blocks())), samples)


def test_ark_entries_are_told_from_plain_files(tmp_path):
    assert ark_entry("a/wav.1.ark:12") == (Path("a/wav.1.ark"), 12)
    assert ark_entry("wav.ark") is ark_entry("wav.ark:") is ark_entry("wav.ark:1[0:2]") is None
    (tmp_path / "take:2").write_bytes(b"12345")
    assert ark_entry(tmp_path / "take:2") is None and file_size(f"{tmp_path}/take:2") == 5
    (tmp_path / "take").write_bytes(b"12345678")
    assert file_size(f"{tmp_path}/take:3") == 5 and file_size(f"{tmp_path}/other:3") == -1
    assert file_size(f"{tmp_path}/take:3[0:99]") == 5 and file_size(f"{tmp_path}/take[0:99]") == -1
    (tmp_path / "take:3[0:9]").write_bytes(b"12")
    assert file_size(f"{tmp_path}/take:3[0:9]") == 2


def test_a_part_is_a_file_that_ends_with_its_recording(save):
    entries, _ = save()
    with ArkPart(ark_entry(entries[0]), "x") as part:
        assert part.readable() and part.seekable() and part.seek(0, io.SEEK_END) == 16044 == part.tell()
        assert part.read(5) == b"" and part.seek(-4, io.SEEK_CUR) == 16040 and len(part.read(99)) == 4
        assert part.seek(-1) == 0 and part.read(4) == b"RIFF"


class Marker:
    """A pickle that leaves a file behind if it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_nothing_in_an_ark_is_unpickled_or_run(tmp_path):
    ran = tmp_path / "ran"
    (tmp_path / "evil.ark").write_bytes(b"a PKL" + pickle.dumps(Marker(ran)))
    with pytest.raises(DataError) as caught:
        read_audio(tmp_path / "evil.ark:2")
    said = f"{tmp_path}/evil.ark:2: there is a Python object at byte 2, no audio; correct the entry or get the ark"
    assert str(caught.value) == said
    for command in (f"touch {ran} |", f"| touch {ran}", f"touch {ran} |:0", f"touch {ran} #:0"):
        with pytest.raises(DataError, match="no such audio file"):
            read_audio(Path(command))
    assert not ran.exists()


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\0BFM \4\1\0\0\0", "there is a matrix or a vector at byte 0, no audio"),
        (b"NPY\2", "there is an array of NumPy at byte 0, no audio"),
        (b"fLaC1234", "there is something else at byte 0, no audio"),
        (b"AUDIO\1\4\0BFM", "there is a matrix or a vector at byte 0, no audio"),
        (b"AUDIO\xff" + 30 * b"\xff", "there is something else at byte 0, no audio"),
        (b"AUDIO", "there is something else at byte 0, no audio"),
        (b"AUDIO\2\0\1fLaC", "holds 4 of 256 bytes; the ark is truncated, get it again"),
        (b"RIFF\xff\xff\xff\xffWAVE", "holds 12 of 4294967303 bytes; the ark is truncated, get it again"),
        (b"RIFF\4\0\0\0WAVE", "not readable as audio"),
    ],
)
def test_other_contents_are_refused(tmp_path, content, what):
    (tmp_path / "x.ark").write_bytes(content)
    with pytest.raises(DataError, match=f"x.ark:0: {what}"):
        read_audio(tmp_path / "x.ark:0")


def test_an_entry_behind_the_end_and_a_missing_ark(save, tmp_path):
    entries, _ = save()
    with pytest.raises(DataError, match="there is nothing at byte 99999999, no audio"):
        read_audio(tmp_path / "x.ark:99999999")
    with pytest.raises(DataError, match="there is something else at byte 3, no audio"):
        read_audio(tmp_path / "x.ark:3")
    ark = tmp_path / "x.ark"
    ark.write_bytes(ark.read_bytes()[:-10])
    assert len(read_audio(entries[0])[0]) == 8000
    with pytest.raises(DataError, match="holds 16034 of 16044 bytes; the ark is truncated"):
        read_audio(entries[1])
    ark.unlink()
    with pytest.raises(DataError, match="no such audio file"):
        inspect_audio(entries[0])


def test_a_name_that_is_too_long_names_no_file():
    long = "a" * 5000
    assert ark_entry(f"{long}:17") == ArkEntry(Path(long), 17)
    assert file_size(long) == file_size(f"{long}:17") == -1
    assert not is_file(Path(long))
