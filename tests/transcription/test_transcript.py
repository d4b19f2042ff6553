"""Transcripts: the text of the segments together, their speakers and words."""

import json

import pytest

from espnet_diverse.transcription.result import Segment, Word
from espnet_diverse.transcription.transcript import Transcript


@pytest.mark.parametrize(
    ("texts", "text"),
    [([], ""), (["", "one", "", "two", ""], "one two"), (["今天", "天气"], "今天天气"), (["今天", "ok"], "今天 ok")],
)
def test_the_text_joins_the_segments_as_their_script_does(texts, text):
    segments = tuple(Segment(float(start), start + 1.0, each, -1.0) for start, each in enumerate(texts))
    assert Transcript(segments, 10.0, {}).text == text


def test_segments_have_their_speakers_and_are_split_where_words_change_them():
    words = tuple(Word(text, at, at + 0.5, 0.9) for text, at in (("good", 0.0), ("morning", 1.0), ("yes", 2.0)))
    timed = Segment(0.0, 2.5, "good morning, yes", -3.0, tuple("abc"), words=words)
    plain = Segment(3.0, 4.0, "and so", -1.0, tuple("de"))
    found = Transcript((timed, plain), 5.0, {}).with_speakers(lambda start, end: "anna" if start < 1.9 else "ben")
    assert [(each.speaker, each.text, each.start, each.end) for each in found.segments] == [
        ("anna", "good morning,", 0.0, 1.5),
        ("ben", "yes", 2.0, 2.5),
        ("ben", "and so", 3.0, 4.0),
    ]
    assert found.segments[0].words == words[:2] and found.segments[2].tokens == plain.tokens
    assert found.to_srt().split("\n")[2] == "[anna] good morning" and "<v ben>yes" in found.to_vtt()
    rows = json.loads(found.to_json())["segments"]
    assert [row["speaker"] for row in rows] == ["anna", "ben", "ben"]
    assert all("speaker" not in row for row in json.loads(Transcript((plain,), 5.0, {}).to_json())["segments"])


def test_channels_become_speakers_in_the_order_of_time():
    first, second = (
        tuple(Segment(start, start + 2.0, text, -1.0) for start, text in rows)
        for rows in ([(0.0, "hello"), (5.0, "fine")], [(1.5, "hi there"), (9.0, "bye")])
    )
    left = Transcript(first, 10.0, {"lang": "de", "domain": "calls"}, {"de": 0.9, "en": 0.1}, "de")
    right = Transcript(second, 11.0, {"lang": "en", "domain": "calls"}, {"en": 0.8, "de": 0.2}, "en")
    found = Transcript.of_channels([left, right])
    assert [(each.speaker, each.text) for each in found.segments] == [
        *(("channel 0", "hello"), ("channel 1", "hi there"), ("channel 0", "fine"), ("channel 1", "bye"))
    ]
    assert (found.duration, found.conditions, found.language) == (11.0, {"domain": "calls"}, None)
    assert found.text == "hello hi there fine bye" and "<v channel 1>hi there" in found.to_vtt()
    silent = Transcript((), 10.0, {"lang": "en"}, None, None)
    assert Transcript.of_channels([left, silent]).language == "de"


def test_words_are_those_of_all_segments():
    words = tuple(Word(text, at, at + 0.5, 0.9) for text, at in (("a", 0.0), ("b", 1.0), ("c", 2.0)))
    segments = Segment(0.0, 1.5, "a b", -1.0, words=words[:2]), Segment(2.0, 2.5, "c", -1.0, words=words[2:])
    assert Transcript(segments, 3.0, {}).words == words and Transcript((), 1.0, {}).words == ()
