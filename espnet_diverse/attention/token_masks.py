"""Masks of the positions of an attention that are tokens, and not padding."""

from torch import Tensor

from espnet_diverse.attention.core import Heads
from espnet_diverse.scope import current


def key_side_mask(heads: Heads) -> Tensor | None:
    """Return which keys are tokens, (B, 1, Tk), or None (all). A key that no query may attend to is padding."""
    return None if heads.mask is None else current().once(_any_query, heads.mask)


def query_side_mask(heads: Heads) -> Tensor | None:
    """Return which queries are tokens, (B, 1, Tq), or None (all).

    In self-attention the queries are the keys. The mask of cross-attention does not show which queries are padding;
    `Scope.query_mask` does.
    """
    if heads.query is heads.key:
        return key_side_mask(heads)
    mask = current().query_mask
    return None if mask is None else current().once(_for_heads, mask)


def _any_query(mask: Tensor) -> Tensor:
    return mask.any(dim=-2)


def _for_heads(mask: Tensor) -> Tensor:
    return mask.unsqueeze(1)
