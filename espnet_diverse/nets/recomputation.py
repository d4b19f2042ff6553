"""ESPnet's `gradient_checkpoint_layers`: layers that are recomputed in the backward pass, which saves memory.

The backward pass runs when the scope of the forward pass is closed. A layer that reads conditions from the scope, or
adds losses to it, would not compute the same again.
"""

from collections.abc import Collection, Iterable

from torch import nn

from espnet_diverse.attention.inspection import Monitored
from espnet_diverse.attention.selection.head_selection import HeadSelection
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.condition_rows import ConditionRows


def check_recomputed(layers: Iterable[nn.Module], numbers: Collection[int], net: str) -> None:
    """Check that layers can be recomputed.

    Args:
        layers: All layers of a net.
        numbers: Which of them are recomputed, from 1 on, as in `gradient_checkpoint_layers`.
        net: Name of the net, for messages.

    Raises:
        ConfigError: One of them depends on conditions, or has auxiliary losses.
    """
    for number, layer in enumerate(layers, start=1):
        for name, module in layer.named_modules() if number in numbers else ():
            if isinstance(module, HeadSelection | ConditionRows):
                reason = "depends on the language or domain of a sample"
            elif isinstance(module, Monitored) and module.LOSSES:
                reason = "has auxiliary losses"
            else:
                continue
            raise ConfigError(
                f"{net}: layer {number} of gradient_checkpoint_layers cannot be computed again in the backward pass, "
                f"because its {name} {reason}; leave the layer out"
            )
