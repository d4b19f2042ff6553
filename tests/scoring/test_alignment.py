"""The printed alignment: columns are aligned on a terminal in any script."""

from espnet_diverse.scoring.alignment import Alignment


def test_wide_characters_and_marks_stand_in_columns():
    pairs = (("广", "广"), ("州", None), ("市", "是"), (None, "x"))
    assert str(Alignment("utt1", pairs)) == (
        "id: utt1\nScores: (#C #S #D #I) 1 1 1 1\nREF:  广 州 市 *\nHYP:  广 *  是 x\nEval:    D  S  I\n"
    )


def test_words_of_different_length_and_combining_marks():
    # The first word is two letters and a combining acute: two columns.
    pairs = (("xe\u0301", "xe\u0301"), ("sat", "s"), (None, "down"))
    lines = str(Alignment("u", pairs)).splitlines()
    assert lines[2:] == ["REF:  xe\u0301 sat *", "HYP:  xe\u0301 s   down", "Eval:    S   I"]


def test_a_counted_space_is_shown():
    lines = str(Alignment("u", ((" ", None),))).splitlines()
    assert lines[2:] == ["REF:  <space>", "HYP:  *", "Eval: D"]


def test_an_empty_sentence():
    assert str(Alignment("u", ())) == "id: u\nScores: (#C #S #D #I) 0 0 0 0\nREF:\nHYP:\nEval:\n"
