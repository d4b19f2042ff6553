"""A parallel sentence grammar in ten languages, which generates the sentences of the synthetic corpora.

A kind of sentence is a template in each language with slots for phrases; the choice of phrases is the meaning, which is
the same in all languages. Each language is a YAML file in this folder with two tables:

    phrases[slot][value]   a phrase, or a table of its forms, already inflected: "mein Bruder", {acc: meinen Bruder}
    frames[kind]           a template: "{who} räumt {when} {room[acc]} auf." Brackets select a form of a phrase. Phrases
                           may contain slots as well, for agreement between them ("das Buch {who[gen]} liegt").

All values of all slots are combined, so every combination must be a meaningful sentence in every language, and no two
may be equal. Words are separated by spaces in the tables, also in Mandarin, which is written without spaces.

To add a language, write its file, and add it to `LANGUAGES` here and to `VOICES` in `audio/speech_synthesis.py`.
"""

import hashlib
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from espnet_diverse.errors import DataError
from espnet_diverse.untrusted.foreign_yaml import read_yaml

LANGUAGES = ("zh", "en", "de", "es", "fr", "it", "pt", "ru", "el", "ar")
UNSPACED = frozenset({"zh"})
# Domain and slots of each kind of sentence.
KINDS = {
    "activity": ("home", ("who", "activity", "room")),
    "tidy": ("home", ("who", "room", "when")),
    "belongings": ("home", ("who", "thing", "furniture", "room")),
    "switch": ("home", ("who", "switch", "room")),
    "ride": ("travel", ("who", "city", "vehicle", "when")),
    "ticket": ("travel", ("who", "ticket", "city")),
    "stay": ("travel", ("who", "city", "days")),
    "departure": ("travel", ("carrier", "city", "clock")),
    "packing": ("travel", ("item", "city", "when")),
    "place": ("city", ("amenity", "side", "landmark")),
    "walk": ("city", ("landmark", "amenity", "duration")),
    "forecast": ("weather", ("weather", "city", "when")),
    "climate": ("weather", ("season", "climate", "city")),
    "shopping": ("market", ("who", "kilos", "goods")),
    "price": ("market", ("kilos", "goods", "price")),
    "drink": ("food", ("who", "drink", "room")),
    "order": ("food", ("guest", "dish", "drink")),
    "meal": ("food", ("who", "meal", "landmark")),
    "course": ("work", ("who", "language", "years")),
    "errand": ("work", ("who", "landmark", "when", "purpose")),
    "job": ("work", ("who", "landmark", "years")),
    "ailment": ("health", ("who", "ailment", "since")),
}
DOMAINS = tuple(dict.fromkeys(domain for domain, _ in KINDS.values()))
# Which tenths of the sentences, by their hash, belong to each split.
SPLITS = {"train": range(8), "dev": range(8, 9), "test": range(9, 10)}


@dataclass(frozen=True)
class Sentence:
    """A sentence in the requested languages.

    Attributes:
        domain: One of `DOMAINS`.
        texts: The sentence in each language.
        words: The words of the sentence in each language; joined by " ", or by "" for Mandarin, they are the text.
    """

    domain: str
    texts: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]


def sentences(languages: Sequence[str], count: int, seed: int, split: str) -> list[Sentence]:
    """Draw different sentences of a split, from all kinds of sentence in turn.

    A hash of the sentence decides its split, so that train, dev and test have no sentence in common for any seed. The
    choice depends on `count`, `seed` and `split`, not on the languages.

    Args:
        languages: Languages of each sentence.
        count: Number of sentences.
        seed: Random seed.
        split: train, dev or test.

    Raises:
        DataError: The language or split is unknown, or the split has fewer sentences.
    """
    for language in languages:
        if language not in LANGUAGES:
            raise DataError(f"no sentences in language {language!r}; there are {' '.join(LANGUAGES)}")
    if split not in SPLITS:
        raise DataError(f"unknown split {split!r}; there are {' '.join(SPLITS)}")
    chance = random.Random(f"{split} {seed}")
    queues = []
    for kind in KINDS:
        choices = [values for values in _combinations(kind) if _split(kind, values) == split]
        chance.shuffle(choices)
        queues.append([(kind, values) for values in choices])
    in_turn = (meaning for row in itertools.zip_longest(*queues) for meaning in row if meaning is not None)
    chosen = list(itertools.islice(in_turn, count))
    if len(chosen) < count:
        raise DataError(f"{count} sentences asked for, but split {split!r} has {len(chosen)}; ask for fewer")
    chance.shuffle(chosen)
    return [_sentence(languages, kind, values) for kind, values in chosen]


def _combinations(kind: str) -> Iterator[tuple[str, ...]]:
    """All combinations of slot values of a kind of sentence, with the values of the English table."""
    phrases = _tables("en")["phrases"]
    return itertools.product(*(phrases[slot] for slot in KINDS[kind][1]))


def _split(kind: str, values: tuple[str, ...]) -> str:
    digest = hashlib.sha256(" ".join((kind, *values)).encode()).digest()
    tenth = int.from_bytes(digest[:4], "big") % 10
    return next(split for split, tenths in SPLITS.items() if tenth in tenths)


def _sentence(languages: Sequence[str], kind: str, values: tuple[str, ...]) -> Sentence:
    words = tuple(tuple(_render(language, kind, values).split()) for language in languages)
    gaps = ("" if language in UNSPACED else " " for language in languages)
    return Sentence(KINDS[kind][0], tuple(gap.join(tokens) for gap, tokens in zip(gaps, words, strict=True)), words)


def _render(language: str, kind: str, values: tuple[str, ...]) -> str:
    tables = _tables(language)
    phrases = {slot: tables["phrases"][slot][value] for slot, value in zip(KINDS[kind][1], values, strict=True)}
    # Twice, because phrases may contain slots.
    text = tables["frames"][kind].format_map(phrases).format_map(phrases)
    return text[0].upper() + text[1:]


@cache
def _tables(language: str) -> dict[str, dict]:
    path = Path(__file__).with_name(f"{language}.yaml")
    return read_yaml(path, path.name)
