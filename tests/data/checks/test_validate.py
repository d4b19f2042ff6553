import math
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_diverse.audio.segments import Segment
from espnet_diverse.data.checks.limits import Limits
from espnet_diverse.data.checks.validate import find_faults, validate
from espnet_diverse.data.faults import FaultsError
from espnet_diverse.data.kaldi import DataDir, write_data_dir
from espnet_diverse.data.tables import write_table
from espnet_diverse.errors import ClusterError, DataError


def whats(source, **options) -> list[str]:
    return [str(fault) for fault in find_faults(source, **options)]


def test_good_set_has_no_fault(data, data_dir):
    validate(data)
    validate(data_dir)


@pytest.mark.parametrize(
    ("table", "key", "what"),
    [
        ("wav.scp", "b1", "text: b1: transcript without audio in wav.scp"),
        ("text", "b1", "wav.scp: b1: audio without transcript in text"),
        ("utt2spk", "b1", "utt2spk: b1: has no line in this table"),
    ],
)
def test_an_utterance_missing_from_one_table_is_named(data, data_dir, table, key, what):
    tables = data.tables()
    write_table(data_dir / table, {k: v for k, v in tables[table].items() if k != key})
    assert any(line.startswith(f"{data_dir}/{what}") for line in whats(data_dir))
    with pytest.raises(DataError, match=what):
        validate(data_dir)


def test_extra_lines_are_named(data, data_dir):
    write_table(data_dir / "utt2spk", data.utt2spk | {"c1": "c"})
    write_table(data_dir / "utt2lang", {"a1": "en", "c1": "de"})
    assert whats(data_dir) == [
        f"{data_dir}/utt2spk: c1: is not in wav.scp; remove the line",
        f"{data_dir}/utt2lang: a2: has no line in this table; add one",
        f"{data_dir}/utt2lang: b1: has no line in this table; add one",
        f"{data_dir}/utt2lang: c1: is not in wav.scp; remove the line",
    ]


def test_every_fault_is_found_in_one_pass(tmp_path, data_dir, write_wav):
    audio = tmp_path / "audio"
    (audio / "a1.wav").unlink()
    soundfile.write(audio / "a2.wav", np.array([0.0, np.nan], np.float32), 16000, subtype="FLOAT")
    (audio / "b1.wav").write_text("not audio")
    (data_dir / "text").write_text("a1\na2 <unk>\nb1 fine\nb1 twice\nc1 alone\n", encoding="utf-8")
    with pytest.raises(DataError, match="; and 4 more .espnet-diverse validate .* lists all.$") as caught:
        validate(data_dir)
    expected = [
        "text:1: empty transcript",
        "text:2: transcript contains the reserved symbol <unk>",
        "text:4: duplicate id 'b1'",
        "text: c1: transcript without audio",
        f"wav.scp: a1: {audio}/a1.wav: no such audio file",
        f"wav.scp: a2: {audio}/a2.wav: holds NaN or infinite samples",
        f"wav.scp: b1: {audio}/b1.wav: not readable as audio",
    ]
    for line, what in zip(map(str, caught.value.faults), expected, strict=True):
        assert line.startswith(f"{data_dir}/{what}")


def test_audio_is_left_alone_where_not_asked_for(data, data_dir):
    Path(data.wav_scp["a1"]).unlink()
    validate(data_dir, read_audio=False)


def test_a_line_in_a_wrong_encoding_is_one_fault(data_dir):
    (data_dir / "text").write_bytes("a1 你好\na2 二\nb1 三\n".encode("gbk"))
    lines = whats(data_dir)
    found = [line.removeprefix(f"{data_dir}/") for line in lines]
    assert (
        found[0]
        == "text:1: not utf-8 at byte offset 3: GBK would be '你好'; if one is right, convert the file with iconv "
        "-f THAT -t UTF-8, else with its own encoding"
    )
    for line, (place, byte) in zip(found[1:], ((2, 11), (3, 17)), strict=True):  # one character is little to go by
        assert line.startswith(f"text:{place}: not utf-8 at byte offset {byte}: ") and "GBK would be" in line


def test_an_empty_or_missing_table_is_one_fault(data_dir):
    (data_dir / "text").write_text("")
    (data_dir / "utt2spk").unlink()
    assert whats(data_dir) == [
        f"{data_dir}/text: is empty",
    ]


def test_pipes_are_listed_and_not_opened(tmp_path, data, data_dir):
    write_table(data_dir / "wav.scp", data.wav_scp | {"a1": f"touch {tmp_path}/ran |"})
    (line,) = whats(data_dir)
    assert "contains a pipe; commands are not run" in line
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def segmented(tmp_path, write_wav) -> DataDir:
    tones = {"r1": 440, "r2": 550}
    wavs = {name: str(write_wav(tmp_path / f"{name}.wav", 1.0, hertz=hertz)) for name, hertz in tones.items()}
    segments = {"a": Segment("r1", 0.0, 0.5), "b": Segment("r1", 0.5, 1.0), "c": Segment("r2", 0.2, 0.8)}
    return DataDir(wavs, dict.fromkeys("abc", "text"), dict.fromkeys("abc", "s"), segments)


def test_good_segments(tmp_path, segmented):
    segmented.segments["b"] = Segment("r1", 0.5, math.inf, 0)
    validate(segmented)
    write_data_dir(segmented, tmp_path / "set")
    validate(tmp_path / "set")


def test_bad_segments_are_named(tmp_path, segmented):
    segmented.segments["b"] = Segment("r1", 1.2, 1.3)
    segmented.segments["c"] = Segment("r3", 0.2, 0.8)
    segmented.segments["a"] = Segment("r1", 0.0, math.inf, 1)
    write_data_dir(segmented, tmp_path / "set")
    assert [line.removeprefix(f"{tmp_path}/set/") for line in whats(tmp_path / "set")] == [
        "segments: c: its recording is not in wav.scp; add it or remove the line",
        "wav.scp: r2: no segment uses this recording; remove it",
        "segments: a: segment has channel 1, and the audio has 1, counted from 0",
        "segments: b: segment from 1.2 to 1.3 s lies past the end of the audio at 1.000 s",
    ]


def test_tables_in_memory_are_checked_like_files(data):
    data.text["a1"] = ""
    data.utt2spk["a2"] = "two words"
    assert whats(data) == [
        "text: a1: empty transcript; add the text or remove the utterance",
        "utt2spk: a2: has 3 columns, and 2 are allowed (an utterance and one name without spaces)",
    ]
    assert whats(DataDir()) == ["wav.scp: is empty", "text: is empty"]


def test_text_alone_is_compared_with_its_sources_and_languages():
    data = DataDir(
        text={"a": "one", "b": "two"}, src_text={"a": "eins", "c": "drei"}, conditions={"utt2lang": {"a": "de"}}
    )
    assert [str(fault) for fault in find_faults(data)] == [
        "src_text: b: has no line in this table; add one",
        "src_text: c: is not in text; remove the line",
        "utt2lang: b: has no line in this table; add one",
    ]
    data.src_text, data.conditions = {"a": "eins", "b": ""}, {}
    (fault,) = find_faults(data)
    assert str(fault).startswith("src_text: b: empty transcript")


def test_audio_of_another_rate_or_more_channels_is_named_for_every_utterance(tmp_path, data, data_dir, write_wav):
    write_wav(Path(data.wav_scp["a1"]), rate=44_100)
    write_wav(Path(data.wav_scp["b1"]), channels=2)
    said = [line for line in whats(data_dir) if "training reads one rate and mono" in line]
    assert [line.partition("wav.scp: ")[2].partition(";")[0] for line in said] == [
        "a2: 1 recording has 16000 Hz and 1 channel",
        "b1: 1 recording has 16000 Hz and 2 channels",
    ]  # the first of three formats with one recording each counts as the usual one
    convert = "convert it with espnet-diverse prepare --rate 16000, or set frontend_conf.fs to the rate of the data"
    convert = f"and the model reads 16000 Hz and 1 channel; {convert}"
    expected = [
        f"{data_dir}/wav.scp: {name}: {data.wav_scp[name]}: has {has}, {convert}"
        for name, has in (("a1", "44100 Hz and 1 channel"), ("b1", "16000 Hz and 2 channels"))
    ]
    assert whats(data_dir, rate=16_000) == whats(data_dir, rate=16_000, decode=False) == expected
    with pytest.raises(DataError, match="^3 faults: .* a2: .*has 16000 Hz and 1 channel, and the model reads 8000 Hz"):
        validate(data_dir, rate=8000)


def test_headers_alone_do_not_show_all_faults(data, data_dir):
    spoilt = np.linspace(-0.5, 0.5, 8000, dtype=np.float32)
    spoilt[-1] = np.nan
    soundfile.write(data.wav_scp["a2"], spoilt, 16000, subtype="FLOAT")
    assert len(whats(data_dir)) == 1 and whats(data_dir, decode=False) == []
    Path(data.wav_scp["b1"]).write_text("not audio")
    assert "b1.wav: not readable as audio" in whats(data_dir, decode=False)[0]


def kinds(source, **options) -> dict:
    """Kinds of the faults found, by utterance."""
    found: dict = {}
    for fault in find_faults(source, **options):
        found.setdefault(fault.where, set()).add(fault.kind)
    return found


def test_implausible_audio_and_texts_have_their_kinds(tmp_path, data, data_dir, write_wav, caplog):
    def put(name: str, samples: np.ndarray, text: str = "some text") -> None:
        data.wav_scp[name] = str(tmp_path / "audio" / f"{name}.wav")
        soundfile.write(data.wav_scp[name], samples, 16000, subtype="PCM_16")
        data.text[name], data.utt2spk[name] = text, name

    noise = np.random.default_rng(0).uniform(-0.3, 0.3, 16000)
    put("silent", np.zeros(16000))
    put("constant", np.full(16000, 0.5))
    put("offset", 0.3 + 0.5 * noise)
    put("clipped", np.clip(20 * noise, -1, 1))
    put("one", noise[:1])
    put("short", noise[:320])
    put("long", np.tile(noise, 61))
    put("crowded", noise[::-1], "x" * 3000)
    put("dots", noise[1:], "... !")
    put("entity", noise[2:], "salt &amp; pepper &#39;")
    put("same", noise[2:])
    put("A1", noise[3:])
    write_data_dir(data, data_dir)
    expected = {
        "silent": {"silent"},
        "constant": {"silent"},
        "offset": {"offset"},
        "clipped": {"clipped"},
        "one": {"short", "silent", "crowded"},
        "short": {"short", "crowded"},
        "long": {"long"},
        "crowded": {"crowded"},
        "dots": {"wordless"},
        "entity": {"entity"},
        "same": {"same_audio"},
        "a1": {"case"},
    }
    assert kinds(data_dir) == expected and kinds(data_dir, nj=1) == expected
    with pytest.raises(FaultsError) as caught:
        validate(data_dir)
    assert {fault.where for fault in caught.value.faults} == {
        *("silent", "constant", "one", "short", "crowded", "dots"),
    }
    assert any("entity: the transcript has the HTML entity &amp;" in message for message in caplog.messages)


def test_tokens_are_compared_with_the_frames_of_ctc(data, data_dir):
    assert kinds(data_dir, limits=Limits(tokens=list)) == {}
    write_table(data_dir / "text", data.text | {"a1": "abcdefghijklm", "b1": "aabbcceeff"})
    assert kinds(data_dir, limits=Limits(tokens=list)) == {"a1": {"crowded"}, "b1": {"crowded"}}
    (fault, _) = find_faults(data_dir, limits=Limits(tokens=list))
    assert fault.what == "the transcript needs 13 frames for CTC, and the audio has 12"


def test_a_header_that_leaves_out_half_the_samples_is_refused(data, data_dir):
    content = bytearray(Path(data.wav_scp["a1"]).read_bytes())
    content[40:44] = (8000).to_bytes(4, "little")
    Path(data.wav_scp["a1"]).write_bytes(content)
    for decode in (True, False):
        (line,) = whats(data_dir, decode=decode)
        assert line.endswith("a1.wav: its header leaves out 8000 bytes after the samples; write the header again")


def test_a_sentence_that_most_utterances_have_is_told(tmp_path):
    data = DataDir(text={f"u{i}": "the same" if i < 12 else f"other {i}" for i in range(20)})
    assert whats(data) == ["text: 12 of 20 utterances have the text 'the same'; check the transcripts"]


def cpu_seconds(data_dir, line):
    """CPU time of finding the faults of a table with this line, the least of three; one that is not new is not read."""
    least = math.inf
    for _ in range(3):
        (data_dir / "text").write_text(f"a1 {line}\na2 三\nb1 four\n", encoding="utf-8")
        start = time.process_time()
        find_faults(data_dir)
        least = min(least, time.process_time() - start)
    return least


@pytest.mark.parametrize("filler", ["x", "\u200c", "अ\u200c", " ", "\xa0", "<", "&"])
def test_a_line_of_millions_of_characters_is_refused_in_linear_time(data, data_dir, filler):
    short, long = (cpu_seconds(data_dir, filler * count) for count in (1_100_000, 4_400_000))
    (line,) = whats(data_dir)
    assert "text:1: has more than the 1000000 bytes that are allowed: are line ends missing?" in line
    assert long < 10 * short  # it would be 16 times, if the time grew with the square of the length


def test_the_longest_line_is_read_in_linear_time(data, data_dir):
    short, long = (cpu_seconds(data_dir, f"a{count * chr(0x200C)}b") for count in (40_000, 160_000))
    assert kinds(data_dir) == {} and long < 10 * short


class Workers:
    """Workers in this process, which an item with a2 kills."""

    def map(self, function, items):
        return (ClusterError("its worker was killed") if "a2" in item[0] else function(item) for item in items)


def test_workers_match_threads_and_a_killed_worker_is_a_fault(data, data_dir):
    Path(data.wav_scp["b1"]).write_text("not audio")
    alone = whats(data_dir)
    lost = f"{data_dir}/wav.scp: a2: {data.wav_scp['a2']}: its worker was killed"
    assert whats(data_dir, nj=Workers()) == [lost, *alone] and len(alone) == 1
    (data_dir / "feats.scp").write_text("a1 gone.ark:4\na2 gone.ark:9\nb1 gone.ark:14\n")
    faults = [fault for fault in whats(data_dir, nj=Workers(), features=0) if "feats.scp: " in fault]
    assert len(faults) == 3 and faults[1] == f"{data_dir}/feats.scp: a2: gone.ark:9: its worker was killed"


def test_a_faulty_line_of_features_is_listed_once(data_dir):
    (data_dir / "feats.scp").write_text("a1 gone.ark:4\na2 cat x |\nb1 gone.ark:14\n")
    said = [fault.removeprefix(f"{data_dir}/feats.scp:") for fault in whats(data_dir, features=0)]
    assert [each.partition(";")[0] for each in said] == [
        *("2: 'cat x |' contains a pipe", " a1: gone.ark:4: no such ark", " b1: gone.ark:14: no such ark"),
    ]
