import random

import pytest

from espnet_diverse.data.checks.validate import validate
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.writing.back_translation import Monolingual, add_noise, augment
from espnet_diverse.errors import DataError

SENTENCES = Monolingual({"a": "ein Haus", "b": "ja", "c": "nein"}, {"a": "de", "b": "de", "c": "de"})
TRANSLATIONS = {"a": "a house", "b": "yes yes yes yes", "c": ""}


@pytest.mark.parametrize(("kind", "prefix"), [("back", "bt-"), ("forward", "st-")])
def test_the_side_that_people_wrote_is_the_target_of_back_translation(kind, prefix):
    data = augment(SENTENCES, TRANSLATIONS, kind, "en")
    pair = {"text": data.text, "src_text": data.src_text, **data.conditions}
    german, english = ({prefix + "a": value} for value in ("ein Haus", "a house"))
    lang = [{prefix + "a": name} for name in ("de", "en")]
    sides = (german, english, lang[1], lang[0]) if kind == "back" else (english, german, lang[0], lang[1])
    assert pair == dict(zip(("text", "src_text", "utt2lang", "utt2tgtlang"), sides, strict=True))
    assert data.dropped == {prefix + "b": "2 and 15 characters", prefix + "c": "no translation"}
    validate(data)


def test_without_languages_there_are_no_tables_of_them():
    assert augment(Monolingual(SENTENCES.text, {}), TRANSLATIONS, "back", "en").conditions == {}
    assert augment(SENTENCES, TRANSLATIONS, "back").conditions == {}


def test_the_text_of_parallel_data_is_in_the_target_language():
    data = DataDir(
        text={"a": "ja"}, src_text={"a": "yes"}, conditions={"utt2lang": {"a": "en"}, "utt2tgtlang": {"a": "de"}}
    )
    found = Monolingual.of(data)
    assert found == Monolingual({"a": "ja"}, {"a": "de"})
    assert found.to_translate() == DataDir(text={"a": "ja"}, src_text={"a": "ja"}, conditions={"utt2lang": {"a": "de"}})


def test_domains_are_of_the_source_of_translation_and_of_the_pairs():
    conditions = {"utt2domain": {"a": "news", "b": "talk"}, "utt2lang": {"a": "de", "b": "de"}}
    data = DataDir(text={"a": "ja", "b": "nein"}, conditions=conditions)
    assert Monolingual.of(data).to_translate("en").conditions == conditions | {"utt2tgtlang": {"a": "en", "b": "en"}}
    pairs = augment(Monolingual.of(data), {"a": "yes", "b": "no"}, "forward")
    assert pairs.conditions == {"utt2domain": {"st-a": "news", "st-b": "talk"}}
    given = Monolingual.of(data, {"domain": "talk", "lang": "nl", "tgtlang": "en"})
    assert set(given.domains.values()) == {"talk"} and set(given.languages.values()) == {"nl"}


@pytest.mark.parametrize("table", ["utt2lang", "utt2tgtlang"])
def test_a_sentence_without_its_language_is_refused_before_it_is_translated(table):
    data = DataDir(text={"a": "ja", "b": "nein", "c": "gut"}, conditions={table: {"a": "de"}})
    with pytest.raises(DataError, match=f"^{table} lacks b; add its language, or remove the table$"):
        Monolingual.of(data)


@pytest.mark.parametrize("kind", ["back", "forward"])
def test_noise_is_in_the_source_alone(kind):
    texts = {f"u{number}": " ".join(f"w{place}" for place in range(20)) for number in range(200)}
    sentences = Monolingual(texts, {})
    data = augment(sentences, texts, kind, noise=0.1)
    assert set(data.text.values()) == {texts["u0"]}
    assert (
        augment(sentences, texts, kind, noise=0.1) == data and augment(sentences, texts, kind).src_text != data.src_text
    )
    moved, count = [], 0
    for text in data.src_text.values():
        places = [int(word[1:]) for word in text.split()]
        count += len(places)
        moved += [abs(now - sorted(places).index(place)) for now, place in enumerate(places)]
    assert abs(count / (200 * 20) - 0.9) < 0.02 and max(moved) == 3


def test_noise_leaves_a_word():
    assert add_noise("one two", 0.999999, random.Random(0)) == "one"


def test_nothing_left_is_an_error():
    with pytest.raises(DataError, match="no pair is left of 3 sentences; first bt-a no translation; train the model"):
        augment(SENTENCES, {}, "back")
