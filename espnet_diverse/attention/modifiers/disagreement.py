"""Disagreement of the heads of an attention as an auxiliary loss, for any core.

Li et al. 2018, "Multi-Head Attention with Disagreement Regularization", and Lin et al. 2017, "A Structured
Self-attentive Sentence Embedding"; equations in `functional/disagreement.py`. These are the baselines of the
repulsive-attention paper, which repels the heads in the optimizer instead (`training/repulsion.py`).

    loss = -weight D for D_output, D_subspace, D_position, and D of the weights of the projections
    loss = weight ||A A^T - I||_F^2 for Frobenius, the mean over queries

Each is the mean over samples that have tokens. Without the section, or with weight 0, nothing is computed.
Cost: O(B H T D) for output and subspace, O(B H Tq Tk) with the explicit weights for position, and O(B H^2 Tq Tk) for
Frobenius.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from espnet_diverse.attention.core import Core, Heads
from espnet_diverse.attention.inspection import AuxiliaryLoss, Monitored
from espnet_diverse.attention.token_masks import key_side_mask, query_side_mask
from espnet_diverse.functional.disagreement import disagreement, frobenius_of_queries, position_disagreement
from espnet_diverse.functional.masks import masked_mean
from espnet_diverse.functional.precision import in_full_precision
from espnet_diverse.option_checks import OptionError, Options, choice, number
from espnet_diverse.scope import current

_OF_WEIGHTS = ("position", "frobenius")


@dataclass(frozen=True)
class DisagreementOptions(Options):
    """Options of disagreement, the keys of the `disagreement:` section of an attention.

    Attributes:
        of: Feature of two heads that the loss makes different: their "output", values ("subspace"), attention weights
            ("position", or by their Frobenius norm, "frobenius"), or weights of their projections ("parameters").
        weight: Weight of the loss; the repulsive-attention paper prints none for this baseline.
        per: Whether the cosine of outputs or values is of a whole "sequence", or the mean over each "position".
    """

    of: str = choice("output", "subspace", "position", "frobenius", "parameters")
    weight: float = number(1.0, least=0)
    per: str = choice("sequence", "position")


def build_disagreement(options: DisagreementOptions | None, core: Core) -> "Disagreement | None":
    """Build the disagreement of an attention with a core.

    Args:
        options: Options of the loss; None is no disagreement.
        core: The core.

    Raises:
        ValueError: The core does not give the attention weights that should differ.
    """
    if options is None or options.weight == 0:
        return None
    if options.of in _OF_WEIGHTS and not core.supports.explicit_weights:
        raise OptionError(
            "of",
            f"disagreement of {options.of} is not possible, because attention {core.name!r} gives no weights; choose "
            "output, subspace or parameters",
        )
    return Disagreement(options, type(core).compress is not Core.compress)


class Disagreement(Monitored):
    """Adds the loss of an attention to the open scope.

    Args:
        options: Options of the loss.
        compressed: Whether the core shortens keys and values, see `Core.compress`.

    Attributes:
        of_weights: Whether it needs the attention weights.
    """

    LOSSES = {"disagreement": AuxiliaryLoss("disagreement.weight")}

    def __init__(self, options: DisagreementOptions, compressed: bool = False):
        super().__init__()
        self.options, self.compressed = options, compressed
        self.of_weights = options.of in _OF_WEIGHTS

    def add_loss(self, heads: Heads, context: Tensor, weights: Tensor | None, projections: Sequence[nn.Linear]) -> None:
        """Add the loss of one call.

        Args:
            heads: What the core attended with.
            context: Outputs of the heads (B, H, Tq, D).
            weights: Attention weights (B, H, Tq, Tk), if `of_weights`.
            projections: The projections of queries, keys and values.
        """
        with torch.autocast(context.device.type, enabled=False):
            penalty, tokens = self._penalty(heads, context, weights, projections)
            # A memory puts segments into the batch, of which some are padding alone.
            counted = None if tokens is None else tokens.any(-1).expand_as(penalty)
            loss = masked_mean(penalty, counted)
        current().add_loss("disagreement", self.options.weight * loss)

    def _penalty(
        self, heads: Heads, context: Tensor, weights: Tensor | None, projections: Sequence[nn.Linear]
    ) -> tuple[Tensor, Tensor | None]:
        """Return the loss of each sample, (B,), or of each projection, (3,), before weighting.

        With losses of samples, the second tensor marks the positions that are tokens, (1 or B, T), or is None (all).
        """
        of, per = self.options.of, self.options.per
        if of == "parameters":
            width = context.size(-1)
            return -disagreement(torch.stack([linear.weight.unflatten(0, (-1, width)) for linear in projections])), None
        if of == "subspace":
            keys = None if self.compressed else _tokens(key_side_mask(heads))  # no compressed value is padding alone
            return -disagreement(in_full_precision(heads.v), keys, per), keys
        queries = _tokens(query_side_mask(heads))
        if weights is None or of == "output":
            return -disagreement(in_full_precision(context), queries, per), queries
        if of == "frobenius":
            return frobenius_of_queries(in_full_precision(weights), queries), queries
        return -position_disagreement(in_full_precision(weights), queries), queries


def _tokens(mask: Tensor | None) -> Tensor | None:
    """(B, 1, T) -> (B, T)."""
    return None if mask is None else mask.squeeze(1)
