"""Error rates: against a naive edit distance, by hand on small cases, and on what users get wrong."""

import json
import random

import pytest
from references.edit_distance import edit_distance

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.scoring.error_rate import abridge, error_rate


def random_texts(count, alphabet, seed):
    pick = random.Random(seed)

    def text():
        return " ".join("".join(pick.choices(alphabet, k=pick.randint(1, 4))) for _ in range(pick.randint(0, 9)))

    return {f"utt{n}": text() for n in range(count)}, {f"utt{n}": text() for n in range(count)}


UNITS_OF = {
    ("char", True): lambda text: list(text.replace(" ", "")),
    ("char", False): list,
    ("word", True): str.split,
}


@pytest.mark.parametrize("unit, ignore_spaces", UNITS_OF)
def test_against_a_naive_edit_distance(unit, ignore_spaces):
    references, hypotheses = random_texts(300, "ab中é", seed=7)
    units_of = UNITS_OF[unit, ignore_spaces]
    expected = [edit_distance(units_of(references[u]), units_of(hypotheses[u])) for u in references]
    result = error_rate(references, hypotheses, unit, ignore_spaces)
    assert result.errors == sum(expected)
    assert result.units == sum(len(units_of(text)) for text in references.values())
    assert result.sentence_errors == sum(distance > 0 for distance in expected)
    assert result.rate == sum(expected) / result.units
    for alignment, distance in zip(result.alignments, expected, strict=True):
        left, right = zip(*alignment.pairs, strict=True) if alignment.pairs else ((), ())
        assert [u for u in left if u is not None] == units_of(references[alignment.utterance])
        assert [u for u in right if u is not None] == units_of(hypotheses[alignment.utterance])
        assert sum(a != b for a, b in alignment.pairs) == distance


def test_totals_by_hand():
    result = error_rate({"a": "广州市", "b": "天气好", "c": "你好"}, {"a": "广州", "b": "天空好啊", "c": "你好"})
    assert (result.correct, result.substitutions, result.deletions, result.insertions) == (6, 1, 1, 1)
    assert (result.sentences, result.units, result.errors, result.sentence_errors) == (3, 8, 3, 2)
    assert result.rate == 3 / 8
    assert result.missing == ()


def test_words():
    result = error_rate({"a": "the cat sat", "b": "on the mat"}, {"a": "the cat sat down", "b": "on a mat"}, "word")
    assert (result.units, result.substitutions, result.insertions, result.deletions) == (6, 1, 1, 0)


def test_spaces_count_for_characters_only_where_asked_for():
    references, hypotheses = {"a": "广 州 市"}, {"a": "广州市"}
    assert error_rate(references, hypotheses).errors == 0
    assert error_rate(references, hypotheses).sentence_errors == 0
    assert error_rate(references, hypotheses, ignore_spaces=False).deletions == 2


def test_what_nobody_sees_is_no_error():
    result = error_rate({"a": "e\u0301t\u00e9\u3000x"}, {"a": "\u200b\u00e9te\u0301\xa0x "}, ignore_spaces=False)
    assert (result.errors, result.units) == (0, 5)


def test_an_empty_reference_turns_its_hypothesis_into_insertions():
    result = error_rate({"a": "", "b": "xy"}, {"a": "abc", "b": "xy"})
    assert (result.insertions, result.errors, result.units, result.sentence_errors) == (3, 3, 2, 1)
    assert result.rate == 1.5
    assert error_rate({"a": "", "b": "xy"}, {"a": "", "b": "xy"}).sentence_errors == 0


def test_missing_hypotheses_are_deletions_and_listed():
    references = {"a": "abc", "b": "de", "c": "fg", "d": ""}
    result = error_rate(references, {"a": "abc", "c": ""})
    assert result.missing == ("b", "d")
    assert (result.deletions, result.errors, result.units, result.sentence_errors) == (4, 4, 7, 2)
    assert error_rate(references, {}).rate == 1.0


def test_hypotheses_without_a_reference_are_named():
    with pytest.raises(DataError, match="^hypotheses without a reference .2.: x y; score"):
        error_rate({"a": "b"}, {"x": "b", "a": "b", "y": ""})


@pytest.mark.parametrize("references", [{}, {"a": "", "b": " \u3000"}])
def test_references_without_any_unit(references):
    with pytest.raises(DataError, match=f"^the references .{len(references)}. hold no word at all"):
        error_rate(references, {}, "word")


def test_an_unknown_unit_lists_the_known_ones():
    with pytest.raises(ConfigError, match="unknown unit 'phone'; choose one of char, word"):
        error_rate({"a": "b"}, {}, "phone")


def test_spaces_cannot_be_counted_with_words():
    with pytest.raises(ConfigError, match="spaces can be counted with unit char only, not with unit word"):
        error_rate({"a": "b"}, {}, "word", ignore_spaces=False)


def test_to_dict_goes_through_json():
    result = error_rate({"a": "abcd", "b": "x"}, {"a": "abc"})
    summary = json.loads(json.dumps(result.to_dict()))
    assert summary.pop("signature").startswith("CER|spaces:ignored|case:mixed|norm:NFC|jiwer:4")
    assert summary == {
        "unit": "char",
        "sentences": 2,
        "units": 5,
        "correct": 3,
        "substitutions": 0,
        "deletions": 2,
        "insertions": 0,
        "errors": 2,
        "rate": 0.4,
        "sentence_errors": 2,
        "sentence_error_rate": 1.0,
        "missing": ["b"],
    }


def test_signatures_tell_the_ways_of_counting_apart():
    texts = {"a": "b"}
    results = [error_rate(texts, texts, *ways) for ways in UNITS_OF]
    assert len({result.signature for result in results}) == 3
    assert results[2].signature.startswith("WER|case:mixed")


def test_abridge():
    assert abridge(["a", "b"]) == "a b"
    assert abridge(map(str, range(8))) == "0 1 2 3 4 and 3 more"
