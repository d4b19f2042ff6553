"""A parallel sentence grammar in ten languages, from which the synthetic corpora are made.

A kind of sentence has a frame in each language and slots that are filled by phrases; the choice of phrases is the
meaning, which is the same in all languages. A language is one module beside this file, with two tables:

    PHRASES[slot][value]   a phrase, or a dict of its forms, already inflected: "mein Bruder", {"acc": "meinen Bruder"}
    FRAMES[kind]           "{who} räumt {when} {room[acc]} auf." A form is chosen in brackets; phrases may name other
                           slots of the sentence in turn, where agreement crosses them ("das Buch {who[gen]} liegt").

All values of all slots combine freely, so every combination must be a sensible sentence in every language, and no two
may read alike. Words are parted by spaces in the tables, also in Mandarin, which is written without them.
"""

import hashlib
import importlib
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from espnet_diverse.errors import DataError

LANGUAGES = ("zh", "en", "de", "es", "fr", "it", "pt", "ru", "el", "ar")
UNSPACED = frozenset({"zh"})
# Kind of sentence: its domain and its slots.
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
# Which of every ten sentences go to a split.
SPLITS = {"train": range(8), "dev": range(8, 9), "test": range(9, 10)}


@dataclass(frozen=True)
class Sentence:
    """One meaning, in the languages asked for.

    Attributes:
        domain: One of `DOMAINS`.
        texts: The sentence in each language, as it is written.
        words: Its words in each language; "".join or " ".join of them is the text.
    """

    domain: str
    texts: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]


def sentences(languages: Sequence[str], count: int, seed: int, split: str) -> list[Sentence]:
    """Draw `count` different sentences of a split, with all kinds of sentence in turn as far as they reach.

    The split of a sentence depends on the sentence alone: train, dev and test share none, whatever the seeds. The
    choice depends on `count`, `seed` and `split`, not on the languages.

    Raises:
        DataError: an unknown language or split, or more sentences than the split has.
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
    """All meanings of a kind, each a value for each slot; English gives the values."""
    phrases = _tables("en").PHRASES
    return itertools.product(*(phrases[slot] for slot in KINDS[kind][1]))


def _split(kind: str, values: tuple[str, ...]) -> str:
    digest = hashlib.sha256(" ".join((kind, *values)).encode()).digest()
    tenth = int.from_bytes(digest[:4], "big") % 10
    return next(split for split, tenths in SPLITS.items() if tenth in tenths)


def _sentence(languages: Sequence[str], kind: str, values: tuple[str, ...]) -> Sentence:
    words = tuple(tuple(_render(language, kind, values).split()) for language in languages)
    gaps = ("" if language in UNSPACED else " " for language in languages)
    return Sentence(KINDS[kind][0], tuple(gap.join(each) for gap, each in zip(gaps, words, strict=True)), words)


def _render(language: str, kind: str, values: tuple[str, ...]) -> str:
    tables = _tables(language)
    phrases = {slot: tables.PHRASES[slot][value] for slot, value in zip(KINDS[kind][1], values, strict=True)}
    # Once for the slots of the frame, once for those that the phrases name.
    text = tables.FRAMES[kind].format_map(phrases).format_map(phrases)
    return text[0].upper() + text[1:]


@cache
def _tables(language: str):
    return importlib.import_module(f"{__name__}.{language}")
