import logging

import pytest
from torch import nn

from espnet_diverse.attention import build_selection
from espnet_diverse.attention.selection.selection_options import SelectionOptions
from espnet_diverse.decoding.condition_ids import (
    KnownConditions,
    completed,
    condition_indices,
    indices_of,
    known_conditions,
    warn_of_unused,
)
from espnet_diverse.errors import DataError

TASKS = {"lang": ["de", "fr"]}
UTTERANCES = ["a", "b"]
KNOWN = {"lang": ["ar", "de"], "tgtlang": ["de", "en", "es"]}


def indices(names, data_dir, utterances, given):
    return condition_indices(KnownConditions(names), data_dir, utterances, given)


@pytest.fixture
def data_dir(tmp_path):
    (tmp_path / "utt2lang").write_text("a ar\nb de\n")
    (tmp_path / "utt2tgtlang").write_text("a es\nb en\n")
    (tmp_path / "utt2domain").write_text("a talk\nb news\n")
    return tmp_path


def test_the_tables_name_the_tasks(data_dir):
    expected = {"a": {"lang": 0, "tgtlang": 2}, "b": {"lang": 1, "tgtlang": 1}}
    assert indices(KNOWN, data_dir, UTTERANCES, {}) == expected
    assert indices({"domain": ["news", "talk"]}, data_dir, UTTERANCES, {}) == {
        "a": {"domain": 1},
        "b": {"domain": 0},
    }
    assert indices({}, data_dir, UTTERANCES, {}) == {"a": {}, "b": {}}


def test_a_given_name_holds_for_all(data_dir):
    expected = {"a": {"lang": 1, "tgtlang": 2}, "b": {"lang": 1, "tgtlang": 1}}
    assert indices(KNOWN, data_dir, UTTERANCES, {"lang": "de"}) == expected
    expected = {"a": {"lang": 0, "tgtlang": 0}, "b": {"lang": 1, "tgtlang": 0}}
    assert indices(KNOWN, data_dir, UTTERANCES, {"tgtlang": "de"}) == expected


def test_another_form_of_a_given_language_is_understood(data_dir):
    assert indices(KNOWN, data_dir, ["a"], {"lang": "de-AT", "tgtlang": "Spanish"}) == {"a": {"lang": 1, "tgtlang": 2}}
    assert completed(KnownConditions(KNOWN), {"lang": "DE", "tgtlang": "eng"}, False) == {"lang": "de", "tgtlang": "en"}


def test_the_target_language_is_the_language_where_none_is_named(data_dir):
    (data_dir / "utt2tgtlang").unlink()
    known = {"tgtlang": ["ar", "de"]}
    assert indices(known, data_dir, UTTERANCES, {}) == {"a": {"tgtlang": 0}, "b": {"tgtlang": 1}}
    assert indices(known, data_dir, UTTERANCES, {"lang": "de"}) == {"a": {"tgtlang": 1}, "b": {"tgtlang": 1}}


@pytest.mark.parametrize(
    ("known", "given", "said"),
    [
        (KNOWN, {"lang": "xx"}, "--language xx: unknown language; this model knows: ar de"),
        (KNOWN, {"tgtlang": "xx"}, "--target_language xx: unknown target language; this model knows: de en es"),
        (
            KnownConditions({"tgtlang": ["de"]}, {"tgtlang": "de"}),  # the data directory of speech recognition
            {"lang": "xx"},
            "^--language xx: unknown target language; this model knows: de$",
        ),
        ({"lang": ["ar", "fr"]}, {}, "utt2lang: utterance 'b' has the unknown language 'de'; this model knows: ar fr"),
    ],
)
def test_unknown_names_are_refused(data_dir, known, given, said):
    if isinstance(known, KnownConditions):
        (data_dir / "utt2tgtlang").unlink()
    else:
        known = KnownConditions(known)
    with pytest.raises(DataError, match=said):
        condition_indices(known, data_dir, UTTERANCES, given)


def test_an_utterance_without_a_name_is_refused(data_dir):
    said = (
        "utterance 'c' has no language; add it to utt2lang of the data directory, or give --language; this model knows"
    )
    with pytest.raises(DataError, match=said):
        indices(KNOWN, data_dir, [*UTTERANCES, "c"], {})
    (data_dir / "utt2domain").unlink()
    with pytest.raises(DataError, match="utterance 'a' has no domain; .* give --domain; this model knows: x"):
        indices({"domain": ["x"]}, data_dir, UTTERANCES, {})


def test_a_name_without_effect_is_said(data_dir, caplog):
    with caplog.at_level(logging.WARNING):
        indices(KNOWN, data_dir, UTTERANCES, {"lang": "de", "tgtlang": "de"})
        (data_dir / "utt2tgtlang").unlink()
        indices({"tgtlang": ["de"]}, data_dir, UTTERANCES, {"lang": "de"})  # it is the target language too
        assert caplog.messages == []
        indices({"lang": ["de"]}, data_dir, UTTERANCES, {"lang": "de", "domain": "news"})
    assert caplog.messages == ["--domain news has no effect: no part of this model depends on the domain"]


def test_a_translation_has_no_target_language_unless_it_is_named(data_dir):
    (data_dir / "utt2tgtlang").unlink()
    (data_dir / "src_text").write_text("a x\nb y\n")
    for given in ({}, {"lang": "de"}):
        said = "utterance 'a' has no target language; .* or give --target_language; this model knows: ar de"
        with pytest.raises(DataError, match=said):
            indices({"tgtlang": ["ar", "de"]}, data_dir, UTTERANCES, given)


def test_a_model_with_a_default_takes_it(data_dir, caplog):
    known = KnownConditions({"lang": ["de", "fr"]}, {"lang": "fr"})
    with caplog.at_level(logging.WARNING):
        chosen = condition_indices(known, data_dir, [*UTTERANCES, "c"], {})
    assert chosen == {"a": {"lang": 1}, "b": {"lang": 0}, "c": {"lang": 1}}
    said = "2 of 3 utterances have no language that the model knows; the default fr is used"
    assert caplog.messages == [said]
    with pytest.raises(DataError, match="--language ar: unknown language; this model knows: de fr"):
        condition_indices(known, data_dir, UTTERANCES, {"lang": "ar"})


def test_known_conditions_of_a_model():
    options = SelectionOptions("group", conditions=TASKS, default_condition={"lang": "fr"})
    model = nn.Sequential(build_selection(options, 4))
    assert known_conditions(model) == KnownConditions({}, {"lang": "fr"})
    model.conditions = TASKS
    assert known_conditions(model) == KnownConditions(TASKS, {"lang": "fr"})
    assert known_conditions(nn.Linear(1, 1)) == KnownConditions()


@pytest.mark.parametrize(
    ("given", "same_language", "expected"),
    [
        ({"lang": "de"}, True, {"lang": "de", "tgtlang": "de", "domain": "news"}),
        ({"tgtlang": "de"}, True, {"lang": "de", "tgtlang": "de", "domain": "news"}),
        ({"lang": "de", "tgtlang": "en"}, True, {"lang": "de", "tgtlang": "en", "domain": "news"}),
        ({"lang": "de"}, False, {"lang": "de", "domain": "news"}),
        ({}, True, {"domain": "news"}),
    ],
)
def test_names_of_one_recording_are_completed(given, same_language, expected):
    known = KnownConditions({**KNOWN, "domain": ["news"]})
    assert completed(known, given, same_language) == expected
    assert completed(KnownConditions(KNOWN, {"lang": "ar"}), {}, False) == {"lang": "ar"}


def test_indices_of_one_recording():
    assert indices_of(KnownConditions(KNOWN), {"lang": "de", "tgtlang": "es"}) == {"lang": 1, "tgtlang": 2}
    said = "the target language is missing; give --target_language; this model knows: de en es"
    with pytest.raises(DataError, match=said):
        indices_of(KnownConditions(KNOWN), {"lang": "de"})
    with pytest.raises(DataError, match="--language xx: unknown language; this model knows: ar de"):
        completed(KnownConditions(KNOWN), {"lang": "xx"}, False)
    with pytest.raises(DataError, match="^--target_language xx: unknown language; this model knows: de fr$"):
        completed(KnownConditions(TASKS), {"tgtlang": "xx"}, True)  # the option that was given


def test_names_of_one_recording_that_change_nothing_are_said(caplog):
    known = KnownConditions({"tgtlang": ["de"]})
    warn_of_unused(known, {"lang": "de", "domain": "news"}, True)
    assert "--domain news has no effect" in caplog.text and "--language" not in caplog.text
    warn_of_unused(known, {"lang": "de"}, False)
    assert "--language de has no effect" in caplog.text


def test_each_condition_without_effect_is_said_once(caplog):
    told: set[str] = set()
    for given in ({"domain": "news"}, {"domain": "talks"}, {"lang": "de"}, {"lang": "ar", "domain": "news"}):
        warn_of_unused(KnownConditions({}), given, True, told)
    assert [message.split()[:2] for message in caplog.messages] == [["--domain", "news"], ["--language", "de"]]


def test_a_second_language_that_is_not_used_is_said(data_dir, caplog):
    warn_of_unused(KnownConditions(TASKS), {"lang": "de", "tgtlang": "de"}, True)
    warn_of_unused(KnownConditions(KNOWN), {"lang": "de", "tgtlang": "en"}, True)
    assert caplog.messages == []
    warn_of_unused(KnownConditions(TASKS), {"lang": "de", "tgtlang": "fr"}, True)
    (data_dir / "utt2tgtlang").unlink()
    indices({"tgtlang": ["de"]}, data_dir, UTTERANCES, {"lang": "ar", "tgtlang": "de"})
    assert caplog.messages == [
        "--target_language fr has no effect: no part of this model depends on the target language",
        "--language ar has no effect: no part of this model depends on the language",
    ]
