"""Pairs of long texts as sequences of bytes, with whether both speak of the same place as the class.

Long Range Arena asks whether one of two papers cites the other, by 4,000 bytes of each (Tay et al. 2021, section
2.2.3). Here two reviews are generated, as in `byte_text`. Every place has its merits and faults, one opinion on each
dish, room and person, on which all its guests agree. The class is `same_place` if the reviews agree on everything that
both mention, and `other_place` if they differ in at least two things. So a model must read what each says of what, and
compare.

The two reviews are joined by ` // `, and the text has one character for each byte, see `byte_text`. Tables of other
texts in this layout are read as well, with classes of any name.
"""

import random
from collections.abc import Mapping
from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection, long_range
from espnet_diverse.corpora.long_range.byte_text import NEUTRAL, THINGS, judgement, prepare

__all__ = ["draw", "generate", "prepare"]

SETS, TABLES, OPTIONS = long_range.SETS, long_range.TABLES, long_range.OPTIONS
NO_DOWNLOAD = "byte_retrieval is generated: give --corpus synthetic, or a folder of tables of your own as SOURCE"
LENGTHS = (2000, 8000)
"""Least and greatest number of bytes of both texts."""
CLASSES = {True: "same_place", False: "other_place"}
BETWEEN = " // "
_JUDGING, _DIFFERING = 0.6, 2
_SHORTEST = 500  # bytes, enough for some sentences of both


def generate(target_dir: Path, selection: Selection = EVERYTHING, size: str = "demo") -> Path:
    """Write tables of pairs to `target_dir`, which `prepare` reads; see `long_range.generate_sets`."""
    return long_range.generate_sets(target_dir, selection, size, draw, LENGTHS, _SHORTEST)


def draw(chance: random.Random, least: int, greatest: int) -> tuple[str, str] | None:
    """Draw two reviews and their class; None if they are too short or mention too little that the class shows in."""
    one, other = ({thing: chance.random() < 0.5 for thing in THINGS} for _ in range(2))
    same, wanted = chance.random() < 0.5, chance.randint(least, greatest)
    half = (wanted - len(BETWEEN)) // 2
    (first, of_first), (second, of_second) = (_review(chance, place, half) for place in (one, one if same else other))
    common = of_first & of_second
    differing = sum(one[thing] != other[thing] for thing in common)
    text = f"{first}{BETWEEN}{second}"
    if len(text.encode()) < least or len(common) < _DIFFERING or (not same and differing < _DIFFERING):
        return None
    return text, CLASSES[same]


def _review(chance: random.Random, place: Mapping[str, bool], most: int) -> tuple[str, set[str]]:
    """A review of a place, with up to `most` bytes, and the things that it judges."""
    sentences, mentioned, size = list[str](), set[str](), -1
    while True:
        thing = chance.choice(THINGS) if chance.random() < _JUDGING else ""
        sentence = judgement(chance, place[thing], (thing,)) if thing else chance.choice(NEUTRAL)
        size += len(sentence.encode()) + 1
        if size > most:
            return " ".join(sentences), mentioned
        sentences.append(sentence)
        mentioned |= {thing} - {""}
