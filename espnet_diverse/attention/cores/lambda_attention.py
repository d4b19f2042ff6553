"""Lambda attention: keys are normalised over positions, and queries read a linear map made of keys and values.

Bello 2021, "LambdaNetworks: Modeling Long-Range Interactions without Attention", content lambdas, with the scale of
softmax attention.

    lambda = softmax_j(K / sqrt(D))^T V,    context = Q lambda                                (1)

The softmax of each channel of the keys goes over positions, padding excluded; queries are not normalised. In causal
attention it goes, for each query, over the positions up to its own; the causal form is exact, see
`functional/lambda_attention.py`. There are no attention weights, so that dropout acts on the values.

Softmax-equivalent setting: none.
Cost: O(T D^2) time and O(T D) memory; O(T D (D + 16)) in causal attention. A step of cached decoding takes O(D^2),
because the cache holds only sums of all keys but the last ones.
"""

import math
from dataclasses import replace

import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.attention.core import Core, Heads, KVCache
from espnet_diverse.attention.supports import EVERYTHING
from espnet_diverse.functional.lambda_attention import (
    causal_lambda_attention,
    lambda_attention,
    masked_lambda_attention,
)
from espnet_diverse.functional.running_sums import Sums, accumulate


class LambdaAttention(Core):
    """Content lambdas. It has no options and no parameters."""

    supports = replace(
        EVERYTHING,
        relative_position=False,
        explicit_weights=False,
        half_precision=False,
        head_patterns=False,
        weighted_values=False,
        dot_products=False,
    )
    linear = True

    def accumulate(self, cache: KVCache, seen: Tensor) -> Sums:
        """Sum the exponentials of the keys and their products with the values, see `Core.accumulate`."""
        return accumulate(None, cache.v, cache.k / math.sqrt(self.width), seen, cache.sums)

    def forward(self, heads: Heads) -> tuple[Tensor, None]:
        """Compute the context (B, H, Tq, D)."""
        v = F.dropout(heads.v, heads.dropout)
        if heads.sums is not None:
            return masked_lambda_attention(heads.q, heads.k, v, heads.mask, heads.sums), None
        if heads.mask is None or heads.mask.size(-2) == 1:
            return lambda_attention(heads.q, heads.k, v, heads.mask), None
        if self.causal and heads.same_positions():
            return causal_lambda_attention(heads.q, heads.k, v, heads.mask.any(-2)), None
        return masked_lambda_attention(heads.q, heads.k, v, heads.mask), None
