"""Head ablation: the drop of a score when one head of a trained model is masked.

Michel et al. 2019, "Are sixteen heads really better than one?", section 3; An et al. 2020, "Repulsive Attention:
Rethinking Multi-head Attention as Bayesian Inference", Fig. 2, the histogram of drops. The context of one head at a
time is 0 before the output projection (`MultiHeadAttention.head_mask`), and the data is scored again. Heads whose drop
is near 0 are redundant. Intervals are of the bootstrap over utterances, with the same draws for each head, as in
`score`. The cost is a pass over the data for each head; the encoder runs again only for its own heads.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from espnet_diverse.analysis.collect import ATTRIBUTES, KINDS, attentions
from espnet_diverse.analysis.measures.ablation_metrics import AblationMetric, build_metric
from espnet_diverse.analysis.samples import Sample, batches
from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.errors import ModelError
from espnet_diverse.nets.replace_attention import replace_attention
from espnet_diverse.progress import progress
from espnet_diverse.scoring.metric import lower_is_better
from espnet_diverse.scoring.significance import Bootstrap, interval
from espnet_diverse.scoring.texts import written_languages
from espnet_diverse.upstream.layers import MultiHeadedAttention

HEADER = ("attention", "layer", "head", "score", "drop", "low", "high")


class Head(NamedTuple):
    """A head of a model: kind of attention (a key of `collect.KINDS`), layer, and head of the pool, from 0."""

    kind: str
    layer: int
    head: int


@dataclass(frozen=True)
class HeadAblation:
    """Scores of a model with one head masked at a time.

    Attributes:
        metric: Name of the score, one of `ablation_metrics.METRICS`.
        utterances: Number of utterances that were scored.
        score: Score of the whole model.
        scores: Scores without one head by kind of attention: N layers with P heads each, (N, P).
        interval: Bounds of the 95 % interval of the score of the whole model.
        intervals: 95 % intervals of the drop of each head, (N, P, 2) by kind.
    """

    metric: str
    utterances: int
    score: float
    scores: Mapping[str, NDArray]
    interval: tuple[float, float]
    intervals: Mapping[str, NDArray]

    def certain(self) -> dict[str, NDArray]:
        """Return 1 if the interval of a drop is above 0, -1 if it is below, and 0 otherwise, (N, P) by kind.

        The interval of one utterance has no width and says nothing, so it is 0.
        """
        known = self.utterances > 1
        return {
            kind: known * ((bounds > 0).all(-1).astype(int) - (bounds < 0).all(-1))
            for kind, bounds in self.intervals.items()
        }

    def drops(self) -> dict[str, NDArray]:
        """Return how much worse the score is without each head, (N, P) by kind; negative if it is better."""
        sign = 1 if lower_is_better(self.metric) else -1
        return {kind: sign * (scores - self.score) for kind, scores in self.scores.items()}

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells under `HEADER`: a row for each head; layers and heads are counted from 1."""
        drops = self.drops()
        return [
            (
                *(KINDS[kind], str(layer + 1), str(head + 1), f"{score:.4f}", f"{drops[kind][layer, head]:.4f}"),
                *(f"{bound:.4f}" for bound in self.intervals[kind][layer, head]),
            )
            for kind, scores in self.scores.items()
            for (layer, head), score in np.ndenumerate(scores)
        ]

    def tsv(self) -> str:
        """Return `rows` as a table with tabs, under a header."""
        return "".join("\t".join(cells) + "\n" for cells in (HEADER, *self.rows()))

    def summary(self) -> dict:
        """Return the same numbers for JSON, scores and drops by layer and head."""
        return {
            "metric": self.metric,
            "utterances": self.utterances,
            "score": self.score,
            "interval": self.interval,
            "scores": {kind: scores.tolist() for kind, scores in self.scores.items()},
            "drops": {kind: drops.tolist() for kind, drops in self.drops().items()},
            "intervals": {kind: bounds.tolist() for kind, bounds in self.intervals.items()},
        }

    def arrays(self) -> dict[str, NDArray]:
        """Return the drops for npz."""
        return {f"{kind}_{self.metric}_drop": drops for kind, drops in self.drops().items()}


def ablate_heads(predictor: Predictor, samples: Sequence[Sample], metric: str) -> HeadAblation:
    """Score utterances with the whole model, and with each of its heads masked.

    Attention of ESPnet's own classes in `predictor` is replaced by ours, which computes the same.

    Args:
        predictor: The model, with the options of the search if the metric scores decoded text.
        samples: The utterances.
        metric: One of `ablation_metrics.METRICS`.

    Raises:
        ModelError: The model has no multi-head attention.
    """
    languages = written_languages([one.text for one in samples], [one.language for one in samples])
    samples = [replace(one, language=language) for one, language in zip(samples, languages, strict=True)]
    modules, measure = maskable(predictor.encoding.model), build_metric(predictor, metric)
    shapes = {kind: (len(layers), layers[0].pool) for kind, layers in modules.items()}
    heads = [Head(kind, *place) for kind, shape in shapes.items() for place in np.ndindex(*shape)]
    counts = [
        np.stack(list(_counts(measure, batch, modules, heads)))
        for batch in progress(list(batches(predictor, samples)), f"ablation of {len(heads)} heads", unit="batch")
    ]
    of_utterances = np.concatenate(counts, axis=1)  # (1 + heads, utterances, counts)
    score, *ablated = measure.score(of_utterances.sum(1)).tolist()
    models, utterances, _ = of_utterances.shape
    rows = of_utterances.swapaxes(0, 1).reshape(utterances, -1)  # so that all have the same resamples
    drawn = Bootstrap().scores(rows, lambda sums: measure.score(sums.reshape(len(sums), models, -1)))
    baseline, *drawn = drawn.T
    scores = {kind: np.empty(shape) for kind, shape in shapes.items()}
    intervals = {kind: np.empty((*shape, 2)) for kind, shape in shapes.items()}
    sign = 1 if lower_is_better(metric) else -1
    for (kind, layer, head), value, resamples in zip(heads, ablated, drawn, strict=True):
        scores[kind][layer, head] = value
        intervals[kind][layer, head] = interval(sign * (resamples - baseline))
    return HeadAblation(metric, len(samples), score, scores, interval(baseline), intervals)


def _counts(
    measure: AblationMetric,
    batch: Sequence[Sample],
    modules: Mapping[str, Sequence[MultiHeadAttention]],
    heads: Sequence[Head],
) -> Iterator[NDArray]:
    """Counts of a batch with the whole model, then without each head; heads of the decoder reuse its encoding."""
    encoded = measure.encode(batch)
    yield measure.counts(batch, encoded)
    for head in heads:
        with without_head(modules[head.kind][head.layer], head.head):
            yield measure.counts(batch, None if head.kind == "encoder" else encoded)


@contextmanager
def without_head(module: MultiHeadAttention, head: int) -> Iterator[None]:
    """Mask one head of an attention, counted from 0 in the pool, inside the block."""
    previous = module.head_mask
    mask = torch.arange(module.pool) != head
    module.head_mask = mask if previous is None else previous & mask
    try:
        yield
    finally:
        module.head_mask = previous


def maskable(model: nn.Module) -> dict[str, list[MultiHeadAttention]]:
    """Return the attentions of a model by kind, like `collect.attentions`; ESPnet's own are replaced by ours.

    Raises:
        ModelError: The model has no such attention.
    """
    for layer in list(model.modules()):
        for attribute in ATTRIBUTES:
            attention = getattr(layer, attribute, None)
            if isinstance(attention, MultiHeadedAttention) and not isinstance(attention, MultiHeadAttention):
                replace_attention([layer], attribute, None)
    layers = attentions(model)
    if not layers:
        raise ModelError("neither encoder nor decoder has multi-head attention, whose heads could be masked")
    ours = {kind: [module for module in layers[kind] if isinstance(module, MultiHeadAttention)] for kind in KINDS}
    return {kind: modules for kind, modules in ours.items() if modules}
