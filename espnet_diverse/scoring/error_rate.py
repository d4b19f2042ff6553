"""Character and word error rate of a corpus, with the alignment of every sentence.

    error rate = (substitutions + deletions + insertions) / reference units

summed over the corpus before dividing. jiwer aligns each sentence at the least number of errors; where several
alignments have that number, sclite may split it otherwise into substitutions, deletions and insertions. An empty
reference is scored: all units of its hypothesis are insertions.
"""

import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import jiwer

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.scoring.alignment import Alignment
from espnet_diverse.text import normalise

UNITS = ("char", "word")


@dataclass(frozen=True)
class ErrorRate:
    """Totals of a corpus.

    Attributes:
        unit: "char" or "word".
        ignore_spaces: Whether spaces were left out (characters only).
        correct, substitutions, deletions, insertions: Numbers of units.
        missing: Ids of the references without a hypothesis; their units are counted as deletions.
        alignments: One a reference, in the order of the references.
    """

    unit: str
    ignore_spaces: bool
    correct: int
    substitutions: int
    deletions: int
    insertions: int
    missing: tuple[str, ...]
    alignments: tuple[Alignment, ...] = field(repr=False)

    @property
    def sentences(self) -> int:
        """Number of references."""
        return len(self.alignments)

    @property
    def units(self) -> int:
        """Number of reference units."""
        return self.correct + self.substitutions + self.deletions

    @property
    def errors(self) -> int:
        """Substitutions, deletions and insertions together."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def sentence_errors(self) -> int:
        """Number of sentences with at least one error."""
        return sum(any(left != right for left, right in alignment.pairs) for alignment in self.alignments)

    @property
    def rate(self) -> float:
        """Errors as a fraction of the reference units; above 1 where insertions are many."""
        return self.errors / self.units

    @property
    def signature(self) -> str:
        """What a reader must know to compute the same number."""
        name = {"char": "CER", "word": "WER"}[self.unit]
        spaces = "" if self.unit == "word" else f"|spaces:{'ignored' if self.ignore_spaces else 'counted'}"
        return f"{name}{spaces}|case:mixed|norm:NFC|jiwer:{importlib.metadata.version('jiwer')}"

    def to_dict(self) -> dict:
        """Totals, rates (fractions) and missing ids, ready for JSON."""
        names = ("unit", "signature", "sentences", "units", "correct", "substitutions", "deletions", "insertions")
        totals = {name: getattr(self, name) for name in (*names, "errors", "rate", "sentence_errors")}
        return {**totals, "sentence_error_rate": self.sentence_errors / self.sentences, "missing": list(self.missing)}


def error_rate(
    references: Mapping[str, str], hypotheses: Mapping[str, str], unit: str = "char", ignore_spaces: bool = True
) -> ErrorRate:
    """Score hypotheses, utterance id to text, against references.

    Both sides are normalised by `espnet_diverse.text.normalise`; letter case and punctuation count.

    Args:
        references: The expected texts; an empty one is allowed, as long as one is not.
        hypotheses: The recognised texts; an id that is absent counts as an empty text and is listed as missing.
        unit: "char" or "word".
        ignore_spaces: Leave spaces out of "char", as is right for Chinese; False counts a space as a character.

    Raises:
        ConfigError: The unit is unknown, or is "word" while spaces shall be counted.
        DataError: A hypothesis has no reference, or the references hold no unit at all.
    """
    if unit not in UNITS:
        raise ConfigError(f"unknown unit {unit!r}; choose one of {', '.join(UNITS)}")
    if unit == "word" and not ignore_spaces:
        raise ConfigError("spaces can be counted with unit char only, not with unit word")
    if strangers := [utterance for utterance in hypotheses if utterance not in references]:
        raise DataError(
            f"hypotheses without a reference ({len(strangers)}): {abridge(strangers)}; "
            "score against the text of the same data directory"
        )
    expected = [_prepared(text, unit, ignore_spaces) for text in references.values()]
    if not any(expected):
        raise DataError(f"the references ({len(expected)}) hold no {unit} at all, so that an error rate is not defined")
    found = [_prepared(hypotheses.get(utterance, ""), unit, ignore_spaces) for utterance in references]
    process = jiwer.process_characters if unit == "char" else jiwer.process_words
    result = process(expected, found)
    sentences = zip(references, result.references, result.hypotheses, result.alignments, strict=True)
    return ErrorRate(
        unit=unit,
        ignore_spaces=ignore_spaces,
        correct=result.hits,
        substitutions=result.substitutions,
        deletions=result.deletions,
        insertions=result.insertions,
        missing=tuple(utterance for utterance in references if utterance not in hypotheses),
        alignments=tuple(Alignment(name, tuple(_pairs(*sentence))) for name, *sentence in sentences),
    )


def abridge(names: Iterable[str], limit: int = 5) -> str:
    """The first names, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return " ".join(names[:limit]) + more


def _prepared(text: str, unit: str, ignore_spaces: bool) -> str:
    text = normalise(text)
    return text.replace(" ", "") if unit == "char" and ignore_spaces else text


def _pairs(reference: list[str], hypothesis: list[str], chunks: list) -> Iterator[tuple[str | None, str | None]]:
    for chunk in chunks:
        left = reference[chunk.ref_start_idx : chunk.ref_end_idx]
        right = hypothesis[chunk.hyp_start_idx : chunk.hyp_end_idx]
        # An insertion has no left side and a deletion no right side; other chunks have equally many on both.
        yield from zip(left or [None] * len(right), right or [None] * len(left), strict=True)
