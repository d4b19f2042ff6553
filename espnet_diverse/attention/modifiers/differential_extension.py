"""Differential extension (DEX) of any core: a learned map of each head's context, subtracted from it.

Kong et al. 2025, "Understanding Differential Transformer Unchains Pretrained Self-Attentions": a way to give a trained
attention what differential attention has, weights that may be negative and heads that are less alike, without a second
map of weights. `adopt --config modifiers/dex` adds it to a trained model, `fine-tune` trains it. With the context of
each head,

    context' = context - lambda(t) context W_D,    lambda(t) = (1 - alpha) (t / T) lambda_init + alpha lambda_learned

where alpha = min(1, t / T) after t updates. W_D (D, D) and lambda_learned belong to the layer and start from 0. At
t = 0 nothing changes; then lambda_init moves W_D away from 0, which lambda_learned could not.

The paper, which has no public code, extends some heads, selected by a pass over data; here all are extended.
lambda_init is 0.8 - 0.6 exp(-0.3 (l - 1)) in layer l = 1, 2, ... of a net, or a constant.

Softmax-equivalent setting: a trained model before the first update.
Cost: one product of width D for each head and token; D^2 + 1 parameters.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from espnet_diverse.attention.core import Heads
from espnet_diverse.attention.modifiers.lambda_init import LambdaInit
from espnet_diverse.attention.update_counter import UpdateCounter
from espnet_diverse.functional.differential import extended_context, extension_weight
from espnet_diverse.option_checks import Options, number


@dataclass(frozen=True)
class DifferentialExtensionOptions(Options):
    """Options of the differential extension, the keys of the `dex:` section of an attention.

    Attributes:
        lambda_init: Number lambda_init in all layers, which begins the training of W_D; by default it depends on the
            layer.
        steps: Number T of updates in which lambda_learned takes over, or a share of the run.
    """

    lambda_init: float | None = number(None, above=0)
    steps: float = number(0.5, above=0)


class DifferentialExtension(nn.Module):
    """Subtracts a learned map of the context of each head.

    Args:
        options: The options.
        width: Width D of a head.
    """

    always = True

    def __init__(self, options: DifferentialExtensionOptions, width: int):
        super().__init__()
        self.options = options
        self.weight = nn.Parameter(torch.empty(width, width))
        self.learned = nn.Parameter(torch.empty(()))
        self.lambda_init = LambdaInit(options.lambda_init)
        self.updates = UpdateCounter(options.steps)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set W_D and lambda_learned to 0."""
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.learned)

    espnet_initialization_fn = reset_parameters  # ESPnet's `init` redraws all parameters, then calls this

    def forward(self, heads: Heads, context: Tensor, watched: Tensor) -> Tensor:
        """Extend the context (B, H, Tq, D) -> (B, H, Tq, D)."""
        progress = self.updates(self.weight) / self.updates.length(self.options.steps)
        factor = extension_weight(progress, self.lambda_init.value, self.learned)
        return extended_context(context, self.weight.to(context.dtype), factor.to(context.dtype))
