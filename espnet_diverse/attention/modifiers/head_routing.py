"""Heads routed by token: each token uses some of the heads, which a router selects by the token.

Jin et al. 2024, "MoH: Multi-Head Attention as Mixture-of-Head Attention"; equations in `functional/head_routing.py`.
The first heads are shared, used by every token, and the others are routed:

    context_h <- g_h context_h,    g = [2 a_1 g_shared, 2 a_2 g_routed],    [a_1, a_2] = softmax(W_a x)

where x is the input of the queries; without shared heads g is g_routed, and g_shared of one head is 1. A loss keeps the
heads equally used. All heads are computed: on dense hardware the method saves nothing, and acts as a gate for each
token.
Softmax-equivalent setting: all heads active, and routers of 0.
Cost: H + 2 products of width M a token.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from espnet_diverse.attention.core import Heads
from espnet_diverse.attention.inspection import AuxiliaryLoss, Monitored
from espnet_diverse.attention.token_masks import query_side_mask
from espnet_diverse.functional.head_routing import balance_loss, routed_gates, shared_gates
from espnet_diverse.functional.masks import masked_mean
from espnet_diverse.option_checks import Options, must_be, number
from espnet_diverse.scope import current


@dataclass(frozen=True)
class HeadRoutingOptions(Options):
    """Options of routed heads, the keys of the `routing:` section of an attention.

    Attributes:
        active: Number of routed heads that each token uses.
        shared: Number of heads that every token uses.
        balance: Weight of the loss that balances the use of the heads.
    """

    active: int = number(2, least=1)
    shared: int = number(1, least=0)
    balance: float = number(0.01, least=0)


class HeadRouting(Monitored):
    """Gates the heads of every token.

    Args:
        options: The options.
        size: Width M of the input of the queries.
        heads: Number of heads H.

    Raises:
        ValueError: There are fewer heads than the options ask for.
    """

    LOSSES = {"head_balance": AuxiliaryLoss("routing.balance")}
    always = True

    def __init__(self, options: HeadRoutingOptions, size: int, heads: int):
        super().__init__()
        routed = heads - options.shared
        if routed < options.active:
            allowed = f"at most the {heads} heads less shared {options.shared}"
            raise must_be("active", allowed, options.active)
        self.options = options
        self.router = nn.Linear(size, routed, bias=False)
        self.shared = nn.Linear(size, options.shared, bias=False) if options.shared > 1 else None
        self.parts = nn.Linear(size, 2, bias=False) if options.shared else None

    def forward(self, heads: Heads, context: Tensor, watched: Tensor) -> Tensor:
        """Gate the heads of the context (B, H, Tq, D) -> (B, H, Tq, D)."""
        logits = self.router(heads.query)
        gates, chosen = routed_gates(logits, self.options.active)
        if self.parts is not None:
            first, second = shared_gates(self.parts(heads.query)).split(1, dim=-1)
            shared = first if self.shared is None else first * shared_gates(self.shared(heads.query))
            gates = torch.cat((shared, second * gates), dim=-1)
        if self.options.balance and current().collect:
            tokens = query_side_mask(heads)
            valid = None if tokens is None else tokens.squeeze(1)
            loss = balance_loss(logits, chosen, valid)
            counted = None if valid is None else valid.any(-1).expand_as(loss)
            current().add_loss("head_balance", self.options.balance * masked_mean(loss, counted))
        return context * gates.transpose(1, 2).unsqueeze(-1).to(context.dtype)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        """Load all but a router of one shared head, without effect, which earlier versions had."""
        if self.shared is None:
            state_dict.pop(f"{prefix}shared.weight", None)
        super()._load_from_state_dict(state_dict, prefix, *args)
