"""Score a corpus, its parts and their averages, with confidence intervals and p-values against a baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from espnet_diverse.scoring.metric import Metric
from espnet_diverse.scoring.significance import Bootstrap, interval, p_value
from espnet_diverse.scoring.texts import Corpus


@dataclass(frozen=True)
class Compared:
    """Score of a baseline and its comparison with the system.

    Attributes:
        score: Score of the baseline.
        interval: Bounds of its 95 % bootstrap interval.
        difference: Score of the system minus score of the baseline.
        p_value: p-value of the paired bootstrap test; None if a part has one sentence, whose resamples are all equal.
    """

    score: float
    interval: tuple[float, float]
    difference: float
    p_value: float | None


@dataclass(frozen=True)
class Row:
    """One row of a score table.

    Attributes:
        signature: How the score was computed.
        score: Score on the scale of the metric.
        interval: Bounds of the 95 % bootstrap interval.
        sentences: Number of references; None for an average.
        cells: Cells of the table; empty for an average.
        details: Counts by name; empty for an average.
        mean_of: Names of the averaged rows; empty if this is not an average.
        baseline: Comparison with a baseline, if there is one.
    """

    signature: str
    score: float
    interval: tuple[float, float]
    sentences: int | None = None
    cells: tuple[str, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)
    mean_of: tuple[str, ...] = ()
    baseline: Compared | None = None


def evaluate(
    metric: Metric,
    corpus: Corpus,
    parts: Mapping[str, Sequence[int]],
    averages: Mapping[str, Sequence[str]],
    bootstrap: Bootstrap,
) -> dict[str, Row]:
    """Compute the rows of a score table: the parts in their order, then the averages.

    For the interval of a part, its sentences are resampled. For the interval of an average, the sentences of each of
    its parts are resampled independently, and the scores of the parts are averaged.

    Args:
        metric: Metric to compute.
        corpus: References and systems.
        parts: Indices of the sentences of each part; "" is the whole corpus.
        averages: Names of the parts of each average.
        bootstrap: Options of the resampling.

    Returns:
        Rows by name of the part or average. A part whose references are all empty has no row, as its score is
            undefined, and is left out of averages.
    """
    references, languages = corpus.references.values(), corpus.language_list()
    counts = [metric.statistics(references, system.texts, languages, corpus.more) for system in corpus.systems()]
    rows, scored = {}, {}
    for name, indices in parts.items():
        sums = counts[0][indices].sum(0)
        if not metric.reference_units(sums):
            continue
        scored[name] = _score(metric, [side[indices] for side in counts], bootstrap)
        rows[name] = Row(
            **scored[name].judged(),
            signature=metric.signature([languages[index] for index in indices], bootstrap),
            sentences=len(indices),
            cells=tuple(metric.cells(len(indices), sums)),
            details=metric.details(sums),
        )
    averages = {name: [member for member in members if member in scored] for name, members in averages.items()}
    for name, members in averages.items():
        if not members:
            continue
        spoken = [languages[index] for member in members for index in parts[member]]
        judged = _mean([scored[member] for member in members], bootstrap).judged()
        rows[name] = Row(**judged, signature=metric.signature(spoken, bootstrap), mean_of=tuple(members))
    return rows


@dataclass(frozen=True)
class _Scored:
    """Scores of the system and of a baseline, if any, and of their resamples; with one sentence there is no test."""

    scores: list[float]
    resampled: list[np.ndarray]
    testable: bool

    def judged(self) -> dict:
        """The fields of a row that depend on the scores."""
        judged = {"score": self.scores[0], "interval": interval(self.resampled[0])}
        if len(self.scores) == 2:
            difference = self.scores[0] - self.scores[1]
            p = p_value(*self.resampled, difference) if self.testable else None
            judged["baseline"] = Compared(self.scores[1], interval(self.resampled[1]), difference, p)
        return judged


def _score(metric: Metric, sides: list[np.ndarray], bootstrap: Bootstrap) -> _Scored:
    scores = [float(metric.score(side.sum(0))) for side in sides]
    return _Scored(scores, [bootstrap.scores(side, metric.score) for side in sides], len(sides[0]) > 1)


def _mean(members: list[_Scored], bootstrap: Bootstrap) -> _Scored:
    scores = np.mean([member.scores for member in members], axis=0).tolist()
    draws = [bootstrap.shuffled(member.resampled, position) for position, member in enumerate(members)]
    return _Scored(scores, list(np.mean(draws, axis=0)), all(member.testable for member in members))


def to_dict(row: Row) -> dict:
    """The row as a dictionary for JSON, without the fields that an average or a row without baseline lacks."""
    numbers = {"signature": row.signature, "score": row.score, "interval": list(row.interval)}
    if row.mean_of:
        numbers["mean_of"] = list(row.mean_of)
    else:
        numbers |= {"sentences": row.sentences, **row.details}
    if row.baseline:
        numbers["baseline"] = {**vars(row.baseline), "interval": list(row.baseline.interval)}
    return numbers
