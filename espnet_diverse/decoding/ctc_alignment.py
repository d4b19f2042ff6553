"""Frames of the tokens of a text by CTC alignment, and the share of the tokens that CTC supports.

The most probable CTC path of the tokens of a text (Graves et al. 2006, "Connectionist Temporal Classification", section
4.1) assigns frames to each token; torchaudio's `forced_align` finds it. A decoder writes fluent texts for noise too;
there CTC, which judges each frame separately, gives almost all of the tokens a probability near 0.
"""

from collections.abc import Sequence
from itertools import islice, pairwise

import torch
from torch import Tensor, nn
from torchaudio.functional import TokenSpan, forced_align, merge_tokens

from espnet_diverse.nets.whisper.byte_ctc import ByteCTC

_SUPPORTED = 0.05  # probability of a token that CTC supports


def align(log_probs: Tensor, ids: Sequence[int], ctc: nn.Module | None = None) -> list[TokenSpan] | None:
    """The frames of each token on the most probable CTC path of a text.

    Args:
        log_probs: Log probabilities of labels (T, V), label 0 the blank.
        ids: Tokens of the text, none of them blank.
        ctc: CTC module of the labels; None: the labels are the tokens.

    Returns:
        For each label its first frame `start`, the frame `end` after its last, and as `score` the mean of its
        probabilities there; None if there are too few frames: each label needs one, and a blank between equal labels.
    """
    if not ids:
        return []
    if isinstance(ctc, ByteCTC):
        return _align_spelled(log_probs, torch.tensor(ids, device=ctc.starts.device), ctc)
    if len(ids) + sum(one == other for one, other in pairwise(ids)) > len(log_probs):
        return None
    path, scores = forced_align(log_probs.float().cpu().unsqueeze(0), torch.tensor([ids]))
    return merge_tokens(path[0], scores[0].exp())


def _align_spelled(log_probs: Tensor, ids: Tensor, ctc: ByteCTC) -> list[TokenSpan] | None:
    """The frames of tokens from the first of their labels to the last, with the mean score of the labels."""
    labels, counts = ctc.spelled(ids)
    spans = align(log_probs, labels[labels > 0].tolist())
    if spans is None:
        return None
    token_spans, remaining, end = [], iter(spans), 0
    for token, count in zip(ids.tolist(), counts.tolist(), strict=True):
        group = list(islice(remaining, count)) or [TokenSpan(0, end, end, 0.0)]  # a token without bytes
        end = group[-1].end
        token_spans.append(TokenSpan(token, group[0].start, end, sum(span.score for span in group) / len(group)))
    return token_spans


def ctc_support(spans: Sequence[TokenSpan] | None) -> float:
    """Share of the tokens of a text, 0 to 1, to which CTC gives a probability of at least 5 % where it aligns them.

    Args:
        spans: Result of `align`; None, for a text that does not fit into its frames, has no support.
    """
    return 0.0 if spans is None else sum(span.score >= _SUPPORTED for span in spans) / max(1, len(spans))
