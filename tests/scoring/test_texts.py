"""Hypotheses in the order of the references."""

import pytest

from espnet_diverse.errors import DataError
from espnet_diverse.scoring.texts import Corpus, System, abridge, system_of


def test_missing_hypotheses_are_empty_and_listed():
    references = {"b": "x", "a": "y", "c": "z"}
    assert system_of("mine", references, {"a": "1", "b": ""}) == System("mine", ("", "1", ""), ("c",))


def test_hypotheses_without_a_reference_are_named():
    with pytest.raises(
        DataError, match="^mine: hypotheses without a reference .2.: x y; score against the text of the"
    ):
        system_of("mine", {"a": "b"}, {"x": "b", "a": "b", "y": ""})


def test_languages_are_known_of_some():
    corpus = Corpus({"a": "", "b": ""}, System("s", ("", "")), languages={"b": "de", "x": "fr"})
    assert corpus.language_list() == ["", "de"]
    assert corpus.systems() == [corpus.system]


def test_abridge():
    assert abridge(["a", "b"]) == "a b"
    assert abridge(map(str, range(8))) == "0 1 2 3 4 and 3 more"
