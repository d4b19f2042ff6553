"""Differences of systems on the same texts: paired bootstrap intervals, and differences by utterance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.data.tables import pack_texts
from espnet_diverse.errors import ConfigError
from espnet_diverse.scoring.build import build_metrics
from espnet_diverse.scoring.significance import Bootstrap, interval, p_value
from espnet_diverse.scoring.texts import Corpus, languages_beside, system_of

_SAME = 1e-6  # difference of scores that are equal


@dataclass(frozen=True)
class Difference:
    """A system compared with the first one.

    Attributes:
        name: Name of the system.
        difference: Its score minus the first system's.
        interval: Bounds of the 95 % interval of the difference.
        p_value: p-value of the paired bootstrap test, see `significance.p_value`; None for one utterance.
        by_utterance: Difference of the scores of each utterance; not a number if a reference is empty.
    """

    name: str
    difference: float
    interval: tuple[float, float]
    p_value: float | None
    by_utterance: NDArray


@dataclass(frozen=True)
class Differences:
    """Systems compared with the first one on the same utterances.

    Attributes:
        references: Reference texts by utterance.
        texts: Texts of each system by name, in the order of the references; the first system first.
        found: The comparisons, in the order of the other systems.
    """

    references: Mapping[str, str]
    texts: Mapping[str, Sequence[str]]
    found: Sequence[Difference]

    def summary(self, difference: Difference) -> dict:
        """Return the numbers of a comparison, for JSON; None replaces not a number."""
        sizes = [None if np.isnan(size) else float(size) for size in difference.by_utterance]
        return {
            "system": difference.name,
            "difference": difference.difference,
            "interval": list(difference.interval),
            "p_value": difference.p_value,
            "utterances": dict(zip(self.references, sizes, strict=True)),
        }

    def largest(self, difference: Difference, count: int) -> list[tuple[str, float, str, str, str]]:
        """Return utterance, difference, reference, and the texts of the first and the other system, largest first."""
        names, first = list(self.references), next(iter(self.texts))
        sizes = np.abs(np.nan_to_num(difference.by_utterance))
        order = [at for at in np.argsort(-sizes, kind="stable")[:count] if sizes[at]]
        texts = self.texts[first], self.texts[difference.name]
        return [
            (names[at], float(difference.by_utterance[at]), self.references[names[at]], texts[0][at], texts[1][at])
            for at in order
        ]


def measure_differences(
    reference: Path, hypotheses: Mapping[str, Path], metric: str, scores: Sequence[float]
) -> Differences:
    """Score systems again, by utterance.

    Args:
        reference: Reference texts; tables of languages next to it are read, as by `score`.
        hypotheses: Decoded texts of the systems by name; the first is the baseline.
        metric: A metric of `build_metrics`.
        scores: Scores of the systems in their score.json.

    Raises:
        ConfigError: The metric is bertscore, or a score differs from the one in score.json, for example because
            `score` had other options.
        DataError: A file is missing or damaged, or a hypothesis has no reference.
    """
    if metric == "bertscore":
        raise ConfigError(f"--reference {reference}: bertscore is not compared by utterance; give another --metric")
    references = dict(pack_texts(reference, "reference").items())
    languages = languages_beside(reference)
    scorer, bootstrap, counts, texts = build_metrics([metric])[metric], Bootstrap(), [], {}
    for (name, path), expected in zip(hypotheses.items(), scores, strict=True):
        system = system_of(name, references, pack_texts(path, "hypothesis"))
        spoken = Corpus(references, system, languages=languages).language_list()
        counts.append(scorer.statistics(references.values(), system.texts, spoken))
        texts[name] = list(system.texts)
        actual = float(scorer.score(counts[-1].sum(0)))
        if abs(actual - expected) > _SAME:
            raise ConfigError(
                f"--reference {reference}: {name} has {metric} {actual:.2f} by it and {expected:.2f} in its score.json"
                "; score with this reference and without other options, or leave it out"
            )
    with np.errstate(divide="ignore", invalid="ignore"):
        by_utterance = [np.where(scorer.reference_units(stats) > 0, scorer.score(stats), np.nan) for stats in counts]
    resampled = [bootstrap.scores(stats, scorer.score) for stats in counts]
    compared = [
        Difference(
            name,
            score - scores[0],
            interval(draws - resampled[0]),
            p_value(draws, resampled[0], score - scores[0]) if len(references) > 1 else None,
            single - by_utterance[0],
        )
        for name, score, draws, single in list(zip(texts, scores, resampled, by_utterance, strict=True))[1:]
    ]
    return Differences(references, texts, compared)
