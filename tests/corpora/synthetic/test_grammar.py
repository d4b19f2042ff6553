"""The parallel grammar: tables that agree, different sentences, splits that share nothing, right inflection."""

import hashlib
import itertools
from collections import Counter

import pytest

from espnet_diverse.corpora.synthetic import grammar
from espnet_diverse.corpora.synthetic.grammar import DOMAINS, KINDS, LANGUAGES, SPLITS, UNSPACED, sentences
from espnet_diverse.errors import DataError


def _split_size(split):
    return sum(grammar._split(kind, values) == split for kind in KINDS for values in grammar._combinations(kind))


@pytest.fixture(scope="module")
def corpus():
    """Every sentence there is, by split, in all languages."""
    return {split: sentences(LANGUAGES, _split_size(split), 0, split) for split in SPLITS}


@pytest.mark.parametrize("language", LANGUAGES)
def test_tables_have_the_values_of_english(language):
    ours, english = grammar._tables(language), grammar._tables("en")
    assert ours["frames"].keys() == KINDS.keys()
    assert {slot: list(phrases) for slot, phrases in ours["phrases"].items()} == {
        slot: list(phrases) for slot, phrases in english["phrases"].items()
    }


def test_every_slot_is_used():
    assert {slot for _, slots in KINDS.values() for slot in slots} == grammar._tables("en")["phrases"].keys()


def test_thousands_of_sentences_all_different_in_every_language(corpus):
    everything = list(itertools.chain.from_iterable(corpus.values()))
    assert len(everything) > 3000
    assert len(corpus["dev"]) > 250
    assert len(corpus["test"]) > 250
    for column in zip(*(sentence.texts for sentence in everything), strict=True):
        text, times = Counter(column).most_common(1)[0]
        assert times == 1, text


def test_the_corpora_are_those_of_earlier_versions():
    """Error rates of synthetic corpora are compared over versions, so no sentence may change."""
    content = "".join(repr(sentence) for split in SPLITS for sentence in sentences(LANGUAGES, 250, 0, split))
    assert hashlib.sha256(content.encode()).hexdigest()[:16] == "c40fd616434a0da7"


@pytest.mark.parametrize("language", LANGUAGES)
def test_text_is_as_written(corpus, language):
    index = LANGUAGES.index(language)
    for sentence in itertools.chain.from_iterable(corpus.values()):
        text = sentence.texts[index]
        assert not set(text) & set("{}[]'\"") - set("'" * (language in ("en", "fr", "it"))), text
        assert "  " not in text
        assert text == text.strip()
        assert ("" if language in UNSPACED else " ").join(sentence.words[index]) == text
        if language == "zh":
            assert all("\u4e00" <= character <= "\u9fff" for character in text), text
            assert 6 <= len(text) <= 14, text
        else:
            assert text.endswith(".")
            assert text[0].isupper() or language == "ar"


def test_mandarin_has_a_demo_sized_vocabulary(corpus):
    characters = {character for sentence in corpus["train"] for character in sentence.texts[0]}
    assert 80 <= len(characters) <= 140


def test_train_holds_all_characters_and_words_of_the_other_splits(corpus):
    for index in range(len(LANGUAGES)):
        known = {word for sentence in corpus["train"] for word in sentence.words[index]}
        for sentence in corpus["dev"] + corpus["test"]:
            assert known >= set(sentence.words[index])


def test_domains(corpus):
    assert {sentence.domain for sentence in corpus["test"]} == set(DOMAINS)
    assert len(DOMAINS) >= 6


def test_small_draws_take_the_kinds_in_turn():
    domains = Counter(sentence.domain for sentence in sentences(["en"], len(KINDS), 3, "train"))
    assert domains == Counter(domain for domain, _ in KINDS.values())


def test_draws_repeat_and_differ_by_seed():
    first = sentences(["zh", "de"], 50, 1, "train")
    assert first == sentences(["zh", "de"], 50, 1, "train")
    assert first != sentences(["zh", "de"], 50, 2, "train")


def test_the_languages_asked_for_do_not_change_the_meanings():
    both = sentences(["el", "zh"], 50, 1, "dev")
    alone = sentences(["zh"], 50, 1, "dev")
    assert [sentence.texts[1] for sentence in both] == [sentence.texts[0] for sentence in alone]


@pytest.mark.parametrize(
    ("language", "kind", "values", "text"),
    [
        ("ar", "stay", ("mother", "paris", "two"), "تريد أمي أن تبقى في باريس يومين."),
        ("ar", "stay", ("father", "paris", "two"), "يريد أبي أن يبقى في باريس يومين."),
        (
            "de",
            "belongings",
            ("brother", "cup", "table", "kitchen"),
            "Die Tasse meines Bruders steht in der Küche auf dem Tisch.",
        ),
        (
            "de",
            "switch",
            ("father", "tv_off", "study"),
            "Bitte meinen Vater, den Fernseher im Arbeitszimmer auszuschalten.",
        ),
        ("es", "walk", ("park", "bank", "ten"), "Del parque al banco se tardan diez minutos."),
        ("fr", "place", ("bank", "opposite", "park"), "La banque est en face du parc."),
        ("it", "belongings", ("friend", "bag", "chair", "study"), "La borsa del mio amico è sulla sedia dello studio."),
        ("pt", "switch", ("grandmother", "light_on", "kitchen"), "Peça à minha avó para acender a luz da cozinha."),
        ("ru", "ailment", ("sister", "headache", "yesterday"), "У моей сестры со вчерашнего дня болит голова."),
        ("ru", "price", ("one", "apples", "five"), "Один килограмм яблок стоит пять юаней."),
        (
            "el",
            "errand",
            ("son", "library", "sunday", "work"),
            "Την Κυριακή ο γιος μου θα πάει στη βιβλιοθήκη για να δουλέψει.",
        ),
        ("en", "price", ("two", "tea", "ten"), "Two kilos of tea cost ten yuan."),
    ],
)
def test_agreement(language, kind, values, text):
    assert grammar._render(language, kind, values) == text


DEV = _split_size("dev")


@pytest.mark.parametrize(
    ("languages", "count", "split", "message"),
    [
        (["zh", "fi"], 1, "train", "no sentences in language 'fi'; there are zh en de es fr it pt ru el ar"),
        (["zh"], 1, "valid", "unknown split 'valid'; there are train dev test"),
        (["zh"], DEV + 1, "dev", f"{DEV + 1} sentences asked for, but split 'dev' has {DEV}; ask for fewer"),
    ],
)
def test_sentences_that_there_are_not_are_refused(languages, count, split, message):
    with pytest.raises(DataError, match=f"^{message}$"):
        sentences(languages, count, 0, split)
