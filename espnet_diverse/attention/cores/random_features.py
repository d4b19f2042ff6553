"""Random feature attention: a kernel of queries and keys, estimated by random features, instead of exp(q . k).

    context_i = phi(q_i) . sum_j phi(k_j) v_j^T / phi(q_i) . sum_j phi(k_j)                                       (1)

    positive:      phi(x) = exp(W x - |x|^2 / 2) / sqrt(R),  x = q D^(-1/4), k D^(-1/4)                           (2)
    trigonometric: phi(x) = [sin(W x), cos(W x)] / sqrt(R),  x = q / (sigma |q|), k / (sigma |k|)                 (3)

Positive (FAVOR+): Choromanski et al. 2021, "Rethinking Attention with Performers". Trigonometric: Peng et al. 2021,
"Random Feature Attention", which takes queries and keys of length 1; sigma is a constant here. W (R, D) has rows
~ N(0, I), orthogonal in sets of D with `orthogonal`. As R grows, (2) approaches softmax attention, and (3) softmax
attention of q / |q| and k / |k| with the scale 1 / sigma^2.

The maxima over features are subtracted before the exponential of (2) and cancel in (1). An estimate of (3) may be
negative; its denominator is raised to the least value that the true one can have, exp(-2 / sigma^2) for each key. There
are no attention weights, so that dropout acts on the values.

Softmax-equivalent setting: none.
Cost: O(T R D) time and O(T R) memory; O(T R (D + 64)) time in causal attention. A step of cached decoding takes O(R D),
because the cache holds only sums of all keys but the last ones.
"""

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.attention.core import Core, Heads, KVCache
from espnet_diverse.attention.supports import EVERYTHING
from espnet_diverse.attention.update_counter import in_backward
from espnet_diverse.functional.features import (
    causal_feature_attention,
    feature_attention,
    gaussian,
    scaled_positive,
    trigonometric,
)
from espnet_diverse.functional.precision import in_full_precision
from espnet_diverse.functional.running_sums import Sums, accumulate
from espnet_diverse.option_checks import choice, flag, number


@dataclass(frozen=True)
class RandomFeaturesOptions(Core.Options):
    """Options of random feature attention.

    Attributes:
        feature: The map: "positive" (2), or "trigonometric" (3).
        n_features: Number R of rows of W; (3) has two features for each.
        orthogonal: Whether the rows of W are orthogonal, which lowers the variance of the estimate.
        sigma: Width of the kernel of (3).
        redraw_interval: Number of batches of training after which W is drawn again; 0 keeps the first draw. With
            `accum_grad` an update has several batches.
    """

    feature: str = choice("positive", "trigonometric")
    n_features: int = number(256, least=1)
    orthogonal: bool = flag(True)
    sigma: float = number(1.0, above=0)
    redraw_interval: int = number(0, least=0)


class RandomFeatures(Core):
    """Attention with random features of a kernel.

    Attributes:
        bits: The draw of W, (R, D) float32, as int32. A mean of draws would have another distribution, and checkpoint
            averaging keeps the integers of the last checkpoint.
        batches: Batches of training since the draw, with `redraw_interval`.
    """

    Options = RandomFeaturesOptions
    options: RandomFeaturesOptions
    supports = replace(
        EVERYTHING,
        relative_position=False,
        explicit_weights=False,
        half_precision=False,
        head_patterns=False,
        weighted_values=False,
    )
    linear = True
    bits: Tensor
    batches: Tensor
    _known: tuple[int, int] | None = None  # `batches` and an entry of `bits`, whose reading would wait for a GPU

    def build(self) -> None:
        self.register_buffer("bits", self._draw(int(torch.randint(2**31, ()))))
        if self.options.redraw_interval:  # a resumed run continues to count
            self.register_buffer("batches", torch.zeros((), dtype=torch.int64))
            self._known = 0, int(self.bits[0, 0])
        if self.options.feature == "trigonometric":  # which normalises its inputs itself
            self.supports = replace(type(self).supports, dot_products=False)

    def _load_from_state_dict(self, *args):
        super()._load_from_state_dict(*args)
        self._known = None

    def cache(self, key: Tensor, k: Tensor, v: Tensor) -> KVCache:
        """Return features (B, H, T, R or 2 R) instead of keys, and the logarithms of their factors (B, H, T, 1)."""
        with torch.autocast(k.device.type, enabled=False):
            features, s = self._features(in_full_precision(k))
            return KVCache(features, v, s.unsqueeze(-1))

    def accumulate(self, cache: KVCache, seen: Tensor) -> Sums:
        """Sum the products of features and values, see `Core.accumulate`."""
        assert cache.features is not None  # `cache` makes them
        return accumulate(cache.k, cache.v, cache.features, seen, cache.sums)

    def forward(self, heads: Heads) -> tuple[Tensor, None]:
        """Compute the context (B, H, Tq, D)."""
        if self.training and self.options.redraw_interval and not in_backward():
            self._count_batch()
        q, _ = self._features(heads.q)
        if heads.key_features is None:
            k, s = self._features(heads.k)
        else:
            k, s = heads.k, heads.key_features.squeeze(-1)
        v, mask = F.dropout(heads.v, heads.dropout), heads.mask
        floor = self._floor(heads)
        if self.causal and mask is not None and mask.size(-2) > 1 and heads.same_positions():
            return causal_feature_attention(q, k, v, s, floor, mask.any(-2)), None
        return feature_attention(q, k, v, s, floor, mask, heads.sums), None

    def weight(self) -> Tensor:
        """Return W (R, D), float32."""
        if torch.jit.is_tracing():  # it does not know this view; W becomes a constant of the graph
            return torch.from_numpy(self.bits.cpu().numpy().view("float32"))
        return self.bits.view(torch.float32)

    def _features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, H, T, D) -> features (B, H, T, R or 2 R) and the logarithm of a factor that they lack, (B, H, T)."""
        w = self.weight().to(x.dtype)
        if self.options.feature == "trigonometric":
            return trigonometric(F.normalize(x, dim=-1), w / self.options.sigma), x.new_zeros(x.shape[:-1])
        return scaled_positive(x / x.size(-1) ** 0.25, w)

    def _floor(self, heads: Heads) -> float | Tensor:
        """Return the least denominator, a number or broadcastable to (B, 1, Tq, 1)."""
        tiny = torch.finfo(heads.v.dtype).tiny ** 0.5  # the inverse of its square is still a number
        if self.options.feature == "positive":
            return tiny
        time = heads.k.size(2)
        mask = torch.ones(1, 1, 1, time, dtype=torch.bool, device=heads.k.device) if heads.mask is None else heads.mask
        keys = mask.expand(-1, -1, -1, time).sum(-1, keepdim=True)
        if heads.sums is not None:
            keys = keys + heads.sums.chosen(heads.sums.keys.unsqueeze(1)).unsqueeze(-1)
        return (keys.clamp(min=1).to(heads.v.dtype) * math.exp(-2 / self.options.sigma**2)).clamp(min=tiny)

    def _count_batch(self) -> None:
        """Redraw W when it is due, with a seed from the last draw, so that all processes of a run draw the same W."""
        count, seed = self._known or (int(self.batches), int(self.bits[0, 0]))
        if count == self.options.redraw_interval:
            drawn = self._draw(abs(seed))
            self.bits.copy_(drawn.pin_memory() if self.bits.is_cuda else drawn, non_blocking=True)
            count, seed = 0, int(drawn[0, 0])
        self._known = count + 1, seed
        self.batches.fill_(count + 1)

    def _draw(self, seed: int) -> Tensor:
        option = self.options
        generator = torch.Generator().manual_seed(seed)
        return gaussian(option.n_features, self.width, option.orthogonal, generator).view(torch.int32)
