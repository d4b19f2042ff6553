"""Error rates: against a naive edit distance, by hand on small cases, and on empty and irregular texts."""

import random

import numpy as np
import pytest
from references.edit_distance import edit_distance
from references.traced import traced

from espnet_diverse.scoring import error_rate
from espnet_diverse.scoring.build import build_metrics
from espnet_diverse.scoring.error_rate import ErrorRate
from espnet_diverse.scoring.normalisation import Normalisation
from espnet_diverse.scoring.significance import Bootstrap


def random_texts(count, alphabet, seed):
    pick = random.Random(seed)

    def text():
        return " ".join("".join(pick.choices(alphabet, k=pick.randint(1, 4))) for _ in range(pick.randint(0, 9)))

    return [text() for _ in range(count)], [text() for _ in range(count)]


def counted(references, hypotheses, *ways, languages=None):
    """Counts of each sentence."""
    return ErrorRate(*ways).statistics(references, hypotheses, languages or [""] * len(references))


def total(references, hypotheses, *ways):
    """Correct, substituted, deleted and inserted units, and sentences with an error, of the corpus."""
    return counted(references, hypotheses, *ways).sum(0).tolist()


UNITS_OF = {
    ("char", True): lambda text: list(text.replace(" ", "")),
    ("char", False): list,
    ("word", True): str.split,
}


@pytest.mark.parametrize("ways", UNITS_OF)
def test_against_a_naive_edit_distance(ways):
    references, hypotheses = random_texts(300, "ab中é", seed=7)
    metric, units_of = ErrorRate(*ways), UNITS_OF[ways]
    expected = np.array(list(map(edit_distance, map(units_of, references), map(units_of, hypotheses))))
    statistics = metric.statistics(references, hypotheses, [""] * 300)
    assert (statistics[:, 1:4].sum(1) == expected).all()
    assert (metric.reference_units(statistics) == [len(units_of(text)) for text in references]).all()
    assert (statistics[:, 4] == (expected > 0)).all()
    assert metric.score(statistics.sum(0)) == pytest.approx(
        100 * expected.sum() / sum(map(len, map(units_of, references)))
    )
    for pairs, left, right in zip(
        metric.align(references, hypotheses, [""] * 300), references, hypotheses, strict=True
    ):
        assert [unit for unit, _ in pairs if unit is not None] == units_of(left)
        assert [unit for _, unit in pairs if unit is not None] == units_of(right)


def test_totals_by_hand():
    assert total(["广州市", "天气好", "你好"], ["广州", "天空好啊", "你好"], "char") == [6, 1, 1, 1, 2]
    assert total(["the cat sat", "on the mat"], ["the cat sat down", "on a mat"], "word") == [5, 1, 0, 1, 2]


@pytest.mark.parametrize(
    ("reference", "hypothesis", "counts"),
    [
        ("他 想买 new phone 吗", "他想买newphone吗", [4, 1, 1, 0, 1]),
        ("打开wifi，ok", "打开wi fi，ok", [4, 1, 0, 1, 1]),
        ("打开,ok!", "打开 ok!", [3, 0, 1, 0, 1]),
        ("กินpizzaที่", "กินpizzaที", [6, 0, 1, 0, 1]),
        ("no spaces here", "no space here", [2, 1, 0, 0, 1]),
        ("안녕 하세요", "안녕 하세", [1, 1, 0, 0, 1]),
    ],
)
def test_units_of_mixed_texts_are_characters_and_words(reference, hypothesis, counts):
    assert total([reference], [hypothesis], "unit") == counts


def test_languages_without_spaces_have_a_note_on_words():
    notes = {unit: ErrorRate(unit).notes(["a", "b"], ["a", "b"], ["th", "en"]) for unit in ("char", "word", "unit")}
    assert notes == {"char": [], "unit": [], "word": notes["word"]}
    assert notes["word"][0].startswith("WER makes no sense in th,")
    assert ErrorRate("word").notes(["a"], ["a"], ["ko"]) == []


def test_spaces_count_for_characters_only_where_asked_for():
    assert total(["广 州 市"], ["广州市"], "char") == [3, 0, 0, 0, 0]
    assert total(["广 州 市"], ["广州市"], "char", False) == [3, 0, 2, 0, 1]


def test_invisible_differences_are_not_errors():
    assert total(["e\u0301t\u00e9\u3000x"], ["\u200b\u00e9te\u0301\xa0x "], "char", False) == [5, 0, 0, 0, 0]


def test_an_empty_reference_turns_its_hypothesis_into_insertions():
    statistics = counted(["", "xy", ""], ["abc", "xy", ""], "char")
    assert statistics.tolist() == [[0, 0, 0, 3, 1], [2, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
    # Summed: 3 errors, 2 units. A resample of empty references alone is wholly wrong or wholly right.
    assert ErrorRate("char").score(statistics.sum(0)) == 150
    assert ErrorRate("char").score(statistics).tolist() == [100, 0, 0]


def test_normalised_texts_lose_case_and_punctuation():
    references, hypotheses = ["Das Ist, ja, Gut!", "IĞDIR"], ["das ist ja gut", "ığdır"]
    assert total(references, hypotheses, "word")[:4] == [0, 5, 0, 0]
    languages = ["de", "tr"]
    assert counted(references, hypotheses, "word", True, Normalisation("wer"), languages=languages)[:, :2].tolist() == [
        [4, 0],
        [1, 0],
    ]


def test_details_and_cells():
    metric = ErrorRate("char")
    sums = metric.statistics(["abcd", "x"], ["abc", ""], ["", ""]).sum(0)
    assert metric.details(sums) == {
        **{"units": 5, "correct": 3, "substitutions": 0, "deletions": 2, "insertions": 0, "sentence_errors": 2}
    }
    assert metric.cells(2, sums) == ["2", "5", "60.0", "0.0", "40.0", "0.0", "40.0", "100.0"]
    assert len(metric.cells(2, sums)) == len(metric.columns)


def test_signatures_tell_the_ways_of_counting_apart():
    metrics = [ErrorRate(*ways) for ways in (*UNITS_OF, ("word", True, Normalisation("wer")))]
    signatures = [metric.signature([""], Bootstrap(seed=1)) for metric in metrics]
    assert len(set(signatures)) == 4
    assert signatures[0].startswith("CER|spaces:ignored|case:mixed|norm:NFC|bs:1000|seed:1|jiwer:4")
    assert signatures[2].startswith("WER|case:mixed|norm:NFC|bs")
    assert signatures[3].startswith("WER|case:lc|punct:no|norm:NFC|bs")


@pytest.mark.parametrize("unit", ["char", "word"])
def test_sentences_are_aligned_in_blocks_and_not_kept(unit, monkeypatch):
    references, hypotheses = random_texts(1500, "ab中é", seed=8)
    metric, languages = ErrorRate(unit), [""] * 1500
    at_once = metric.statistics(references, hypotheses, languages)
    monkeypatch.setattr(error_rate, "_BLOCK", 70)
    in_blocks, taken = traced(metric.statistics, references, hypotheses, languages)
    assert (in_blocks == at_once).all() and taken < 600 * 1500


def test_the_signature_has_the_lower_case_of_turkish():
    metric = build_metrics(["wer"], normalisation="wer")["wer"]
    assert metric.signature(["tr"], Bootstrap()) == metric.signature([""], Bootstrap()).replace("NFC", "NFC|i:dotless")
    assert metric.signature(["de"], Bootstrap()) == metric.signature([""], Bootstrap())
    plain = build_metrics(["wer"])["wer"]
    assert plain.signature(["tr"], Bootstrap()) == plain.signature([""], Bootstrap())
