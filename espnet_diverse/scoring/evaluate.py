"""Score a corpus, its parts and their averages; each number with its interval and, beside a baseline, a p-value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from espnet_diverse.errors import DataError
from espnet_diverse.scoring.metric import Metric
from espnet_diverse.scoring.significance import Bootstrap, interval, p_value
from espnet_diverse.scoring.texts import Corpus


@dataclass(frozen=True)
class Compared:
    """A baseline's number beside the system's.

    Attributes:
        score: The baseline's.
        interval: Ends of its 95 % bootstrap interval.
        difference: System less baseline.
        p_value: Of the paired bootstrap test; None where a part has one sentence, which resampling cannot vary.
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
        score: On the metric's own scale.
        interval: Ends of its 95 % bootstrap interval.
        sentences: Number of references; None for an average.
        cells: What the table shows of the counts; empty for an average.
        details: The counts by name; empty for an average.
        mean_of: Names of the rows that an average is the mean of.
        baseline: The other system, where there is one.
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
    """Rows by name: the parts in their order, then the averages.

    The interval of a part resamples its sentences. That of an average resamples the sentences of each of its parts
    independently and takes the mean of their scores.

    Args:
        metric: What is counted.
        corpus: References and systems.
        parts: Positions of the sentences of each part; "" is the whole corpus.
        averages: Names of the parts that are averaged.
        bootstrap: How resamples are drawn.

    Raises:
        DataError: The references of a part are empty, so that no score is defined.
    """
    references, languages = list(corpus.references.values()), corpus.language_list()
    counts = [metric.statistics(references, system.texts, languages) for system in corpus.systems()]
    rows, scored = {}, {}
    for name, indices in parts.items():
        sums = counts[0][indices].sum(0)
        _check_size(name, metric, len(indices), sums)
        scored[name] = _score(metric, [side[indices] for side in counts], bootstrap)
        rows[name] = Row(
            **scored[name].judged(),
            signature=metric.signature([languages[index] for index in indices], bootstrap),
            sentences=len(indices),
            cells=tuple(metric.cells(len(indices), sums)),
            details=metric.details(sums),
        )
    for name, members in averages.items():
        spoken = [languages[index] for member in members for index in parts[member]]
        judged = _mean([scored[member] for member in members], bootstrap).judged()
        rows[name] = Row(**judged, signature=metric.signature(spoken, bootstrap), mean_of=tuple(members))
    return rows


def _check_size(name: str, metric: Metric, sentences: int, sums: np.ndarray) -> None:
    if not metric.reference_units(sums):
        row = f"row {name!r}: " if name else ""
        raise DataError(
            f"{row}the references ({sentences}) hold no {metric.unit} at all, so that {metric.name} is not defined; "
            "give references with text"
        )


@dataclass(frozen=True)
class _Scored:
    """Scores of the system and perhaps the baseline, and those of resamples; a single sentence is not testable."""

    scores: list[float]
    resampled: list[np.ndarray]
    testable: bool

    def judged(self) -> dict:
        """The fields of a row that the scores decide."""
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
    """The row, ready for JSON; what an average or a row without baseline lacks is left out."""
    numbers = {"signature": row.signature, "score": row.score, "interval": list(row.interval)}
    if row.mean_of:
        numbers["mean_of"] = list(row.mean_of)
    else:
        numbers |= {"sentences": row.sentences, **row.details}
    if row.baseline:
        numbers["baseline"] = {**vars(row.baseline), "interval": list(row.baseline.interval)}
    return numbers
