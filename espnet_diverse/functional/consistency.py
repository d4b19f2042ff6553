"""Consistency of the predictions of two passes of the same input, which differ by dropout or augmentation.

For the distributions p and q of the two passes at a position, both losses have the same value,

    1/2 [KL(p || q) + KL(q || p)] = 1/2 sum_k (p_k - q_k) (log p_k - log q_k)                    (1)

R-Drop (Liang, Wu et al. 2021, "R-Drop: Regularized Dropout for Neural Networks") differentiates both distributions of
either divergence. CR-CTC (Yao et al. 2025, "CR-CTC: Consistency regularization on CTC for improved speech recognition")
takes the distribution that a divergence is from for a constant,

    1/2 [KL(sg(q) || p) + KL(sg(p) || q)]                                                        (2)

whose gradient is 1/2 (p - q) in the scores of p and 1/2 (q - p) in those of q. It is that of (1) with a constant
p - q, because p - q sums to zero. In this form equal predictions give exactly 0, and rounding enters squared.
"""

from torch import Tensor

from espnet_diverse.functional.precision import in_full_precision


def consistency(first: Tensor, second: Tensor, valid: Tensor, constant_targets: bool = False) -> Tensor:
    """Compute (1), or (2), summed over the valid positions of each sequence.

    Args:
        first: Scores of one pass, (B, T, V).
        second: Scores of the other pass, (B, T, V).
        valid: Which positions count, (B, T) bool.
        constant_targets: Whether each pass is pulled towards the other as a constant, as in (2).

    Returns:
        (B,), at least 0 to rounding; float32 if the scores are of half precision, otherwise of their type.
    """
    log_p, log_q = (in_full_precision(scores).log_softmax(-1) for scores in (first, second))
    apart = log_p.exp() - log_q.exp()
    if constant_targets:
        apart = apart.detach()
    divergence = (apart * (log_p - log_q)).sum(-1) / 2
    return divergence.masked_fill(~valid, 0.0).sum(-1)
