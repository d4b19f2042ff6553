"""Contrastive disentangled memory (CDT).

Chien and Li, "Contrastive Disentangled Learning for Memory-Augmented Transformer", Interspeech 2023, sections 3.1, 3.2:

    Z_t = samples of N(mu(x), Sigma(x)) for x in S_t                variational compression; mu(x) in evaluation
    M~ = M_{t-1} (+) Z_t
    s = W_g Attn(M~)                                                log odds of keeping, two layers, plus Gumbel noise
    M_t = the N entries of M~ with the highest s, in order of time, each times 1 + p - sg(p), p = sigmoid(s / tau)
    L_mem = L_InfoNCE + beta L_constr                               (3), (5); see `functional/memory.py`

L_InfoNCE predicts from the mean of M_t which segments follow, among all segments of the batch. L_constr makes tokens
compact (over S_t) and slots different (over the tokens that M_t holds). What the paper leaves open is an option or
described there: the number of slots is fixed; each slot carries the Gaussian of its token.
Cost: O(T (N + L)) time, 7 M^2 parameters for each memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from espnet_diverse.attention import AuxiliaryLoss, MultiHeadAttention, build_attention
from espnet_diverse.functional.masks import masked_mean
from espnet_diverse.functional.memory import (
    LOG_VARIANCES,
    choose_slots,
    compactness,
    info_nce,
    keep_score,
    pairwise_divergence,
    spread,
)
from espnet_diverse.functional.precision import in_full_precision
from espnet_diverse.functional.selection import logistic_noise, soft_sample, straight_through
from espnet_diverse.functional.variational import sample
from espnet_diverse.nets.memory.base import Memory, MemoryOptions, Slots
from espnet_diverse.option_checks import choice, must_be, number
from espnet_diverse.scope import current


@dataclass(frozen=True)
class CDTOptions(MemoryOptions):
    """Options of CDT besides `MemoryOptions`; `slots` and `beta` are the paper's, which is silent on the rest.

    Attributes:
        update: "topk": the slots are the N entries of highest score; "mask": the entries that the binary mask keeps, at
            most the last N; "fifo": the last N, without scores.
        tau: Temperature of the Gumbel-softmax.
        bptt_segments: Maximum number of segments that gradients pass back to: they stop after every
            `bptt_segments` + 1 segments. None never stops them, 0 stops them before every segment.
        temperature: Temperature of the cosine in (3).
        nce_steps: Number k of following segments that a memory predicts.
        beta: Weight of the constraint (5) in the loss of the memory.
        div_cap: Maximum divergence of two slots in (5), in nats; None is the model width.
        mem_weight: Weight of the loss of the memory.
    """

    update: str = choice("topk", "mask", "fifo")
    tau: float = number(1.0, above=0)
    bptt_segments: int | None = number(None, least=0)
    temperature: float = number(0.1, above=0)
    nce_steps: int = number(1, least=0)
    beta: float = number(1.1, least=0)
    div_cap: float | None = number(None, least=0)
    mem_weight: float = number(1.0, least=0)

    def __post_init__(self):
        super().__post_init__()
        if (self.bptt_segments or 0) % 1:
            raise must_be("bptt_segments", "a whole number", self.bptt_segments)


class CDTState(NamedTuple):
    """Slots and the Gaussians of their tokens.

    Attributes:
        values: Slots M (B, N, M).
        mean: Mean of each slot's token (B, N, M).
        log_var: Log-variance of each slot's token (B, N, M).
        valid: Filled slots (B, N).
    """

    values: Tensor
    mean: Tensor
    log_var: Tensor
    valid: Tensor


class CDTMemory(Memory):
    """Samples of a variational code of the inputs, kept if their scores are the highest."""

    Options = CDTOptions
    options: CDTOptions
    LOSSES = {"memory_nce": AuxiliaryLoss("mem_weight"), "memory_constraint": AuxiliaryLoss("mem_weight")}

    def __init__(self, size: int, heads: int, options: CDTOptions):
        super().__init__(size, heads, options)
        self.mean, self.log_var = nn.Linear(size, size), nn.Linear(size, size)
        if options.update != "fifo":
            self.attention = build_attention("softmax", size, heads)
            self.keep = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, 2))

    def begin(self, batch: int, like: Tensor) -> CDTState:
        """Return empty slots."""
        nothing = like.new_zeros(batch, self.options.slots, self.size)
        return CDTState(nothing, nothing, nothing, nothing.new_zeros(nothing.shape[:2], dtype=torch.bool))

    def slots(self, state: CDTState) -> Slots:
        """Return the slots M."""
        return Slots(state.values, state.valid)

    def encode(self, frames: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return frames (..., M) with mean and log-variance (..., M) of their Gaussians."""
        return frames, self.mean(frames), self.log_var(frames).clamp(*LOG_VARIANCES)

    def update(self, state: CDTState, code: Sequence[Tensor], valid: Tensor) -> CDTState:
        """Compress the segment, and keep N of the slots and the new entries together."""
        new = self.compress(code, valid)
        entries = CDTState(*(torch.cat(parts, 1) for parts in zip(state, new, strict=True)))
        options = self.options
        score = None if options.update == "fifo" else self.score(entries)
        if score is not None and self.training:
            score = score + logistic_noise(score)
        picks, filled = choose_slots(entries.valid, options.slots, score, options.update)
        values, mean, log_var = (x.gather(1, picks.unsqueeze(-1).expand(-1, -1, self.size)) for x in entries[:3])
        if score is not None:
            gate = straight_through(soft_sample(score, 0.0, options.tau), picks).to(values.dtype)
            values = values * gate.unsqueeze(-1)
        return CDTState(values, mean, log_var, filled)

    def compress(self, code: Sequence[Tensor], valid: Tensor) -> CDTState:
        """Return an entry for each frame (B, L, M): a sample of its Gaussian in training, its mean in evaluation."""
        _, mean, log_var = code
        z = sample(mean, log_var, torch.randn_like(mean)) if self.training else mean
        return CDTState(z, mean, log_var, valid)

    def score(self, entries: CDTState) -> Tensor:
        """Return the log odds of keeping each of K entries, (B, K)."""
        values = entries.values
        attended = self.attention(values, values, values, entries.valid.unsqueeze(1))
        return keep_score(in_full_precision(self.keep(attended)))

    def carried(self, state: CDTState, segments: int) -> CDTState:
        """Return the state, without gradients after every `bptt_segments` + 1 segments."""
        limit = self.options.bptt_segments
        return state if limit is None or segments % (limit + 1) else super().carried(state, segments)

    def losses(
        self, states: Sequence[CDTState], code: Sequence[Tensor], valid: Tensor, attention: MultiHeadAttention
    ) -> None:
        """Add the losses (3) and (5), and the divergence of slots before it is capped."""
        shared, options = current(), self.options
        segments, mean, log_var = map(in_full_precision, code)
        after = CDTState(*(in_full_precision(torch.stack(parts, 1)) for parts in zip(*states[1:], strict=True)))
        cap, used = self.size if options.div_cap is None else options.div_cap, valid.any(-1).flatten()
        with torch.autocast(segments.device.type, enabled=False):
            nce = self._contrast(after, segments, valid)
            divergence = pairwise_divergence(after.mean, after.log_var)
            constraint = compactness(mean, log_var, valid) - spread(divergence, after.valid, cap)
            constraint = masked_mean(constraint.flatten(), used)
            if shared.statistics:
                uncapped = spread(divergence.detach(), after.valid).flatten()
                shared.add_stat("memory_divergence", masked_mean(uncapped, used))
        shared.add_loss("memory_nce", options.mem_weight * nce)
        shared.add_loss("memory_constraint", options.mem_weight * options.beta * constraint)

    def _contrast(self, after: CDTState, segments: Tensor, valid: Tensor) -> Tensor:
        """Compute (3) for each memory and the k segments after it, the mean over existing ones."""
        batch, number = valid.shape[:2]
        pooled = masked_mean(segments, valid.unsqueeze(-1), -2).flatten(0, 1)  # (B S, M)
        anchors = masked_mean(after.values, after.valid.unsqueeze(-1), -2).flatten(0, 1)
        used, place = valid.any(-1), torch.arange(batch * number, device=valid.device)
        terms = []
        for step in range(1, min(self.options.nce_steps, number - 1) + 1):
            followed = torch.cat([used[:, step:], used.new_zeros(batch, step)], 1).flatten()
            positive = (place + step).clamp(max=len(place) - 1)
            terms.append(info_nce(anchors, pooled, positive, self.options.temperature, followed, used.flatten()))
        return torch.stack(terms).mean() if terms else 0.0 * anchors.sum()
