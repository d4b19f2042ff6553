"""Head ablations with given scores, whose intervals have a given width."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.analysis.measures.head_ablation import HeadAblation


def ablation(
    metric: str, utterances: int, score: float, scores: Mapping[str, NDArray], width: float = 1.0
) -> HeadAblation:
    """An ablation in which each interval is `width` wide around its value."""
    ends = np.array([-width / 2, width / 2])
    low, high = (score + ends).tolist()
    bare = HeadAblation(metric, utterances, score, scores, (low, high), {})
    return HeadAblation(
        metric, utterances, score, scores, (low, high), {k: each[..., None] + ends for k, each in bare.drops().items()}
    )
