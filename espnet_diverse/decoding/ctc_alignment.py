"""Frames of the tokens of a text by CTC alignment, and the share of the tokens that CTC supports.

The most probable CTC path of the tokens of a text (Graves et al. 2006, "Connectionist Temporal Classification", section
4.1) assigns frames to each token; torchaudio's `forced_align` finds it. A decoder writes fluent texts for noise too;
there CTC, which judges each frame separately, gives almost all of the tokens a probability near 0.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torchaudio.functional import TokenSpan, forced_align, merge_tokens

_SUPPORTED = 0.05  # probability of a token that CTC supports


def align(log_probs: Tensor, ids: Sequence[int]) -> list[TokenSpan] | None:
    """The frames of each token on the most probable CTC path of a text.

    Args:
        log_probs: Log probabilities of labels (T, V), label 0 the blank.
        ids: Labels of the text, none of them blank.

    Returns:
        For each label its first frame `start`, the frame `end` after its last, and as `score` the mean of its
        probabilities there; None if there are too few frames: each label needs one, and a blank between equal labels.
    """
    if not ids:
        return []
    if len(ids) + sum(one == other for one, other in pairwise(ids)) > len(log_probs):
        return None
    path, scores = forced_align(log_probs.float().cpu().unsqueeze(0), torch.tensor([ids]))
    return merge_tokens(path[0], scores[0].exp())


def ctc_support(spans: Sequence[TokenSpan] | None) -> float:
    """Share of the tokens of a text, 0 to 1, to which CTC gives a probability of at least 5 % where it aligns them.

    Args:
        spans: Result of `align`; None, for a text that does not fit into its frames, has no support.
    """
    return 0.0 if spans is None else sum(span.score >= _SUPPORTED for span in spans) / max(1, len(spans))
