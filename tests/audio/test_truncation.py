"""Files that libsndfile does not read to their end: they are read whole through ffmpeg, or refused."""

import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from references import lying_headers
from references.bad_audio import encoded as in_format
from references.converted_audio import KINDS, encoded, piped_flac, run_ffmpeg, seconds_and_pitches, without_header

from espnet_diverse.audio.reading import inspect_audio, open_file, read_audio
from espnet_diverse.audio.truncation import check_ogg, unread_bytes, unread_format
from espnet_diverse.errors import DataError

FORMATS = [
    {"format": "WAV"},
    {"format": "WAV", "endian": "BIG"},
    {"format": "WAVEX"},
    {"format": "RF64"},
    {"format": "AIFF"},
    {"format": "AU"},
    {"format": "CAF"},
]


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
        "frame": bytes.fromhex("fff3 48c0") + bytes(140),  # of 16 kHz, mono, 32 kbit/s, without sound
        "headless": without_header(encoded(2, hertz=880)),
        "headless fast": without_header(encoded(2, 44_100, hertz=660)),
        "headless stereo": without_header(encoded(2, channels=2, hertz=660)),
        "half": encoded(2)[:1700],
    }


@pytest.fixture
def mp3(pieces, tmp_path):
    def written(names):
        (tmp_path / "x.mp3").write_bytes(b"".join(pieces[name] for name in names.split(",")))
        return tmp_path / "x.mp3"

    return written


@pytest.mark.usefixtures("ffmpeg")
@pytest.mark.parametrize(
    ("names", "pitches"),
    [
        ("a,a", [440] * 6),
        ("a,end,title,b,a", [440] * 3 + [880] * 2 + [440] * 3),
        ("a,fast", [440] * 3 + [660] * 2),
        ("a,stereo,b", [440] * 3 + [660] * 2 + [880] * 2),
        ("a,headless", [440] * 3 + [880] * 2),
        ("a,junk,b", [440] * 3 + [880] * 2),
        ("frame,b", [880] * 2),
        ("headless,a", [880] * 2 + [440] * 3),
        ("headless,headless fast,headless stereo", [880] * 2 + [660] * 4),
    ],
)
def test_all_of_an_mp3_is_read(mp3, names, pitches):
    assert soundfile.info(mp3(names)).duration < len(pitches) - 0.5  # else there would be nothing to correct
    seconds, found = seconds_and_pitches(mp3(names))
    assert seconds == pytest.approx(len(pitches), abs=0.5)
    assert [min((440, 660, 880), key=lambda one: abs(one - pitch)) for pitch in found[: len(pitches)]] == pitches


@pytest.mark.parametrize("names", ["a", "title,a", "a,end"])
def test_an_mp3_of_one_recording_is_left_to_libsndfile(mp3, names):
    assert unread_format(mp3(names), "x") is None
    assert seconds_and_pitches(mp3(names))[0] == 3.0


def test_a_file_is_decoded_once_until_it_changes(mp3, monkeypatch):
    decoded = []
    monkeypatch.setattr("espnet_diverse.audio.truncation._mp3_format", lambda *_: decoded.append(1))
    path = mp3("a")
    unread_format(path, "x")
    unread_format(path, "x")
    assert len(decoded) == 1
    unread_format(mp3("a,b"), "x")
    assert len(decoded) == 2


def test_the_decoder_prints_nothing_about_a_sound_mp3(tmp_path, capfd):
    noise = np.random.default_rng(0).normal(0, 0.1, 80_000) * np.repeat([0.01, 1, 0.01, 1, 0.01], 16_000)
    soundfile.write(tmp_path / "x.mp3", noise, 16_000, bitrate_mode="VARIABLE", format="MP3")
    assert unread_format(tmp_path / "x.mp3", "x") is None
    with open_file(tmp_path / "x.mp3") as file:
        assert sum(map(len, file.blocks(largest=1000))) == 80_000
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("names", "what"), [("a,half", "recording 2 of 2 has about 16.. of 3492"), ("half,a", "recording 1 of 2 has about")]
)
def test_a_truncated_recording_among_several_is_refused(mp3, names, what):
    with pytest.raises(DataError, match=rf"x\.mp3: {what} .*bytes; the file is truncated, get it again$"):
        read_audio(mp3(names))


def test_an_mp3_that_libsndfile_stops_within_is_refused(pieces, tmp_path):
    mono, stereo = bytearray(pieces["a"]), pieces["headless stereo"]
    count = mono.index(b"\0\0\0\x0f") + 4
    frames = int.from_bytes(mono[count : count + 4], "big")
    mono[count : count + 4] = (frames + 58).to_bytes(4, "big")
    (tmp_path / "x.mp3").write_bytes(mono + stereo)
    with pytest.raises(DataError, match=r"x\.mp3: libsndfile does not decode \d+ bytes in it; it is damaged, "):
        read_audio(tmp_path / "x.mp3")


@pytest.mark.usefixtures("ffmpeg")
@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_all_recordings_of_an_ogg_file_are_read(tmp_path, subtype):
    how = {"format": "OGG", "subtype": subtype}
    (tmp_path / "x.ogg").write_bytes(encoded(3, **how) + encoded(2, hertz=880, **how))
    seconds, pitches = seconds_and_pitches(tmp_path / "x.ogg")
    assert seconds == pytest.approx(5.0, abs=0.05)
    assert pitches == pytest.approx([440] * 3 + [880] * 2, abs=1)
    (tmp_path / "x.ogg").write_bytes(encoded(3, channels=2, **how) + encoded(2, channels=2, hertz=880, **how))
    assert inspect_audio(tmp_path / "x.ogg").channels == 2


@pytest.mark.usefixtures("ffmpeg")
def test_flac_that_is_longer_than_its_header_says_is_read_to_its_end(tmp_path):
    one, other = encoded(3, format="FLAC"), encoded(2, hertz=880, format="FLAC")
    shorter = bytearray(one)
    shorter[21:26] = (int.from_bytes(one[21:26], "big") - 16_000).to_bytes(5, "big")
    (tmp_path / "two.flac").write_bytes(one + other)
    run_ffmpeg("-i", tmp_path / "two.flac", tmp_path / "two.wav")
    loses = soundfile.info(tmp_path / "two.wav").duration < 4.9  # ffmpeg 5 loses frames between recordings
    for content, pitches in ((shorter, [440] * 3), (one + other, [440] * 3 + [880] * 2), (other * 2, [880] * 4)):
        (tmp_path / "x.flac").write_bytes(content)
        if loses and content != shorter:
            with pytest.raises(DataError, match=rf"it ends at [34]\.\d of {len(pitches)}\.0 s"):
                read_audio(tmp_path / "x.flac")
        else:
            assert seconds_and_pitches(tmp_path / "x.flac") == (len(pitches), pitches)


@pytest.mark.usefixtures("ffmpeg")
def test_flac_from_a_pipe_is_read_and_refused_where_it_is_damaged(tmp_path):
    path = piped_flac(tmp_path)
    assert soundfile.info(path).frames > 1 << 60  # which is not true
    assert seconds_and_pitches(path) == (2.0, [440] * 2)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"x\.flac: ffmpeg cannot read it as flac without its length \(.*\); get it"):
        read_audio(path)


@pytest.mark.usefixtures("ffmpeg")
@pytest.mark.parametrize("loud", [slice(0, 16_000), slice(32_000, 48_000)])
def test_mp3_of_variable_bit_rate_without_its_length_is_read_to_its_end(tmp_path, loud):
    noise = np.random.default_rng(0).standard_normal(48_000)
    samples = 1e-4 * noise
    samples[loud] = 0.2 * noise[loud]
    soundfile.write(tmp_path / "x.wav", samples, 16_000)
    how = ["-q:a", "7", "-write_xing", "0", "-metadata", "title=ä", tmp_path / "x.mp3"]
    run_ffmpeg("-i", tmp_path / "x.wav", *how)
    assert not 2.5 < soundfile.info(tmp_path / "x.mp3").duration < 4  # else there would be nothing to correct
    samples, rate = read_audio(tmp_path / "x.mp3")
    assert len(samples) / rate == pytest.approx(3.0, abs=0.15)
    assert np.abs(samples[loud][2000:-2000]).mean() > 0.1 and np.abs(samples).mean() < 0.1


def test_mp3_without_its_length_nor_sound_is_refused(tmp_path):
    (tmp_path / "x.mp3").write_bytes(b"\xff\xfb\x90\x00" + bytes(20_000))
    with pytest.raises(DataError, match=r"x\.mp3: not readable as audio"):
        read_audio(tmp_path / "x.mp3")


@pytest.mark.parametrize("kind", ["concatenated mp3", "concatenated ogg", "mp3 without its length"])
def test_without_ffmpeg_nothing_is_read_short(tmp_path, monkeypatch, kind):
    path = KINDS[kind][0](tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(DataError, match=rf"^{path}: is {kind}, which only ffmpeg reads, and no ffmpeg is installed; "):
        read_audio(path)


def test_other_files_are_left_to_libsndfile(tmp_path):
    for content in (b"R", b"\xff" * 4000, b"ID3", encoded(1, format="WAV"), encoded(1, format="FLAC")):
        (tmp_path / "x").write_bytes(content)
        assert unread_format(tmp_path / "x", "x") is None


@pytest.fixture
def unread(tmp_path):
    def count(content):
        (tmp_path / "u").write_bytes(content)
        return unread_bytes(tmp_path / "u", "u")

    return count


@pytest.fixture
def wav(tmp_path):
    return in_format(tmp_path / "a.wav", format="WAV", subtype="PCM_16")


@pytest.mark.parametrize("options", FORMATS, ids=str)
@pytest.mark.parametrize("subtype", ["PCM_16", "FLOAT"])
def test_whole_files_leave_nothing_out(options, subtype, tmp_path, unread):
    content = in_format(tmp_path / "a", subtype=subtype, **options)
    assert unread(content) == 0
    assert unread(content + bytes(100)) == 0  # padding


def test_other_chunks_are_no_samples(wav, tmp_path, unread):
    assert unread(wav + b"LIST" + struct.pack("<I", 2000) + bytes(2000)) == 0
    assert unread(wav + b"LIST" + struct.pack("<I", 2001) + bytes(2002)) == 0
    aiff = in_format(tmp_path / "a", format="AIFF")
    assert unread(aiff + b"ANNO" + struct.pack(">I", 2000) + bytes(2000)) == 0


@pytest.mark.parametrize("kind", lying_headers.KINDS)
def test_samples_after_the_length_in_the_header_are_counted(kind, tmp_path):
    assert unread_bytes(Path(lying_headers.KINDS[kind](tmp_path / "a")), "a") == 16_000


def test_a_second_wav_behind_the_first_is_refused(wav, tmp_path):
    (tmp_path / "x.wav").write_bytes(wav + wav)
    with pytest.raises(DataError, match="x.wav: not readable as audio"):
        read_audio(tmp_path / "x.wav")


def test_a_length_that_was_never_filled_in_leaves_nothing_out(wav, tmp_path, unread):
    au = in_format(tmp_path / "a", format="AU")
    for size in (0xFFFFFFFF, 0x7FFFFFFF):
        assert unread(wav[:40] + struct.pack("<I", size) + wav[44:]) == 0
        assert unread(au[:8] + struct.pack(">I", size) + au[12:]) == 0
    # libsndfile takes sizes of 8 and 0 for unknown, and reads to the end of the file.
    assert unread(wav[:4] + struct.pack("<I", 8) + wav[8:40] + bytes(4) + wav[44:]) == 0


@pytest.fixture(params=["VORBIS", "OPUS"])
def ogg(tmp_path, request):
    path = tmp_path / "a.ogg"
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 48_000)
    soundfile.write(path, noise, 16_000, format="OGG", subtype=request.param)
    return path


def test_whole_files_pass_and_concatenated_ones_are_told_apart(ogg, tmp_path):
    content, tag = ogg.read_bytes(), b"TAG" + bytes(125)
    for more, is_chained in ((b"", False), (content, True), (tag, False), (tag + content, True)):
        ogg.write_bytes(content + more)
        assert check_ogg(ogg, "x") == is_chained
    (tmp_path / "b").write_bytes(b"RIFF")
    assert not check_ogg(tmp_path / "b", "x")


def test_every_flip_and_every_cut_is_found(ogg):
    content, random = ogg.read_bytes(), np.random.default_rng(1)
    for place in random.integers(4, len(content), 100):
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(random.integers(8))
        ogg.write_bytes(flipped)
        with pytest.raises(DataError, match="^x: (the ogg page at byte .* is damaged|ends inside an ogg page)"):
            check_ogg(ogg, "x")
    for place in random.integers(5, len(content), 100):
        ogg.write_bytes(content[:place])
        with pytest.raises(DataError, match="^x: .*truncated"):
            check_ogg(ogg, "x")
    last = content.rindex(b"OggS")
    ogg.write_bytes(content[:last])  # between two pages
    with pytest.raises(DataError, match="a.ogg: its ogg stream has no end; the file is truncated"), open_file(ogg):
        pass
