"""Tatoeba: split beforehand, or as OPUS publishes it and split here without leaks between languages."""

import pytest

from espnet_diverse.corpora import Selection, tatoeba
from espnet_diverse.errors import ConfigError


def test_many_to_one_is_the_default(write_texts):
    sides = [(pair, side) for pair in ("de-en", "fr-en") for side in pair.split("-")]
    tree = write_texts({f"{split}.{p}.{side}": [f"{p} {side}"] for split in tatoeba.SETS for p, side in sides})
    sets = tatoeba.prepare(tree)
    assert sets["train"].conditions["utt2lang"] == {
        "de-en-tatoeba-train-0000001": "de",
        "fr-en-tatoeba-train-0000001": "fr",
    }
    assert set(sets["test"].conditions["utt2tgtlang"].values()) == {"en"}
    one_to_many = tatoeba.prepare(tree, Selection(pairs=("en-de", "en-fr")))
    assert one_to_many["dev"].text == {"en-de-tatoeba-dev-0000001": "de-en de", "en-fr-tatoeba-dev-0000001": "fr-en fr"}
    with pytest.raises(ConfigError, match="no direction 'de-fr'; there are: de-en en-de fr-en en-fr$"):
        tatoeba.prepare(tree, Selection(pairs=("de-fr",)))


@pytest.fixture
def published(write_texts):
    """The layout of OPUS: 900 sentences in two languages; all lines of one pair are duplicates."""
    english = [f"Sentence {number}." for number in range(900)]
    return write_texts(
        {
            "cmn-en/Tatoeba.cmn-en.cmn": [f"句子{number}" for number in range(900)],
            "cmn-en/Tatoeba.cmn-en.en": english,
            "en-fr/Tatoeba.en-fr.en": english * 2,
            "en-fr/Tatoeba.en-fr.fr": [f"Phrase {number}." for number in range(900)] * 2,
        }
    )


def test_sets_of_the_published_layout_share_no_english_sentence(published):
    sets = tatoeba.prepare(published)
    assert dict.fromkeys(("zh-en", "fr-en"), 900) == {
        direction: sum(key.startswith(direction) for data in sets.values() for key in data.text)
        for direction in ("zh-en", "fr-en")
    }
    english = {name: set(data.text.values()) for name, data in sets.items()}
    assert not english["train"] & (english["dev"] | english["test"]) and not english["dev"] & english["test"]
    assert 0 < len(english["test"]) < 20 and 0 < len(english["dev"]) < 20
    reverse = tatoeba.prepare(published, Selection(pairs=("en-zh",)))
    assert set(reverse["test"].src_text.values()) == english["test"]


def test_sentences_with_several_translations_are_in_one_set(write_texts):
    german = [f"Satz {number}." for number in range(900) for _ in range(2)]
    english = [f"{word} {number}." for number in range(900) for word in ("Sentence", "Phrase")]
    sets = tatoeba.prepare(write_texts({"Tatoeba.de-en.de": german, "Tatoeba.de-en.en": english}))
    train, dev, test = ({*sets[name].src_text.values()} for name in tatoeba.SETS)
    assert dev and test and not train & (dev | test) and not dev & test
    assert sum(len(sets[name].text) + len(sets[name].dropped) for name in tatoeba.SETS) == len(german)


def test_zero_shot_directions_of_the_published_layout(published):
    sets = tatoeba.prepare(published, Selection(pairs=("zh-en",), zero_shot=("en-fr",)))
    assert {key[:5] for key in sets["train"].text} == {"zh-en"}
    assert {key[:5] for key in sets["test"].text} == {"zh-en", "en-fr"}
    besides = tatoeba.prepare(published, Selection(zero_shot=("en-fr",)))
    assert {key[:5] for key in besides["train"].text} == {"zh-en", "fr-en"}


def test_further_languages_are_added_to_an_earlier_download(tmp_path, monkeypatch):
    fetched = []

    def fetch(urls, target):
        if not target.is_dir():
            target.mkdir(parents=True)
            fetched.extend(urls)
        return target

    monkeypatch.setattr(tatoeba, "fetch_release", fetch)
    for pairs in (("de-en",), ("zh-en", "en-de")):
        assert tatoeba.download(tmp_path, Selection(pairs=pairs), "http://host") == tmp_path / "tatoeba"
    assert fetched == ["http://host/de-en.txt.zip", "http://host/cmn-en.txt.zip"]
    tatoeba.download(tmp_path / "all", url="http://host")
    pairs = ["ar-en", "cmn-en", "de-en", "el-en", "en-es", "en-fr"]
    assert fetched[2:] == [f"http://host/{pair}.txt.zip" for pair in pairs]
    tatoeba.download(tmp_path / "tested", Selection(languages=("de",), zero_shot=("en-fr",)), "http://host")
    assert fetched[8:] == ["http://host/de-en.txt.zip", "http://host/en-fr.txt.zip"]
