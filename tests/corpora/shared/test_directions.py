from pathlib import Path

import pytest

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.shared.directions import refuse_untrained, spoken_languages, translated_directions
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import ConfigError, DataError

WHERE = Path("corpus")
THERE = ("de-en", "en-de", "en-zh", "fr-en")


def directions(**options):
    return translated_directions(Selection(task="st", **options), THERE, WHERE)


def test_languages():
    assert spoken_languages(Selection(), ["de", "en"], WHERE) == ["de", "en"]
    assert spoken_languages(Selection(languages=("en",)), ["de", "en"], WHERE) == ["en"]
    with pytest.raises(ConfigError, match="^corpus: there is no language 'fr'; there are: de en$"):
        spoken_languages(Selection(languages=("de", "fr")), ["de", "en"], WHERE)
    with pytest.raises(ConfigError, match="there are: none$"):
        spoken_languages(Selection(languages=("de",)), [], WHERE)
    with pytest.raises(
        ConfigError, match="^pairs and zero_shot are for task st; select the languages to recognise with"
    ):
        spoken_languages(Selection(pairs=("de-en",)), ["de"], WHERE)


@pytest.mark.parametrize(
    ("options", "trained", "tested"),
    [
        ({}, ["de-en", "en-de", "en-zh", "fr-en"], []),
        ({"languages": ("en",)}, ["en-de", "en-zh"], []),
        ({"pairs": ("fr_en", "de-en")}, ["fr-en", "de-en"], []),
        ({"zero_shot": ("en-zh",)}, ["de-en", "en-de", "fr-en"], ["en-zh"]),
        ({"pairs": ("de-en",), "zero_shot": ("fr-en",)}, ["de-en"], ["fr-en"]),
    ],
)
def test_directions(options, trained, tested):
    assert directions(**options) == dict.fromkeys(trained, True) | dict.fromkeys(tested, False)


@pytest.mark.parametrize(
    ("options", "trained"),
    [
        ({}, ["de-en", "fr-en"]),
        ({"zero_shot": ("de-en",)}, ["fr-en"]),
        ({"languages": ("en",)}, ["en-de", "en-zh"]),
        ({"pairs": ("en-zh",)}, ["en-zh"]),
    ],
)
def test_default_directions(options, trained):
    wanted = translated_directions(Selection(task="st", **options), THERE, WHERE, ("de-en", "fr-en"))
    assert [pair for pair, is_trained in wanted.items() if is_trained] == trained


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"pairs": ("de-fr",)}, "corpus: there is no direction 'de-fr'; there are: de-en en-de en-zh fr-en"),
        ({"zero_shot": ("zh-en",)}, "corpus: there is no direction 'zh-en'; there are: de-en en-de en-zh fr-en"),
        ({"languages": ("zh",)}, "corpus: there is no language 'zh'; there are: de en fr"),
        (
            {"languages": ("de",), "pairs": ("de-en",)},
            "pairs and languages are both given; give one of them",
        ),
    ],
)
def test_unknown_directions(options, what):
    with pytest.raises(ConfigError) as caught:
        directions(**options)
    assert str(caught.value) == what


def test_directions_without_training_data_are_refused():
    train = DataDir(conditions={"utt2lang": {"u": "de"}})
    refuse_untrained(train, ["de"], WHERE)
    with pytest.raises(DataError, match="^corpus: en should be trained but has no training data; remove it$"):
        refuse_untrained(train, ["de", "en"], WHERE)
    train.conditions["utt2tgtlang"] = {"u": "en"}
    refuse_untrained(train, ["de-en"], WHERE)
    with pytest.raises(DataError) as caught:
        refuse_untrained(train, ["de-en", "fr-en"], WHERE)
    todo = "remove it, or test it only with --zero_shot"
    assert str(caught.value) == f"corpus: fr-en should be trained but has no training data; {todo}"
