"""Languages of WMT: all of them into English, or those that are named."""

import pytest

from espnet_diverse.corpora import Selection, wmt_languages
from espnet_diverse.errors import ConfigError, DataError


@pytest.fixture
def tree(write_texts):
    files = {}
    for name in ("train", "valid", "test"):
        for language in wmt_languages.LANGUAGES:
            pair = f"en-{language}" if language == "ro" else f"{language}-en"
            files |= {
                f"{name}.{pair}.{language}": [f"{language} {name}", "b"],
                f"{name}.{pair}.en": [f"en {name}", "c"],
            }
    return write_texts(files)


def test_all_languages_into_english(tree):
    sets = wmt_languages.prepare(tree)
    assert {name: len(data.text) for name, data in sets.items()} == {"train": 28, "dev": 28, "test": 28}
    assert set(sets["dev"].conditions["utt2lang"].values()) == set(wmt_languages.LANGUAGES)
    assert set(sets["dev"].conditions["utt2tgtlang"].values()) == {"en"}
    assert sets["dev"].src_text["ro-en-wmt-dev-0000001"] == "ro valid"
    assert sets["dev"].text["ro-en-wmt-dev-0000001"] == "en valid"


def test_directions_that_are_named(tree):
    data = wmt_languages.prepare(tree, Selection(pairs=("en-cs", "en-zh"), zero_shot=("gu-en",)))
    assert set(data["train"].conditions["utt2tgtlang"].values()) == {"cs", "zh"} and len(data["train"].text) == 4
    assert len(data["test"].text) == 6
    with pytest.raises(ConfigError, match="there is no direction 'cs-de'; there are: "):
        wmt_languages.prepare(tree, Selection(pairs=("cs-de",)))


def test_files_that_are_missing(tree):
    (tree / "test.gu-en.en").unlink()
    for language in wmt_languages.LANGUAGES[:5]:
        (tree / f"train.{language}-en.{language}").unlink()
    lacking = (
        "train.cs-en train.de-en train.es-en train.et-en train.fi-en ...; get them, or name the directions to read"
    )
    with pytest.raises(DataError, match=f"^{tree}: has no pair of files {lacking} with --pairs$"):
        wmt_languages.prepare(tree)
    assert wmt_languages.prepare(tree, Selection(pairs=("lt-en", "ro-en")))["train"].text
