"""Files that hold several mp3 or ogg recordings."""

import numpy as np
import pytest
import soundfile
from references.converted_audio import encoded, seconds_and_pitches, without_header

from espnet_diverse.audio.concatenated import Part, file_parts
from espnet_diverse.audio.unsized import find_unsized
from espnet_diverse.errors import DataError

FRAME = bytes.fromhex("fff3 48c0") + bytes(140)  # an mp3 frame of 16 kHz, mono, 32 kbit/s, without sound


@pytest.fixture(scope="module")
def pieces():
    return {
        "a": encoded(3),
        "b": encoded(2, hertz=880),
        "fast": encoded(2, 44_100, hertz=660),
        "stereo": encoded(2, channels=2, hertz=660),
        "title": b"ID3\x04\x00\x00\x00\x00\x00\x20" + bytes(32),
        "end": b"TAG" + b"\xff\xf3X\x00" * 31 + b"\0",
        "junk": np.random.default_rng(0).bytes(50_000),
        "headless": without_header(encoded(2, hertz=880)),
        "headless fast": without_header(encoded(2, 44_100, hertz=660)),
        "headless stereo": without_header(encoded(2, channels=2, hertz=660)),
    }


@pytest.mark.parametrize(
    ("names", "pitches"),
    [
        ("a,a", [440] * 6),
        ("a,end,title,b,a", [440] * 3 + [880] * 2 + [440] * 3),
        ("a,fast", [440] * 3 + [660] * 2),
        ("a,stereo,b", [440] * 3 + [660] * 2 + [880] * 2),
        ("a,headless", [440] * 3 + [880] * 2),
        ("a,junk,b", [440] * 3 + [880] * 2),
        ("headless,a", [880] * 2 + [440] * 3),
        ("headless,headless fast,headless stereo", [880] * 2 + [660] * 4),
    ],
)
def test_all_parts_of_an_mp3_are_read(pieces, tmp_path, names, pitches):
    path = tmp_path / "x.mp3"
    path.write_bytes(b"".join(pieces[name] for name in names.split(",")))
    assert soundfile.info(path).duration < len(pitches) - 0.5  # else there would be nothing to correct
    seconds, found = seconds_and_pitches(path)
    assert seconds == pytest.approx(len(pitches), abs=0.5)
    assert [min((440, 660, 880), key=lambda one: abs(one - pitch)) for pitch in found[: len(pitches)]] == pitches


@pytest.mark.parametrize("names", ["a", "title,a", "a,end", "a,junk", "a,end,junk"])
def test_an_mp3_of_one_part_is_left_to_libsndfile(pieces, tmp_path, names):
    path = tmp_path / "x.mp3"
    path.write_bytes(b"".join(pieces[name] for name in names.split(",")))
    assert len(file_parts(path)) == 1 and find_unsized(path) is None
    assert seconds_and_pitches(path)[0] == 3.0


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_all_parts_of_an_ogg_file_are_read(tmp_path, subtype):
    one, other = (encoded(*what, format="OGG", subtype=subtype) for what in ((3,), (2, 48_000, 1, 880)))
    (tmp_path / "x.ogg").write_bytes(one + other)
    assert file_parts(tmp_path / "x.ogg") == [Part(0, len(one)), Part(len(one), len(one + other))]
    assert seconds_and_pitches(tmp_path / "x.ogg") == (5.0, [440] * 3 + [880] * 2)
    (tmp_path / "y.ogg").write_bytes(one)
    assert find_unsized(tmp_path / "y.ogg") is None and seconds_and_pitches(tmp_path / "y.ogg")[0] == 3.0


def test_a_truncated_part_is_refused(pieces, tmp_path):
    (tmp_path / "x.mp3").write_bytes(pieces["a"] + pieces["b"][: len(pieces["b"]) // 2])
    with pytest.raises(
        DataError, match=r"x\.mp3: part 2 of 2 holds \d+ of \d+ frames; the file is truncated, get it again"
    ):
        seconds_and_pitches(tmp_path / "x.mp3")


def test_a_part_may_be_a_single_frame(pieces, tmp_path):
    (tmp_path / "x.mp3").write_bytes(FRAME + pieces["b"])
    assert seconds_and_pitches(tmp_path / "x.mp3")[0] == 2.036


def test_other_files_have_no_parts(tmp_path):
    for content in (b"", b"R", b"\xff" * 4000, b"ID3", encoded(1, format="WAV")):
        (tmp_path / "x").write_bytes(content)
        assert file_parts(tmp_path / "x") == [] and find_unsized(tmp_path / "x") is None
