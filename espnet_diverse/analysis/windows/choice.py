"""Windows for the heads of a trained encoder, by their reach and by the loss of the model on a data directory.

1. The reach of each head is measured: the share of its weight within each width, a power of two.
2. Windows are proposed that keep a share of the weight of each head. Of `SHARES`, the smallest is taken whose loss uses
   up at most half of the tolerance.
3. From there on the windows are halved one by one, as `narrowing.py` describes.

The widest window covers the longest utterance, so no head sees further than on these data; on longer recordings the
cost of the encoder then grows linearly with the length.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import inf
from pathlib import Path

import numpy as np
from espnet2.train.abs_espnet_model import AbsESPnetModel
from numpy.typing import NDArray

from espnet_diverse.analysis.collect import observe
from espnet_diverse.analysis.measures.reach import Reach, pairs_within, widths_up_to
from espnet_diverse.analysis.samples import Sample, read_samples, read_speech
from espnet_diverse.analysis.windows.encoder_heads import check_heads, encoder_heads, set_windows
from espnet_diverse.analysis.windows.layer_cache import LayerCache
from espnet_diverse.analysis.windows.losses import losses
from espnet_diverse.analysis.windows.narrowing import State, narrow, propose
from espnet_diverse.data.kaldi import read_data_dir
from espnet_diverse.decoding.token_text import TokenText
from espnet_diverse.errors import DataError, ModelError
from espnet_diverse.nets.frontends.speech_frontend import check_samples
from espnet_diverse.progress import progress
from espnet_diverse.scoring.significance import Bootstrap, interval
from espnet_diverse.text.vocabulary import Vocabulary
from espnet_diverse.upstream.layers import TooShortUttError

log = logging.getLogger(__name__)

SHARES = (0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
"""Shares of the weight of each head that proposed windows keep; the last is that of the widest windows."""
_PART = 0.5  # of the tolerance, that a proposal may use up


@dataclass(frozen=True)
class Windows:
    """Windows that were chosen for a model.

    Attributes:
        widths: The widths that were compared, in positions on each side.
        reach: Mean share of the weight of each head within each width, (N, H, W).
        lengths: Number of positions of each of U utterances.
        before: Loss of each utterance without windows (U,).
        proposals: The proposals that were measured.
        path: The last proposal, and the steps from there.
        tolerance: Greatest rise of the mean loss, in percent.
        utterances: Ids of the utterances.
        skipped: The reason for each utterance that was left out, by id.
        passes: How often the losses of all utterances were computed.
    """

    widths: Sequence[int]
    reach: NDArray
    lengths: Sequence[int]
    before: NDArray
    proposals: Sequence[State]
    path: Sequence[State]
    tolerance: float
    utterances: Sequence[str]
    skipped: Mapping[str, str]
    passes: int

    @property
    def after(self) -> NDArray:
        """Loss of each utterance with the chosen windows (U,)."""
        return self.path[-1].losses

    def chosen(self) -> NDArray:
        """Return the width of each head (N, H)."""
        return self.of(self.path[-1])

    def of(self, state: State) -> NDArray:
        """Return the width of each head in a state of the search (N, H)."""
        return np.array(self.widths)[state.levels]

    def rise(self, state: State | None = None) -> float:
        """Return by how many percent the mean loss is higher than without windows; by default at the end."""
        return 100 * ((self.path[-1] if state is None else state).mean / float(self.before.mean()) - 1)

    def rise_interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the rise at the end, by the paired bootstrap over utterances."""
        pairs = np.stack([self.before, self.after], axis=1)
        return interval(Bootstrap().scores(pairs, lambda sums: 100 * (sums[..., 1] / sums[..., 0] - 1)))

    def pairs(self, state: State | None = None) -> float:
        """Return the share of all pairs of positions that the heads see, on these utterances; by default at the end."""
        of_width = pairs_of(self.lengths, self.widths)
        levels = (self.path[-1] if state is None else state).levels
        return float(of_width[levels].mean() / of_width[-1])

    def summary(self) -> str:
        """Return the rise of the loss and the pairs that remain, in a sentence."""
        low, high = self.rise_interval()
        return (
            f"The loss changes by {self.rise():+.3g} % (95 % interval {low:.3g} to {high:.3g}), within the tolerance "
            f"of {self.tolerance:g} %, and {100 * self.pairs():.3g} % of the pairs of positions remain."
        )


def pairs_of(lengths: Sequence[int], widths: Sequence[int]) -> NDArray:
    """Return the number of pairs of positions within each of W widths, in utterances of these lengths, (W,)."""
    return np.array([sum(pairs_within(length, width) for length in lengths) for width in widths])


def choose_windows(
    model: AbsESPnetModel,
    vocabulary: Vocabulary | TokenText,
    data_dir: Path,
    conditions: Mapping[str, Mapping[str, int]],
    rate: int,
    tolerance: float,
    most_passes: float = inf,
) -> Windows:
    """Choose windows for the encoder heads of a model, which is left with them.

    Args:
        model: A model of speech recognition or translation with softmax attention.
        vocabulary: Vocabulary of its texts.
        data_dir: Data directory with texts.
        conditions: For each utterance to use, the index of the value of each condition that the model needs.
        rate: Sampling rate in Hz of the audio that the model reads.
        tolerance: Greatest rise of the mean loss, in percent.
        most_passes: How often the losses of all utterances may be computed; proposals are measured in any case.

    Raises:
        DataError: No utterance can be read, or all are too short.
        ModelError: The encoder has no such attention, or the loss needs a text of the source.
    """
    if getattr(model, "asr_weight", 0) > 0:  # of speech translation
        raise ModelError("the loss of this model needs source texts; adopt it with --set model_conf.asr_weight=0")
    check_heads(model.eval())
    layers = encoder_heads(model)
    speech = partial(read_speech, rate=rate)
    read, skipped = read_samples(speech, vocabulary, read_data_dir(data_dir), conditions)
    reach, samples = _reach(model, read, skipped)
    widths = widths_up_to(max(reach.lengths()))
    shares = reach.by_head(widths)
    shown, cache, passes = progress(count(), "choose windows", unit="evaluation"), LayerCache(model.encoder), 0

    def measure(levels: NDArray | None, taken: NDArray | None) -> NDArray:
        nonlocal passes
        passes += 1
        next(shown)
        set_windows(layers, None if levels is None else np.array(widths)[levels])
        cache.levels, cache.taken = levels, taken
        return losses(model, samples, cache)

    with cache.installed():
        before = measure(None, None)
        rise = before.mean() * tolerance / 100
        offered = [(share, reach.narrowest(widths, share)) for share in SHARES]
        proposals = propose(offered, measure, before.mean() + _PART * rise)
        pairs = pairs_of(reach.lengths(), widths)
        expected = _expected(shares, proposals[-1], before.mean())
        path = narrow(proposals[-1], measure, pairs, before.mean() + rise, expected, most_passes - passes)
    set_windows(layers, np.array(widths)[path[-1].levels])
    names = [sample.utterance for sample in samples]
    return Windows(widths, shares, reach.lengths(), before, proposals, path, tolerance, names, skipped, passes)


def _expected(shares: NDArray, proposal: State, before: float) -> NDArray:
    """Return the rise of the loss that is expected of lowering each level, (N, H, W), by the weight that it loses.

    A weight is expected to cost as much as the weight that a proposal cuts off, but not less than nothing.
    """
    lost = 1 - np.take_along_axis(shares, proposal.levels[..., None], -1).sum(-1)
    cost = max(proposal.mean - before, 0.0) / max(lost.sum(), 1e-12)
    return cost * np.diff(shares, axis=-1, prepend=0.0)


def _reach(model: AbsESPnetModel, samples: Sequence[Sample], skipped: dict[str, str]) -> tuple[Reach, list[Sample]]:
    """Measure the reach of the heads of the encoder; utterances that are too short are added to `skipped`.

    Returns:
        The reach, and the utterances that were used.

    Raises:
        DataError: All utterances are too short.
        ModelError: The attention keeps no weights.
    """
    reach, used = Reach(), []
    for sample in progress(samples, "reach of heads", unit="utterance"):
        try:
            check_samples(getattr(model, "frontend", None), len(sample.source))
            observations = observe(model, sample.source, sample.tokens, sample.conditions)
        except TooShortUttError as error:
            skipped[sample.utterance] = str(error)
            log.warning("%s was left out: %s", sample.utterance, error)
            continue
        if "encoder" not in observations:
            raise ModelError("the encoder keeps no matrix of weights for each head, whose reach could be measured")
        reach.add(observations["encoder"].weights)
        used.append(sample)
    if not used:
        name, reason = next(iter(skipped.items()))
        raise DataError(f"none of {len(skipped)} utterances could be used; first {name}: {reason}")
    return reach, used
