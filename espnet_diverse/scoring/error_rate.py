"""Character, word and mixed error rate of a corpus, with the alignment of each sentence.

    error rate = 100 (substitutions + deletions + insertions) / reference units

with the counts summed over the corpus. The units of the mixed error rate (MER), the usual score of speech that switches
between languages, are characters of scripts without spaces (`data.scripts.UNSPACED`) and words of other scripts.

jiwer finds an alignment of each sentence with the minimum number of errors; if there are several, sclite may choose one
with other numbers of substitutions, deletions and insertions. For an empty reference, all units of the hypothesis are
insertions. References and hypotheses are normalised by `espnet_diverse.text.vocabulary.normalise`; letter case and
punctuation are scored unless a normalisation is given.
"""

import importlib.metadata
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

import jiwer
import numpy as np

from espnet_diverse.data.scripts import PUNCTUATION, RANGES
from espnet_diverse.scoring.alignment import Pairs
from espnet_diverse.scoring.metric import Metric, unspaced_notes
from espnet_diverse.scoring.normalisation import Normalisation
from espnet_diverse.scoring.significance import Bootstrap
from espnet_diverse.text.vocabulary import normalise

UNITS = {"char": ("CER", "Chr"), "word": ("WER", "Wrd"), "unit": ("MER", "Unt")}
"""Name of the error rate by unit, and heading of the number of units."""
_OWN = RANGES + PUNCTUATION
_MIXED = re.compile(rf"[{_OWN}]|(?<=[{RANGES}])[^\w\s]+|[^\s{_OWN}]+")  # ASCII punctuation after one is a unit too
_BLOCK = 1000  # sentences that are aligned at once


class ErrorRate(Metric):
    """Character, word or mixed error rate in percent; it exceeds 100 if there are many insertions.

    The counts of a sentence are correct, substituted, deleted and inserted units, and 1 if there is any error.

    Args:
        unit: "char", "word", or "unit" for the mixed error rate.
        ignore_spaces: Whether "char" ignores spaces, as is usual for Chinese; False counts a space as a character.
        normalisation: Normalisation of references and hypotheses; by default none.
    """

    score_column = "Err"
    reference_columns = (0, 1, 2)

    def __init__(self, unit: str, ignore_spaces: bool = True, normalisation: Normalisation | None = None):
        self.name, heading = UNITS[unit]
        self.columns = ("Snt", heading, "Corr", "Sub", "Del", "Ins", "Err", "S.Err")
        self.unit = unit
        self.ignore_spaces = ignore_spaces
        self.normalisation = normalisation or Normalisation()

    def align(self, references: Iterable[str], hypotheses: Iterable[str], languages: Iterable[str]) -> Iterator[Pairs]:
        """Aligned units of each sentence; takes the arguments of `statistics`."""
        process = jiwer.process_characters if self.unit == "char" else jiwer.process_words
        rows = zip(references, hypotheses, languages, strict=True)
        while block := list(islice(rows, _BLOCK)):
            sides = ([self._prepared(row[side], row[2]) for row in block] for side in (0, 1))
            result = process(*sides)
            for sentence in zip(result.references, result.hypotheses, result.alignments, strict=True):
                yield tuple(_pairs(*sentence))

    def statistics(
        self,
        references: Collection[str],
        hypotheses: Collection[str],
        languages: Sequence[str],
        more: Sequence[Collection[str]] = (),
    ) -> np.ndarray:
        """Counts of each sentence, float64 of shape (sentences, 5); further references are not used."""
        counts = map(_counts, self.align(references, hypotheses, languages))
        return np.fromiter(chain.from_iterable(counts), np.float64).reshape(len(references), 5)

    def notes(self, references: Collection[str], hypotheses: Collection[str], languages: Sequence[str]) -> list[str]:
        """Notes on languages without spaces, whose WER makes no sense, and on the normalisation."""
        sides = (set(chain.from_iterable(texts)) for texts in (references, hypotheses))
        return [
            *(unspaced_notes(self.name, languages) if self.unit == "word" else ()),
            *self.normalisation.notes(*sides),
        ]

    def score(self, sums: np.ndarray) -> np.ndarray:
        """Error rate in percent; without reference units 100 if there are errors, as in sacrebleu's TER, else 0."""
        errors, units = sums[..., 1:4].sum(-1), self.reference_units(sums)
        return 100 * np.where(units > 0, errors / np.maximum(units, 1), errors > 0)

    def signature(self, languages: Sequence[str], bootstrap: Bootstrap) -> str:
        """Unit, treatment of spaces, case and punctuation, number and seed of resamples, version of jiwer."""
        spaces = "" if self.unit != "char" else f"|spaces:{'ignored' if self.ignore_spaces else 'counted'}"
        text = f"{self.normalisation.signature}|norm:NFC{self.normalisation.of_languages(languages)}"
        draws = f"bs:{bootstrap.samples}|seed:{bootstrap.seed}"
        return f"{self.name}{spaces}|{text}|{draws}|jiwer:{importlib.metadata.version('jiwer')}"

    def cells(self, sentences: int, sums: np.ndarray) -> list[str]:
        """ESPnet's columns: numbers of sentences and reference units, the rest in percent."""
        correct, substituted, deleted, inserted, wrong = sums
        units = self.reference_units(sums)
        counts = (correct, substituted, deleted, inserted, substituted + deleted + inserted)
        percents = [100 * count / units for count in counts] + [100 * wrong / sentences]
        return [str(sentences), f"{units:.0f}", *(f"{percent:.1f}" for percent in percents)]

    def details(self, sums: np.ndarray) -> dict[str, float]:
        """Numbers of units and of sentences with an error."""
        names = ("correct", "substitutions", "deletions", "insertions", "sentence_errors")
        return {"units": int(self.reference_units(sums)), **dict(zip(names, map(int, sums), strict=True))}

    def _prepared(self, text: str, language: str) -> str:
        text = normalise(self.normalisation(text, language))
        if self.unit == "unit":
            return " ".join(_MIXED.findall(text))
        return text.replace(" ", "") if self.unit == "char" and self.ignore_spaces else text


def _counts(pairs: Pairs) -> list[int]:
    deletions = sum(right is None for _, right in pairs)
    insertions = sum(left is None for left, _ in pairs)
    correct = sum(left == right for left, right in pairs)
    substitutions = len(pairs) - correct - deletions - insertions
    return [correct, substitutions, deletions, insertions, correct < len(pairs)]


def _pairs(reference: list[str], hypothesis: list[str], chunks: list) -> Iterator[tuple[str | None, str | None]]:
    for chunk in chunks:
        left = reference[chunk.ref_start_idx : chunk.ref_end_idx]
        right = hypothesis[chunk.hyp_start_idx : chunk.hyp_end_idx]
        # An insertion has no left side and a deletion no right side; in other chunks both have equal lengths.
        yield from zip(left or [None] * len(right), right or [None] * len(left), strict=True)
