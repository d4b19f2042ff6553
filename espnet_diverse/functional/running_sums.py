"""Sums over keys, which a search reads and adds to instead of the keys: the cost does not depend on their number.

    State = sum_j exp(s_j - m) phi_j [v_j, 1]^T,    m = max_j s_j                             (1)

over the keys j of a prefix, with features phi_j and logarithms s_j of their factors: Katharopoulos et al. 2020,
"Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention", section 3.4. A factor may belong to all
features of a key, or each feature may have its own. Sums of more keys are

    State' = exp(m - m') State + sum_j exp(s_j - m') phi_j [v_j, 1]^T,    m' = max(m, max_j s_j)   (2)
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Sums(NamedTuple):
    """Sums over the keys of P prefixes, for the queries of W hypotheses.

    Attributes:
        state: State of (1), (B, H, P, R, D + 1).
        top: m of (1), (B, H, P, 1 or R).
        keys: Number of keys (B or 1, P).
        of: Prefix of each hypothesis (B, W); None if P is 1.
    """

    state: Tensor
    top: Tensor
    keys: Tensor
    of: Tensor | None = None

    def keep(self, rows: Tensor) -> "Sums":
        """Keep the sequences `rows` of the batch."""
        keys = self.keys if len(self.keys) == 1 else self.keys[rows]
        return Sums(self.state[rows], self.top[rows], keys, None if self.of is None else self.of[rows])

    def extend(self, parents: Tensor) -> "Sums":
        """Let the hypotheses be extensions of the hypotheses `parents` (B, W)."""
        return self if self.of is None else self._replace(of=self.of.gather(1, parents))

    def chosen(self, x: Tensor) -> Tensor:
        """Select for each hypothesis the part of x (B, H, P, ...) of its prefix -> (B, H, W or 1, ...)."""
        if self.of is None:
            return x
        index = self.of.view(len(self.of), 1, -1, *[1] * (x.dim() - 3))
        return x.gather(2, index.expand(-1, x.size(1), -1, *x.shape[3:]))

    def read(self, q: Tensor) -> Tensor:
        """Multiply features of queries (B, H, W, R) with the state of their prefixes -> (B, H, W, D + 1)."""
        if self.of is None:
            return q @ self.state.squeeze(2)
        products = q.unsqueeze(2) @ self.state  # of each query with each state: these are few, and copies would be long
        index = self.of.view(len(q), 1, 1, -1, 1)
        return products.gather(2, index.expand(-1, q.size(1), -1, -1, products.size(-1))).squeeze(2)


def with_one(v: Tensor) -> Tensor:
    """Append a column of ones, whose sum is a denominator."""
    return F.pad(v, (0, 1), value=1.0)


def accumulate(features: Tensor | None, v: Tensor, s: Tensor, seen: Tensor, before: Sums | None = None) -> Sums:
    """Compute (1), or (2) where there are sums of earlier keys.

    Args:
        features: Features of the keys (B, H, N, R), or None where all are 1.
        v: Values (B, H, N, D).
        s: Logarithms of the factors, (B, H, N, R), or (B, H, N, 1) for all features.
        seen: Which keys belong to each prefix, bool (B or 1, P, N).
        before: Sums of earlier keys, in which `of` (B, P) is the earlier prefix that each prefix extends.

    Returns:
        Sums of P prefixes, with `of` None.
    """
    masked = ~seen.unsqueeze(1).unsqueeze(-1)  # (B, 1, P, N, 1)
    s, values = s.unsqueeze(2), with_one(v).unsqueeze(2)
    top = s.masked_fill(masked, torch.finfo(s.dtype).min / 2).amax(-2)
    if before is not None:
        top = torch.maximum(top, before.chosen(before.top))
    factors = (s - top.unsqueeze(-2)).masked_fill(masked, -torch.inf).exp()  # (B, H, P, N, 1 or R)
    if features is None:
        state = factors.transpose(-2, -1) @ values
    else:
        state = features.transpose(-2, -1).unsqueeze(2) @ (factors * values)
    count = seen.sum(-1)
    if before is not None:
        fade = (before.chosen(before.top) - top).exp().unsqueeze(-1)
        state = state + fade * before.chosen(before.state)
        count = count + (before.keys if before.of is None else before.keys.gather(1, before.of))
    return Sums(state, top, count)
