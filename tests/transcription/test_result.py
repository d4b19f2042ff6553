"""Transcripts: the text of the segments together."""

import pytest

from espnet_diverse.transcription.result import Segment, Transcript


@pytest.mark.parametrize(
    ("texts", "text"),
    [([], ""), (["", "one", "", "two", ""], "one two"), (["今天", "天气"], "今天天气"), (["今天", "ok"], "今天 ok")],
)
def test_the_text_joins_the_segments_as_their_script_does(texts, text):
    segments = tuple(Segment(float(start), start + 1.0, each, -1.0) for start, each in enumerate(texts))
    assert Transcript(segments, 10.0, {}).text == text


def test_what_was_not_asked_for_is_empty():
    segment = Segment(0.0, 1.0, "a", -1.0)
    assert segment.tokens == segment.confidences == segment.words == segment.alternatives == ()
    transcript = Transcript((segment,), 1.0, {})
    assert transcript.language is None and transcript.language_probabilities is None
