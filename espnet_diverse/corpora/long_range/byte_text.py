"""Long texts as sequences of bytes, with a class: reviews whose author was content or not.

Long Range Arena classifies reviews of films by their bytes, up to 4,000 (Tay et al. 2021, section 2.2.2). Here the text
is generated. A review is about dishes, rooms and people; each of its sentences praises one, finds fault with one, or
does neither, with "not" in front of a fifth of the judgements, which reverses them. The class is `content` if more
sentences praise than find fault, else `not_content`; of the sentences that judge, 60 to 80 % agree with the class. So a
model must form words from bytes, connect "not" with the word after it, and count over the whole text.

The text has one character for each byte of UTF-8: visible ASCII stands for itself, and any other byte b is the
character U+0100 + b, a space for example is U+0120. A vocabulary of characters then has a token for each byte in the
training text. Tables of other texts in this layout are read as well, with classes of any name.
"""

import random
from collections.abc import Sequence
from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection, long_range
from espnet_diverse.data.characters import id_fault
from espnet_diverse.data.kaldi import DataDir

SETS, TABLES, OPTIONS = long_range.SETS, long_range.TABLES, long_range.OPTIONS
NO_DOWNLOAD = "byte_text is generated: give --corpus synthetic, or a folder of tables of your own as SOURCE"
LENGTHS = (1000, 4000)
"""Least and greatest number of bytes."""
CLASSES = {True: "content", False: "not_content"}
PRAISE = ("good", "warm", "fresh", "kind", "fine", "bright", "clean", "quick", "cosy", "rich", "lovely", "fair")
FAULT = ("bad", "cold", "stale", "rude", "poor", "dark", "dirty", "slow", "noisy", "dull", "awful", "dear")
THINGS = (
    *("the soup", "the café", "the crème", "the waiter", "the room", "the bread", "the view from the terrace"),
    *("Zoë's jalapeño stew", "our table", "the coffee", "the señor at the door", "the wine", "the music", "the price"),
)
VERBS = ("was", "seemed", "felt", "had always been", "turned out to be")
ADVERBS = ("", "very ", "rather ", "quite ", "really ")
NEUTRAL = (
    *("We came on a Tuesday, by tram.", "It rained — as it does here.", "My brother had the fish.", "We were four."),
    *("Somebody at the bar told a long story.", "They open at noon.", "The street was being repaired."),
)
_JUDGING, _NEGATED, _AGREEING = 0.6, 0.2, (0.6, 0.8)
_SHORTEST = 100  # bytes, enough for a sentence


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the tables; arguments, result and errors as in `listops.prepare`."""
    return long_range.read_sets(
        corpus_dir, selection, lambda text: (as_bytes(text), ""), lambda label: bool(label) and not id_fault(label)
    )


def generate(target_dir: Path, selection: Selection = EVERYTHING, size: str = "demo") -> Path:
    """Write tables of reviews to `target_dir`, which `prepare` reads; see `long_range.generate_sets`."""
    return long_range.generate_sets(target_dir, selection, size, draw, LENGTHS, _SHORTEST)


def as_bytes(text: str) -> str:
    """Return a text with one visible character for each of its bytes."""
    return "".join(chr(byte) if 0x20 < byte < 0x7F else chr(0x100 + byte) for byte in text.encode())


def draw(chance: random.Random, least: int, greatest: int) -> tuple[str, str] | None:
    """Draw a review and its class; None if no sentence judges, or praise and faults are equally many."""
    content, agreeing = chance.random() < 0.5, chance.uniform(*_AGREEING)
    wanted, sentences, size, balance = chance.randint(least, greatest), [], -1, 0
    while True:
        praises = content == (chance.random() < agreeing)
        judges = chance.random() < _JUDGING
        sentence = judgement(chance, praises) if judges else chance.choice(NEUTRAL)
        size += len(sentence.encode()) + 1
        if size > wanted:
            break
        sentences.append(sentence)
        balance += (1 if praises else -1) * judges
    text = " ".join(sentences)
    if len(text.encode()) < least or balance == 0:
        return None
    return text, CLASSES[balance > 0]


def judgement(chance: random.Random, praises: bool, things: Sequence[str] = THINGS) -> str:
    """Draw a sentence that praises one of some things or finds fault with it."""
    negated = chance.random() < _NEGATED
    word = chance.choice(PRAISE if praises != negated else FAULT)
    thing, verb, adverb = (chance.choice(words) for words in (things, VERBS, ADVERBS))
    message = f"{thing} {verb} {'not ' * negated}{adverb}{word}."
    return message[0].upper() + message[1:]
