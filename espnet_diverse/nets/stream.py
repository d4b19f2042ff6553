"""A state that the layers of an encoder pass from one to the next, such as the packed rows of Luna or the first values.

ESPnet's encoders call `x, mask = layer(x, mask)`, in several loops, and their layers give the mask to the attention and
return it as it is. A hook before each layer wraps the mask in a `Stream`, which carries the state of the layer before;
the attention unwraps it and replaces the state; a hook behind the last layer gives the mask back. So the state is an
argument and a result, and neither the scope nor a module holds it between calls.
"""

from dataclasses import replace

from torch import nn

from espnet_diverse.attention import Stream
from espnet_diverse.errors import ConfigError
from espnet_diverse.upstream.layers import ContextualBlockConformerLayer, ContextualBlockEncoderLayer, MultiSequential


def connect_layers(layers: MultiSequential, attribute: str, net: str = "net", trimmed: bool = False) -> None:
    """Connect the attention cores of an encoder's layers, see `Core.connect`.

    Args:
        layers: The layers, with our attention as `attribute`.
        attribute: Name of the attention in a layer.
        net: Name of the net, for messages.
        trimmed: Whether the encoder drops frames between layers.

    Raises:
        ConfigError: The layers would hand on a state, and the encoder does more between them than to pass it on.
    """
    cores = [getattr(layer, attribute).core for layer in layers]
    if not cores or not cores[0].connect(cores):
        return
    refused = {
        "attends in blocks": isinstance(layers[0], ContextualBlockEncoderLayer | ContextualBlockConformerLayer),
        "skips layers (layer_drop_rate)": layers.layer_drop_rate > 0,
        "drops frames between layers (ctc_trim)": trimmed,
    }
    for fault in (words for words, found in refused.items() if found):
        raise ConfigError(
            f"{net}: the layers of attention {cores[0].name!r} hand on a state, and this encoder {fault}; "
            "leave that out, or choose another attention (luna with contextual: false hands on none)"
        )
    for layer in layers:
        layer.register_forward_pre_hook(_give)
    layers[-1].register_forward_hook(return_mask)


def _give(_layer: nn.Module, args: tuple) -> tuple:
    """Give the layer the state of the one before, in a copy: a layer that is computed again gets the same state."""
    x, mask, *rest = args
    return (x, replace(mask) if isinstance(mask, Stream) else Stream(mask), *rest)


def return_mask(_layer: nn.Module, _args: tuple, output: tuple) -> tuple:
    """Replace the stream that the last layer returns by its mask: a forward hook."""
    x, stream, *rest = output
    return (x, stream.mask, *rest)
