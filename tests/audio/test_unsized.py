"""What libsndfile would leave unread: several recordings in one file, and files that do not tell their length."""

import io
import subprocess

import numpy as np
import pytest
import soundfile

from espnet_diverse.audio import media
from espnet_diverse.audio.concatenated import Part, file_parts
from espnet_diverse.audio.stream import open_audio
from espnet_diverse.audio.unsized import unread_parts
from espnet_diverse.errors import DataError

RATE = 16_000
FRAME = bytes.fromhex("fff3 48c0") + bytes(140)  # of mp3 at 16 kHz, mono, 32 kbit/s: nothing in it is sound


def tone(hertz, seconds, rate=RATE, channels=1):
    mono = 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)
    return np.stack([mono] * channels, axis=1)


def encoded(hertz, seconds, rate=RATE, channels=1, **how):
    """A tone as a file: mp3, with a tag that tells its length, unless `how` says otherwise."""
    file = io.BytesIO()
    soundfile.write(file, tone(hertz, seconds, rate, channels), rate, **({"format": "MP3"} | how))
    return file.getvalue()


def untold(content):
    """mp3 of libsndfile without the frame that holds its tag."""
    second = content.index(content[:2], 4)
    assert b"Info" in content[:second] or b"Xing" in content[:second]
    return content[second:]


def heard(path):
    """Seconds, and the pitch in each of them."""
    with open_audio(path) as audio:
        samples = np.concatenate(list(audio.blocks()))
        assert len(samples) == round(RATE * audio.duration)
    whole = [samples[start : start + RATE] for start in range(0, len(samples) - RATE + 1, RATE)]
    return len(samples) / RATE, [float(np.argmax(np.abs(np.fft.rfft(second)))) for second in whole]


@pytest.fixture(scope="module")
def pieces():
    return {
        "a": encoded(440, 3),
        "b": encoded(880, 2),
        "fast": encoded(660, 2, 44_100),
        "stereo": encoded(660, 2, channels=2),
        "title": b"ID3\x04\x00\x00\x00\x00\x00\x20" + bytes(32),
        "end": b"TAG" + b"\xff\xf3X\x00" * 31 + b"\0",
        "junk": np.random.default_rng(0).bytes(50_000),
        "untold": untold(encoded(880, 2)),
        "untold fast": untold(encoded(660, 2, 44_100)),
        "untold stereo": untold(encoded(660, 2, channels=2)),
    }


@pytest.mark.parametrize(
    ("names", "pitches"),
    [
        ("a,a", [440] * 6),
        ("a,end,title,b,a", [440] * 3 + [880] * 2 + [440] * 3),
        ("a,fast", [440] * 3 + [660] * 2),
        ("a,stereo,b", [440] * 3 + [660] * 2 + [880] * 2),
        ("a,untold", [440] * 3 + [880] * 2),
        ("a,junk,b", [440] * 3 + [880] * 2),
        ("untold,a", [880] * 2 + [440] * 3),
        ("untold,untold fast,untold stereo", [880] * 2 + [660] * 4),
    ],
)
def test_all_parts_of_an_mp3_are_read(pieces, tmp_path, names, pitches):
    path = tmp_path / "x.mp3"
    path.write_bytes(b"".join(pieces[name] for name in names.split(",")))
    assert soundfile.info(path).duration < len(pitches) - 0.5  # else there would be nothing to mend
    seconds, found = heard(path)
    assert seconds == pytest.approx(len(pitches), abs=0.5)
    assert [min((440, 660, 880), key=lambda one: abs(one - pitch)) for pitch in found[: len(pitches)]] == pitches


@pytest.mark.parametrize("names", ["a", "title,a", "a,end", "a,junk", "a,end,junk"])
def test_an_mp3_of_one_part_is_left_to_libsndfile(pieces, tmp_path, names):
    path = tmp_path / "x.mp3"
    path.write_bytes(b"".join(pieces[name] for name in names.split(",")))
    assert len(file_parts(path)) == 1 and unread_parts(path) == []
    assert heard(path)[0] == 3.0


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_all_parts_of_an_ogg_file_are_read(tmp_path, subtype):
    one, other = (encoded(*what, format="OGG", subtype=subtype) for what in ((440, 3), (880, 2, 48_000)))
    (tmp_path / "x.ogg").write_bytes(one + other)
    assert file_parts(tmp_path / "x.ogg") == [Part(0, len(one)), Part(len(one), len(one + other))]
    assert heard(tmp_path / "x.ogg") == (5.0, [440] * 3 + [880] * 2)
    (tmp_path / "y.ogg").write_bytes(one)
    assert unread_parts(tmp_path / "y.ogg") == [] and heard(tmp_path / "y.ogg")[0] == 3.0


@pytest.fixture
def piped_flac(tmp_path):
    soundfile.write(tmp_path / "x.wav", tone(440, 3, 8000), 8000)
    command = [media._program(), "-v", "error", "-i", tmp_path / "x.wav", "-f", "flac", "pipe:"]
    done = subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    (tmp_path / "x.flac").write_bytes(done.stdout)
    return tmp_path / "x.flac"


def test_flac_from_a_pipe_is_read(piped_flac):
    assert soundfile.info(piped_flac).frames > 1 << 60  # which is not true
    assert heard(piped_flac) == (3.0, [440] * 3)


def test_damaged_flac_from_a_pipe_is_refused(piped_flac):
    content = bytearray(piped_flac.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    piped_flac.write_bytes(content)
    with pytest.raises(DataError, match=r"x\.flac: cannot be decoded \(.*\); get it again"):
        heard(piped_flac)


def test_a_torn_part_is_refused(pieces, tmp_path):
    (tmp_path / "x.mp3").write_bytes(pieces["a"] + pieces["b"][: len(pieces["b"]) // 2])
    with pytest.raises(DataError, match=r"x\.mp3: part 2 of 2 holds \d+ of \d+ frames; the file is torn, get it again"):
        heard(tmp_path / "x.mp3")


def test_a_part_may_be_a_single_frame(pieces, tmp_path):
    (tmp_path / "x.mp3").write_bytes(FRAME + pieces["b"])
    assert heard(tmp_path / "x.mp3")[0] == 2.036


def test_other_files_have_no_parts(tmp_path):
    for content in (b"", b"R", b"\xff" * 4000, b"ID3", encoded(440, 1, format="WAV")):
        (tmp_path / "x").write_bytes(content)
        assert file_parts(tmp_path / "x") == [] == unread_parts(tmp_path / "x")
