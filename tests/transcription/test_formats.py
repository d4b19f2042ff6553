import html
import json
import math
import re
from dataclasses import replace

import pytest

from espnet_diverse.transcription.formats import CUE_COLUMNS, FORMATS, write_transcript, written
from espnet_diverse.transcription.result import Alternative, Segment, Word
from espnet_diverse.transcription.transcript import Transcript

TRANSCRIPT = Transcript(
    segments=(
        Segment(0.5, 2.25, "hello there", -1.5, ("h", "e"), (0.5, 1.0), (), (Alternative("hello there", -1.5),)),
        Segment(2.25, 3.0, "", -math.inf),
        Segment(3599.9996, 3661.0014, "tom & <jerry> --> ran", -2.0),
    ),
    duration=3662.0,
    conditions={"lang": "en"},
    language_probabilities={"en": 0.75, "de": 0.25},
    language="en",
)
SILENCE = Transcript((), 3.0, {})


def worded(text, words, seconds=0.5):
    """A transcript of one segment, of which each word takes `seconds`, one after the other."""
    timed = tuple(Word(word, i * seconds, (i + 1) * seconds, 0.5) for i, word in enumerate(words))
    return Transcript((Segment(0.0, len(words) * seconds, text, -1.0, words=timed),), 60.0, {})


def made(format, transcript=TRANSCRIPT, name="talk"):
    return FORMATS[format](transcript, name)


def read_cues(text, point):
    """Start and end in milliseconds and text of each cue of srt (point ",") or vtt (".")."""
    time = rf"(\d\d):(\d\d):(\d\d)\{point}(\d\d\d)"
    cues = []
    for block in text.removeprefix("WEBVTT\n\n").removesuffix("\n").split("\n\n"):
        lines = block.split("\n")
        if point == ",":
            assert lines.pop(0) == str(len(cues) + 1)
        numbers = [int(each) for each in re.fullmatch(f"{time} --> {time}", lines[0]).groups()]
        start, end = (((h * 60 + m) * 60 + s) * 1000 + ms for h, m, s, ms in (numbers[:4], numbers[4:]))
        assert len(lines) == 2
        cues.append((start, end, lines[1]))
    return cues


def test_txt_has_a_line_a_segment():
    assert made("txt") == "hello there\ntom & <jerry> --> ran\n"
    assert made("txt", SILENCE) == ""


def test_trn_has_one_line_with_the_name():
    assert made("trn") == "hello there tom & <jerry> --> ran (talk)\n"
    assert made("trn", SILENCE) == "(talk)\n"
    assert made("trn", SILENCE, "my talk (1)") == "(my_talk_1_)\n"  # an id that sclite and `score` read


def test_tsv_counts_milliseconds():
    rows = [line.split("\t") for line in made("tsv").splitlines()]
    assert rows == [
        ["start", "end", "text"],
        ["500", "2250", "hello there"],
        ["3600000", "3661001", "tom & <jerry> --> ran"],
    ]
    assert made("tsv", SILENCE) == "start\tend\ttext\n"


def test_words_give_tsv_the_times_of_subtitles():
    words = (Word("one", 0.3, 0.5, 0.5), Word("two", 0.5, 0.9, 0.5))
    transcript = Transcript((Segment(0.0, 1.0, "one two", -1.0, words=words),), 1.0, {})
    assert made("tsv", transcript).splitlines()[1] == "300\t900\tone two"
    assert read_cues(made("srt", transcript), ",") == [(300, 900, "one two")]


def test_json_has_everything():
    content = json.loads(made("json"))
    assert content["name"] == "talk" and content["text"] == TRANSCRIPT.text and content["duration"] == 3662.0
    assert content["language"] == "en" and content["conditions"] == TRANSCRIPT.conditions
    assert list(content["language_probabilities"].items()) == [("en", 0.75), ("de", 0.25)]
    for index, (row, segment) in enumerate(zip(content["segments"], TRANSCRIPT.segments, strict=True)):
        assert (row["id"], row["start"], row["end"], row["text"]) == (index, segment.start, segment.end, segment.text)
        assert row["score"] == (segment.score if math.isfinite(segment.score) else None)
        assert (tuple(row["tokens"]), tuple(row["confidences"])) == (segment.tokens, segment.confidences)
        assert tuple(Alternative(**each) for each in row["alternatives"]) == segment.alternatives
    (segment,) = json.loads(made("json", worded("a b", ["a", "b"])))["segments"]
    assert segment["words"][1] == {"word": "b", "start": 0.5, "end": 1.0, "probability": 0.5}
    assert json.loads(made("json", SILENCE))["segments"] == []


def test_json_has_the_digits_that_are_certain():
    """Digits by which two batches, or two CPUs, may differ in float32 are not written."""
    contents = []
    for change in (0.0, 2.4e-7):
        words, texts = (Word("a", 0.0, 0.5, 0.123412 + change),), (Alternative("a", -11.288329363 - change),)
        segment = Segment(0.0, 0.5, "a", texts[0].score, ("a",), (words[0].confidence,), words, texts)
        contents.append(made("json", Transcript((segment,), 0.5, {}, {"en": 0.987654321 - change})))
    assert contents[0] == contents[1]
    content = json.loads(contents[0])
    (row,) = content["segments"]
    assert row["score"] == row["alternatives"][0]["score"] == -11.2883
    assert row["confidences"] == [row["words"][0]["probability"]] == [0.1234]
    assert content["language_probabilities"] == {"en": 0.9877}


def test_subtitles_round_and_escape():
    spoken = [(500, 2250, "hello there"), (3_600_000, 3_661_001, "tom & <jerry> -> ran")]
    assert read_cues(made("srt"), ",") == spoken
    found = [(start, end, html.unescape(text)) for start, end, text in read_cues(made("vtt"), ".")]
    assert found == [spoken[0], (*spoken[1][:2], "tom & <jerry> --> ran")]
    assert "-->" not in read_cues(made("vtt"), ".")[1][2] and "<" not in read_cues(made("vtt"), ".")[1][2]
    assert made("srt", SILENCE) == "" and made("vtt", SILENCE) == "WEBVTT\n"


@pytest.mark.parametrize("arrow", ["-->", "--->", "----->", "-->->", "-->-->"])
def test_no_arrow_of_a_text_is_one_of_the_times(arrow):
    spoken = Transcript((Segment(0.0, 1.0, f"a {arrow} b", -1.0),), 1.0, {})
    for format, point in (("srt", ","), ("vtt", ".")):
        ((_, _, text),) = read_cues(made(format, spoken), point)
        assert "-->" not in text and text.startswith("a ") and text.endswith(" b")


def test_srt_to_the_letter():
    assert made("srt").startswith("1\n00:00:00,500 --> 00:00:02,250\nhello there\n\n2\n01:00:00,000 --> 01:01:01,001\n")


def test_vtt_to_the_letter():
    assert made("vtt").startswith("WEBVTT\n\n00:00:00.500 --> 00:00:02.250\nhello there\n\n01:00:00.000 --> 01:01:01.")


def test_words_part_long_segments_into_cues():
    words = [f"word{index:02d}" for index in range(40)]
    cues = read_cues(made("srt", worded(" ".join(words), words)), ",")
    assert " ".join(text for _, _, text in cues) == " ".join(words)
    assert all(len(text) <= CUE_COLUMNS for _, _, text in cues) and len(cues) == 4
    assert [start for start, _, _ in cues[1:]] == [end for _, end, _ in cues[:-1]]
    assert cues[0][:2] == (0, 12 * 500) and cues[-1][1] == 40 * 500


@pytest.mark.parametrize(("last", "cues"), [(41, 1), (42, 2)])
def test_a_cue_has_two_lines_of_42_columns(last, cues):
    words = ["a" * 42, "b" * last]
    assert len(read_cues(made("srt", worded(" ".join(words), words)), ",")) == cues


def test_marks_on_letters_take_no_columns_of_a_cue():
    words = ["e\u0301" * 42, "b" * 41]
    assert len(read_cues(made("srt", worded(" ".join(words), words)), ",")) == 1


@pytest.mark.parametrize("pause", [1.0, 1.5])
def test_pauses_part_cues_too(pause):
    early, late = Word("one", 0.0, 0.5, 1.0), Word("two", 0.5 + pause, 2.5, 1.0)
    transcript = Transcript((Segment(0.0, 3.0, "one two", -1.0, words=(early, late)),), 3.0, {})
    assert read_cues(made("vtt", transcript), ".") == [(0, 500, "one"), (500 + 1000 * pause, 2500, "two")]


def test_cues_of_speakers_are_in_the_order_of_time():
    long = Word("so", 0.0, 1.0, 1.0), Word("then", 5.0, 6.0, 1.0)
    segments = Segment(0.0, 6.0, "so then", -1.0, words=long, speaker="a"), Segment(2.0, 3.0, "yes", -1.0)
    cues = read_cues(made("vtt", Transcript(segments, 6.0, {})), ".")
    assert [text for _, _, text in cues] == ["<v a>so", "yes", "<v a>then"]


def test_cues_keep_the_spaces_of_their_language():
    text = "今天天气很好" * 10
    cues = read_cues(made("srt", worded(text, list(text))), ",")
    assert "".join(cue for _, _, cue in cues) == text and {len(cue) for _, _, cue in cues} == {42, 18}
    assert read_cues(made("srt", worded("don't, stop", ["don't,", "stop"])), ",")[0][2] == "don't, stop"


def test_words_that_are_not_in_the_text_leave_the_segment_whole():
    assert read_cues(made("srt", worded("something else", ["a", "b"])), ",") == [(0, 1000, "something else")]


def test_line_ends_and_tabs_do_not_break_rows():
    transcript = Transcript((Segment(0.0, 1.0, "a\tb\n\nc", -1.0),), 1.0, {})
    assert made("txt", transcript) == "a b c\n" and made("trn", transcript) == "a b c (talk)\n"
    assert made("tsv", transcript).endswith("0\t1000\ta b c\n")
    assert read_cues(made("srt", transcript), ",") == [(0, 1000, "a b c")]


@pytest.mark.parametrize("formats", [["txt"], list(FORMATS)])
def test_files_are_written_by_format(tmp_path, formats):
    write_transcript(TRANSCRIPT, "talk.one", formats, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"talk.one.{format}" for format in formats}
    for format in formats:
        assert (tmp_path / f"talk.one.{format}").read_text(encoding="utf-8") == made(format, name="talk.one")


def test_lines_of_subtitles_have_a_width():
    words = re.findall(r"\w+", "the quick brown fox jumps over the lazy dog and an extraordinarily long one")
    spoken = worded(" ".join(words), words)
    text = spoken.to_srt(max_line_width=12)
    cues = [block.split("\n")[2:] for block in text.removesuffix("\n").split("\n\n")]
    assert cues[0] == ["the quick", "brown fox"] and " ".join(line for cue in cues for line in cue) == " ".join(words)
    assert all(len(line) <= 12 or " " not in line for cue in cues for line in cue)
    assert written(spoken, "talk", "vtt", 12) == spoken.to_vtt(12) != spoken.to_vtt()
    assert written(spoken, "talk", "txt", 12) == made("txt", spoken)


@pytest.mark.parametrize(("speaker", "width"), [("", 10), ("", 26), ("Ann", 10)])
def test_cues_have_at_most_two_lines(speaker, width):
    words = ["aaaaaa", "bbbbbb", "cccccc", "the", "international", "conference", "recommendations", "were"]
    (segment,) = worded(" ".join(words), words).segments
    spoken = Transcript((replace(segment, speaker=speaker),), 1.0, {})
    cues = [block.split("\n")[2:] for block in spoken.to_srt(width).removesuffix("\n").split("\n\n")]
    assert {len(cue) for cue in cues} <= {1, 2} and len(cues) > 1


def test_lines_break_between_chinese_characters_and_not_before_punctuation():
    spoken = Transcript((Segment(0.0, 1.0, "今天天气，很好abc de", -1.0),), 1.0, {})
    assert spoken.to_srt(8).split("\n")[2:-1] == ["今天天", "气，很好", "abc de"]


def test_lines_break_between_characters_of_thai_and_not_before_their_marks():
    spoken = Transcript((Segment(0.0, 1.0, "ดื่มน้ำเย็นแล้ว ok", -1.0),), 1.0, {})
    assert spoken.to_srt(5).split("\n")[2:-1] == ["ดื่มน้ำ", "เย็นแล้", "ว ok"]
