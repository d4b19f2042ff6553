"""Differences of methods from the baseline, with an interval over seeds and one over the sentences of a test set.

Over seeds: method and baseline are paired by the seed, and the mean difference has the interval of Student's t for its
n - 1 degrees of freedom. It says how the result would vary if all were trained again.

Over sentences: sentences are drawn with replacement, the same ones for every run, and the difference of the means over
seeds is computed for each draw (paired bootstrap, see `scoring.significance`). It says how the result would vary on
other sentences, with the same models.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from espnet_diverse.analysis.rounding import half_interval
from espnet_diverse.contest.runs import MEASURED_BY_DECODING, Run
from espnet_diverse.data.tables import pack_table
from espnet_diverse.scoring.metric import Metric, lower_is_better, shown_name
from espnet_diverse.scoring.significance import Bootstrap, interval, p_value
from espnet_diverse.scoring.texts import Corpus, languages_beside, system_of

_UNLEARNED = {"cer": 90.0, "wer": 90.0, "ter": 90.0, "bleu": 2.0}  # scores that no model with some use has


@dataclass(frozen=True)
class Difference:
    """A method compared with the baseline on a data set.

    Attributes:
        method: Name of the method.
        scores: Score by seed.
        by_seed: Score minus baseline score, by seed, for the seeds that both have; empty for the baseline itself.
        over_seeds: 95 % interval of their mean over seeds; None with fewer than two.
        over_sentences: 95 % interval over sentences; None if the metric has no counts of sentences.
        p_value: p-value of the paired bootstrap test of the means over seeds, or None.
    """

    method: str
    scores: Mapping[int, float]
    by_seed: Mapping[int, float] = field(default_factory=dict)
    over_seeds: tuple[float, float] | None = None
    over_sentences: tuple[float, float] | None = None
    p_value: float | None = None

    @property
    def mean(self) -> float:
        """Mean difference; not a number without a seed that both have."""
        return statistics.mean(self.by_seed.values()) if self.by_seed else math.nan

    def is_shown(self) -> bool:
        """Return whether there is an interval over seeds, and both intervals lie on one side of 0."""
        if self.over_seeds is None:
            return False
        bounds = [*self.over_seeds, *(self.over_sentences or ())]
        return all(bound > 0 for bound in bounds) or all(bound < 0 for bound in bounds)


def compare(
    runs: Sequence[Run], results: Sequence[Mapping[str, str]], data_set: str, metric: Metric | None
) -> list[Difference]:
    """Compare the methods of a contest on a data set, in their order; the baseline comes first, without a difference.

    Args:
        runs: The runs of the contest, one or more.
        results: Scores of finished runs; infinite ones, which a perplexity by word may be, are left out.
        data_set: Name of the set.
        metric: The metric, for the bootstrap over sentences; None leaves it out.

    Raises:
        DataError: A text that was decoded, or its reference, cannot be read.
    """
    baseline = runs[0].shared["baseline"]  # whose first seed may be later than others'
    scored: dict[str, dict[int, float]] = {name: {} for name in (baseline, *(run.name for run in runs))}
    known = {(run.experiment, run.name, str(run.seed)): run for run in runs}
    for row in results:
        run = known.get((row["experiment"], row["run"], row["seed"]))
        score = float(row["score"])
        if run and row["set"] == data_set and row["metric"] == run.metric and math.isfinite(score):
            scored[run.name][run.seed] = score
    resampled = _resampling(runs, data_set, metric)
    return [
        Difference(name, scores) if name == baseline else _difference(name, scores, baseline, scored, resampled)
        for name, scores in scored.items()
    ]


def _difference(
    name: str,
    scores: Mapping[int, float],
    baseline: str,
    scored: Mapping[str, Mapping[int, float]],
    resampled: Callable[[str, int], np.ndarray] | None,
) -> Difference:
    by_seed = {seed: score - scored[baseline][seed] for seed, score in scores.items() if seed in scored[baseline]}
    if not by_seed or resampled is None:
        return Difference(name, scores, by_seed, seed_interval(list(by_seed.values())))
    means = [np.mean([resampled(method, seed) for seed in by_seed], axis=0) for method in (name, baseline)]
    p = p_value(means[0], means[1], statistics.mean(by_seed.values()))
    over_sentences = interval(means[0] - means[1])
    return Difference(name, scores, by_seed, seed_interval(list(by_seed.values())), over_sentences, p)


def _resampling(runs: Sequence[Run], data_set: str, metric: Metric | None) -> Callable[[str, int], np.ndarray] | None:
    """A function that returns the scores of the resamples of a run; None if the metric has no counts of sentences."""
    if metric is None or runs[0].metric in MEASURED_BY_DECODING:
        return None
    by_key = {(run.name, run.seed): run for run in runs}
    text = runs[0].data(data_set) / "text"
    references = pack_table(text, "reference")
    if len(references) < 2:
        return None
    languages = languages_beside(text)

    @cache
    def resampled(name: str, seed: int) -> np.ndarray:
        run = by_key[name, seed]
        path = run.decoded(name, data_set) / "text"
        system = system_of(run.label, references, pack_table(path, "hypothesis"))
        corpus = Corpus(references, system, languages=languages)
        counts = metric.statistics(references.values(), system.texts, corpus.language_list())
        return Bootstrap().scores(counts, metric.score)

    return resampled


def seed_interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of Student's t for the mean of paired differences; None for fewer than two."""
    if len(differences) < 2:
        return None
    mean, half = statistics.mean(differences), half_interval(differences)
    return mean - half, mean + half


def conclusion(differences: Sequence[Difference], metric: str, data_set: str) -> str:
    """A sentence on what the scores on a set show about the methods and what not, and one more if none has learned."""
    baseline, *others = differences
    counts = sorted({len(result.by_seed) for result in others})
    seeds = counts[-1]
    shown_seeds = " to ".join(map(str, dict.fromkeys((counts[0], seeds))))
    count = f"{len(differences)} methods, {shown_seeds} seed{'' if seeds == 1 else 's'}"
    begin = f"{count}, {shown_name(metric)} on {data_set}: "
    if seeds == 0:
        return f"{begin}no method has a seed together with {baseline.method}, so nothing can be compared yet."
    if seeds == 1:
        return f"{begin}nothing can be said of differences, as other seeds may give others; give two seeds or more."
    if not any(difference for result in others for difference in result.by_seed.values()):
        return f"{begin}all scores equal those of {baseline.method}, as scores of models that have learned nothing do."
    shown = [result for result in others if result.is_shown()]
    parts = [_shown_part(result, baseline.method, metric) for result in shown]
    if undecided := [result for result in others if result.over_seeds is not None and not result.is_shown()]:
        parts.append(_open_part(undecided, baseline.method, len(undecided) == len(others), metric))
    if few := [result.method for result in others if result.over_seeds is None]:
        parts.append(f"nothing can be said of {_joined(few)}, with fewer than two seeds")
    return f"{begin}{'; '.join(parts)}.{_caution(differences, metric)}"


def shown_difference(number: float, signed: bool = False) -> str:
    """A difference with one decimal, or with as many as a small one needs not to be shown as 0."""
    sign = "+" if signed else ""
    return f"{number:{sign}.1f}" if abs(number) >= 0.05 or not number else f"{number:{sign}.1g}"


def _caution(differences: Sequence[Difference], metric: str) -> str:
    """A sentence for scores of models that have learned next to nothing."""
    scores = [score for result in differences for score in result.scores.values()]
    best = (min if lower_is_better(metric) else max)(scores)
    if metric not in _UNLEARNED or (best < _UNLEARNED[metric]) == lower_is_better(metric):
        return ""
    return f" The best score is {best:.1f}: no model has learned the task, and a larger budget may change the order."


def _shown_part(result: Difference, baseline: str, metric: str) -> str:
    bounds = [abs(bound) for bound in (*(result.over_seeds or ()), *(result.over_sentences or ()))]
    word = "better" if (result.mean < 0) == lower_is_better(metric) else "worse"
    least, most = shown_difference(min(bounds)), shown_difference(max(bounds))
    return f"{result.method} is {word} than {baseline}, by {least} to {most}"


def _open_part(undecided: Sequence[Difference], baseline: str, is_all: bool, metric: str) -> str:
    bounds = [bound for result in undecided for bound in (*(result.over_seeds or ()), *(result.over_sentences or ()))]
    gains = [-bound if lower_is_better(metric) else bound for bound in bounds]
    up, down = max(0.0, *gains), max(0.0, *(-gain for gain in gains))
    named = (
        "no method is"
        if is_all
        else f"{_joined([result.method for result in undecided])} {'is' if len(undecided) == 1 else 'are'} not"
    )
    between = f"between {shown_difference(up)} better and {shown_difference(down)} worse"
    return f"{named} shown to differ from {baseline}: the true difference may lie {between}"


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
