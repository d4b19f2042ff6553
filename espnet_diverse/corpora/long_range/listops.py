"""ListOps: nested lists of operations on digits, whose value, 0 to 9, is the class.

Nangia and Bowman 2018, "ListOps: A Diagnostic Dataset for Latent Tree Learning", with the longer lists of Long Range
Arena: 501 to 1,999 tokens, lists within lists to a depth of 10, and 2 to 10 arguments of an operation, each of them a
list with probability 1/4. `[MED` is the median, rounded down, and `[SM` the sum modulo 10:

    [MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]  ->  5

The text has one character for each token, so that it fits a vocabulary of characters: < is `[MIN`, > `[MAX`, ~ `[MED`
and + `[SM`. The released tables can also be read; their parentheses are not tokens. Long Range Arena has 96,000, 2,000
and 2,000 lists: `--counts 96000 2000 2000`. Two draws with the same options give the same tables.
"""

import random
from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection, long_range
from espnet_diverse.data.kaldi import DataDir

SETS, TABLES, OPTIONS = long_range.SETS, long_range.TABLES, long_range.OPTIONS
NO_DOWNLOAD = "ListOps is generated: give --corpus synthetic, or the folder of its tables as SOURCE"
LENGTHS = (501, 1999)
"""Least and greatest number of tokens: Long Range Arena leaves out its bounds, 500 and 2,000."""
DEPTH, ARGUMENTS, NESTED = 10, 10, 0.25
DIGITS = "0123456789"
OPERATORS = {"[MIN": "<", "[MAX": ">", "[MED": "~", "[SM": "+"}
END = "]"
_CHARACTERS = OPERATORS | {END: END} | dict(zip(DIGITS, DIGITS, strict=True))
_SHORTEST = 4  # an operation, two arguments and the end


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the tables, released or generated.

    Args:
        corpus_dir: Folder of the tables.
        selection: Options. Rows with faults are errors unless `on_bad="drop"`.

    Returns:
        The sets train, dev and test with text and utt2domain.

    Raises:
        DataError: A file is missing or faulty; the message names file and line.
    """
    return long_range.read_sets(corpus_dir, selection, characters, lambda label: len(label) == 1 and label in DIGITS)


def generate(target_dir: Path, selection: Selection = EVERYTHING, size: str = "demo") -> Path:
    """Write tables of lists to `target_dir`, which `prepare` reads; see `long_range.generate_sets`."""
    return long_range.generate_sets(target_dir, selection, size, draw, LENGTHS, _SHORTEST)


def characters(source: str) -> tuple[str, str]:
    """Return the tokens of a list as one character each, and the fault of a list with another token, or ""."""
    tokens = [token for token in source.split() if token not in "()"]
    if unknown := next((token for token in tokens if token not in _CHARACTERS), None):
        return "", f"has the token {unknown[:20]!r}; known: {' '.join(_CHARACTERS)}"
    return "".join(_CHARACTERS[token] for token in tokens), ""


def draw(chance: random.Random, least: int, greatest: int) -> tuple[str, str] | None:
    """Draw a list and its value; None where it has fewer than `least` or more than `greatest` tokens."""
    tokens: list[str] = []
    value = _operation(chance, 1, tokens, greatest)
    return (" ".join(tokens), str(value)) if value is not None and least <= len(tokens) else None


def _operation(chance: random.Random, depth: int, tokens: list[str], greatest: int) -> int | None:
    """Append an operation to the tokens and return its value; None where there are more than `greatest` tokens."""
    operator, values = chance.choice(list(OPERATORS)), []
    tokens.append(operator)
    for _ in range(chance.randint(2, ARGUMENTS)):
        if depth + 1 < DEPTH and chance.random() < NESTED:
            value = _operation(chance, depth + 1, tokens, greatest)
        else:
            value = chance.randrange(10)
            tokens.append(str(value))
        if value is None or len(tokens) >= greatest:
            return None
        values.append(value)
    tokens.append(END)
    return _value(operator, values)


def _value(operator: str, values: list[int]) -> int:
    if operator == "[SM":
        return sum(values) % 10
    ordered = sorted(values)
    if operator == "[MED":
        return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2
    return ordered[0 if operator == "[MIN" else -1]
