"""Self-attentive pooling: a sentence as M weighted means of its positions, one for each head.

Lin et al. 2017, "A Structured Self-attentive Sentence Embedding", section 2.1; in the letters of An et al. 2020,
"Repulsive Attention: Rethinking Multi-head Attention as Bayesian Inference", appendix A, for hidden states H (T, D):

    A = softmax(V^T tanh(W H^T)),  Z = A H                                                                  (9)

W (E, D) is shared by the heads; column v_i of V (E, M) belongs to head i.
"""

import torch
from torch import Tensor


def pooling_weights(h: Tensor, w: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute A of (9).

    Args:
        h: Hidden states H, (..., T, D).
        w: W, (E, D).
        v: V^T, (M, E).
        mask: Valid positions, (..., T) bool, True = valid; None is all.

    Returns:
        Weights (..., M, T); the rows of a sample sum to 1, or are 0 if it has no valid position.
    """
    scores = (torch.tanh(h @ w.transpose(0, 1)) @ v.transpose(0, 1)).transpose(-2, -1)
    if mask is None:
        return scores.softmax(-1)
    valid = mask.unsqueeze(-2)
    # The lowest number, not -inf: the softmax of a row of -inf has gradients that are not numbers.
    return scores.masked_fill(~valid, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(~valid, 0.0)
