"""The equations of contrastive disentangled memory (CDT).

Chien and Li, "Contrastive Disentangled Learning for Memory-Augmented Transformer", Interspeech 2023, sections 3.1, 3.2:

    z_m ~ N(mu(x_m), Sigma(x_m))                                   compression of a token
    M~ = M_{t-1} (+) Z_t,   K = Gumbel-softmax(logits of M~),   M_t = K M~
    L_nce = -E log f(S_{t+k}, M_t) / sum_i f(S_i, M_t),   f = exp(cos / temperature)                            (3)
    L_constr = mean_m KL(N_m || N(0, I)) - mean_{m != j} min(KL(N_m || N_j), cap)                               (5)

The paper leaves the number of kept tokens open; here M_t has N slots, and some of them may be empty. As printed, (5)
has sums, no bound below, and pairs of a token with itself: variances would collapse and the loss diverge. Here the
log-variances are clamped, the divergence of a pair is capped, and both sums are means.

N Gaussians are diagonal: mean and log_var (..., N, D). Masks are bool, True = there is a token or a filled slot.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.functional.masks import masked_mean
from espnet_diverse.functional.variational import divergence_by_unit

#: Range of the log-variances, exp(-6) = 0.0025 and exp(2) = 7.4.
LOG_VARIANCES = (-6.0, 2.0)


def keep_score(logits: Tensor) -> Tensor:
    """Return the log odds of keeping: logits of dropping and keeping (..., 2) -> (...)."""
    return logits[..., 1] - logits[..., 0]


def choose_slots(valid: Tensor, slots: int, score: Tensor | None = None, update: str = "topk") -> tuple[Tensor, Tensor]:
    """Choose which of K entries, in the order of time, a memory of N slots keeps, and keep their order.

    Args:
        valid: Which entries are filled, (B, K).
        slots: N, at most K.
        score: Log odds of keeping, with the noise of the Gumbel-softmax if there is any, (B, K); "fifo" uses none.
        update: "topk": the N filled entries of highest score, of equal ones the last; "mask": the entries whose score
            is above 0, at most the last N of them; "fifo": the last N filled entries, as in Transformer-XL.

    Returns:
        Indices (B, N) of the entries in rising order, and which of them are filled, (B, N).

    Raises:
        ValueError: The update is unknown.
    """
    if update not in ("topk", "mask", "fifo"):
        raise ValueError(f"unknown update {update!r}; known: topk mask fifo")
    chosen = valid
    if score is not None and update == "mask":
        chosen = valid & (score > 0)
    time = torch.arange(valid.size(1), device=valid.device).to(torch.get_default_dtype()).expand_as(valid)
    rank = (score if score is not None and update == "topk" else time).masked_fill(~chosen, -math.inf)
    last = rank.flip(-1).sort(dim=-1, descending=True, stable=True).indices[..., :slots]  # `topk` leaves ties open
    picks = (rank.size(-1) - 1 - last).sort(dim=-1).values
    return picks, chosen.gather(1, picks)


def divergence_from_prior(mean: Tensor, log_var: Tensor) -> Tensor:
    """Compute KL(N(mu, Sigma) || N(0, I)) in nats, the first term of (5): mean and log_var (..., D) -> (...)."""
    return divergence_by_unit(mean, log_var).sum(-1)


def pairwise_divergence(mean: Tensor, log_var: Tensor) -> Tensor:
    """Compute KL(N_m || N_j) in nats, the second term of (5): mean and log_var (..., N, D) -> (..., N, N).

    It is computed as products of (N, D) matrices in float64: where variances are small, the divergence of like slots is
    a small difference of large sums, of which float32 leaves nothing. The result has the type of `mean`.
    """
    kind, mean, log_var = mean.dtype, mean.double(), log_var.double()
    mean = mean - mean.mean(-2, keepdim=True)  # smaller terms round less
    precision, total = torch.exp(-log_var), log_var.sum(-1)
    second = (log_var.exp() + mean.square()) @ precision.mT - 2 * mean @ (mean * precision).mT
    offset = (mean.square() * precision).sum(-1) + total - mean.size(-1)
    return ((second + offset.unsqueeze(-2) - total.unsqueeze(-1)) / 2).clamp(min=0).to(kind)


def compactness(mean: Tensor, log_var: Tensor, valid: Tensor) -> Tensor:
    """Compute the mean of `divergence_from_prior` over tokens: (..., L, D), valid (..., L) -> (...)."""
    return masked_mean(divergence_from_prior(mean, log_var), valid)


def spread(divergence: Tensor, valid: Tensor, cap: float = math.inf) -> Tensor:
    """Compute the mean of min(KL(N_m || N_j), cap) over ordered pairs of different slots; 0 without a pair.

    Args:
        divergence: `pairwise_divergence` of the slots, (..., N, N).
        valid: Filled slots, (..., N).
        cap: Greatest divergence that counts. Without one the loss (5) has no lower bound.

    Returns:
        (...), in nats.
    """
    itself = torch.eye(valid.size(-1), dtype=torch.bool, device=valid.device)
    pairs = valid.unsqueeze(-1) & valid.unsqueeze(-2) & ~itself
    return masked_mean(divergence.clamp(max=cap).flatten(-2), pairs.flatten(-2))


def info_nce(
    anchors: Tensor,
    candidates: Tensor,
    positive: Tensor,
    temperature: float,
    counted: Tensor | None = None,
    allowed: Tensor | None = None,
) -> Tensor:
    """Compute the InfoNCE loss (3) in nats with f = exp(cos / temperature), (); 0 if no anchor counts.

    Args:
        anchors: A pooled memories (A, D).
        candidates: C pooled segments (C, D).
        positive: Index of each anchor's positive candidate, (A,); all other candidates are its negatives.
        temperature: Divides the cosine.
        counted: Which anchors count, (A,); None is all.
        allowed: Which candidates there are, (C,); None is all. The positive of an anchor that counts must be allowed.
    """
    cosine = F.normalize(anchors, dim=-1) @ F.normalize(candidates, dim=-1).T
    scores = cosine / temperature
    if allowed is not None:
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    loss = F.cross_entropy(scores, positive, reduction="none")
    counted = torch.ones_like(loss, dtype=torch.bool) if counted is None else counted
    return masked_mean(loss.masked_fill(~counted, 0.0), counted)
