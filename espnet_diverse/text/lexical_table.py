"""Lexical translation probabilities of tokens by IBM model 1, and the file `lex.s2t` that holds them.

Brown et al. 1993, "The mathematics of statistical machine translation", section 4.2. A target token t_j comes from one
of the source tokens s_1 ... s_I of its sentence, or from s_0 = NULL. EM repeats, from equal probabilities of all tokens
that occur in one pair of sentences,

    c(t | s) = sum over pairs, and over i, j with s_i = s and t_j = t, of p(t | s) / sum_i' p(t | s_i')    (E)
    p(t | s) = c(t | s) / sum_t' c(t' | s)                                                                 (M)

The file has a line "target source probability" for each of the best target tokens of a source token, in the format of
Marian's lex.s2t; that Marian itself reads it was not tried. The lines of the source NULL are in it as well: its tokens
belong to no source token, and are nearly the most frequent ones.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.files.atomic_files import write_parts
from espnet_diverse.data.lines import numbered_lines
from espnet_diverse.errors import DataError

NULL = "NULL"
_MAKE = "make it with espnet-diverse shortlist"
_MOST_LINKS = 1 << 26  # pairs of a source and a target token in the sentences that are read; 64 bytes each
_MOST_LINES = 1 << 24

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class LexicalTable:
    """Target tokens of each source token, best first.

    Attributes:
        begins: Place of the first target of each source token, of NULL after them, and the number of targets, (S + 2,).
        targets: Indices of target tokens.
        probabilities: p(target | source) of each.
    """

    begins: Ids
    targets: Ids
    probabilities: NDArray[np.float64]

    @classmethod
    def of_entries(cls, sources: Ids, targets: Ids, probabilities: NDArray[np.float64], size: int) -> "LexicalTable":
        """The table of entries in any order; NULL is the source `size`."""
        order = np.lexsort((targets, -probabilities, sources))
        begins = np.searchsorted(sources[order], np.arange(size + 2))
        return cls(begins, targets[order], probabilities[order])

    def best(self, source: int, count: int) -> Ids:
        """At most `count` target tokens of a source token."""
        begin = self.begins[source]
        return self.targets[begin : min(begin + count, self.begins[source + 1])]

    @property
    def of_null(self) -> Ids:
        """Target tokens of NULL."""
        return self.targets[self.begins[-2] :]


def estimate(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    sizes: tuple[int, int],
    iterations: int = 5,
    best: int = 100,
) -> LexicalTable:
    """Estimate the probabilities by EM. Every n-th pair is read where the corpus has more than memory is made for.

    Args:
        sources: Source token indices of each pair of sentences.
        targets: Target token indices of each pair.
        sizes: Number of source tokens and of target tokens.
        iterations: Number of iterations; the first counts how often tokens occur together.
        best: Most target tokens that are kept of a source token.

    Raises:
        DataError: No pair has target tokens.
    """
    links = sum((len(source) + 1) * len(target) for source, target in zip(sources, targets, strict=True))
    if not links:
        raise DataError("no pair of sentences has target tokens; give a text that has some")
    every = -(-links // _MOST_LINKS)
    keys, starts, widths = _links(sources[::every], targets[::every], sizes)
    entries, entry = np.unique(keys, return_inverse=True)
    of_source, of_target = np.divmod(entries, sizes[1])
    probabilities = np.ones(len(entries))
    for _ in range(iterations):
        share = probabilities[entry]
        share /= np.repeat(np.add.reduceat(share, starts), widths)
        counts = np.bincount(entry, share, len(entries))
        probabilities = counts / np.bincount(of_source, counts)[of_source]
    mask = probabilities > 0  # after many iterations some are too small for a float
    return _pruned(LexicalTable.of_entries(of_source[mask], of_target[mask], probabilities[mask], sizes[0]), best)


def _links(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], sizes: tuple[int, int]
) -> tuple[Ids, Ids, Ids]:
    """Every pair of a source token, or NULL, and a target token of the same sentences, by target position.

    Returns:
        The pairs as numbers, source * number of targets + target; the first pair of each target position; and its
        number of pairs.
    """
    null = [sizes[0]]
    before = np.array([len(source) + 1 for source in sources])
    after = [len(target) for target in targets]
    source = np.fromiter(chain.from_iterable(chain(null, sentence) for sentence in sources), np.int64)
    target = np.fromiter(chain.from_iterable(targets), np.int64)
    widths = np.repeat(before, after)
    starts = np.cumsum(widths) - widths
    first = np.repeat(np.cumsum(before) - before, after)  # source token of the sentence
    places = np.arange(widths.sum()) - np.repeat(starts - first, widths)
    return source[places] * sizes[1] + np.repeat(target, widths), starts, widths


def _pruned(table: LexicalTable, best: int) -> LexicalTable:
    counts = np.diff(table.begins)
    ranks = np.arange(len(table.targets)) - np.repeat(table.begins[:-1], counts)
    mask, ends = ranks < best, np.minimum(counts, best).cumsum()
    return LexicalTable(np.concatenate([[0], ends]), table.targets[mask], table.probabilities[mask])


def save(table: LexicalTable, path: Path, source_tokens: Sequence[str], target_tokens: Sequence[str]) -> None:
    """Write the file."""
    names = [*source_tokens, NULL]

    def lines() -> Iterator[str]:
        for source, name in enumerate(names):
            part = slice(table.begins[source], table.begins[source + 1])
            for target, value in zip(table.targets[part].tolist(), table.probabilities[part].tolist(), strict=True):
                yield f"{target_tokens[target]} {name} {value:.6g}\n"

    write_parts(path, lines())


def load(path: Path, source_tokens: Sequence[str], target_tokens: Sequence[str]) -> LexicalTable:
    """Read the file, which may be compressed as .gz.

    Args:
        path: The file.
        source_tokens: Tokens of the model's source text.
        target_tokens: Tokens of its output text.

    Raises:
        DataError: It cannot be read, or a line of it has another form or a token that the model lacks.
    """
    source_of = {token: index for index, token in enumerate([*source_tokens, NULL])}
    target_of = {token: index for index, token in enumerate(target_tokens)}
    faults: list[Fault] = []
    sources, targets, probabilities, number = [], [], [], 0
    for number, line in numbered_lines(path, faults, Counter()):
        words = line.split(" ")
        if faults or number > _MOST_LINES:
            break
        if len(words) == 3 and words[1] in source_of and words[0] in target_of and (value := _probability(words[2])):
            sources.append(source_of[words[1]])
            targets.append(target_of[words[0]])
            probabilities.append(value)
        else:
            faults.append(Fault(str(path), number, _wrong(words, source_of, target_of)))
    if not faults and number > _MOST_LINES:
        faults.append(Fault(str(path), None, f"has more than {_MOST_LINES} lines; {_MAKE}"))
    refuse(faults)
    if not sources:
        raise DataError(f"{path}: is empty; {_MAKE}")
    return LexicalTable.of_entries(np.array(sources), np.array(targets), np.array(probabilities), len(source_tokens))


def _probability(word: str) -> float:
    """The probability that a word is; 0, which no line has, for any other word."""
    try:
        value = float(word)
    except ValueError:
        return 0.0
    return value if 0 < value <= 1 else 0.0


def _wrong(words: list[str], source_of: dict[str, int], target_of: dict[str, int]) -> str:
    """The fault of a line."""
    if len(words) != 3:
        return f"has {len(words)} columns, not 'target source probability'; {_MAKE}"
    for word, side, known in ((words[0], "output", target_of), (words[1], "source", source_of)):
        if word not in known:
            return f"{word!r:.100} is no token of the model's {side} text; make it with the model's vocabulary"
    return f"{words[2]!r:.100} is no probability above 0 and at most 1; {_MAKE}"
