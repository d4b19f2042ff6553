"""A state that the layers of a net pass from one to the next, such as the packed rows of Luna or the first values.

ESPnet's encoders call `x, mask = layer(x, mask)`, in several loops, and their layers give the mask to the attention and
return it unchanged. A hook before each layer wraps the mask in a `Stream`, which carries the state of the layer before;
the attention unwraps it and replaces the state; a hook after the last layer gives the mask back. So the state is an
argument and a result, and neither the scope nor a module holds it between calls.

One tensor passes from encoder to decoder, in all searches. A state that goes there too is therefore the first rows of
the encoder's output, and counted in its length; the layers of the decoder then pass it on with the mask of the source.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

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
        ConfigError: The layers would hand on a state, and the encoder does more between them than pass it on.
    """
    cores = [getattr(layer, attribute).core for layer in layers]
    if not cores or not cores[0].connect(cores):
        return
    refused = {
        "attends in blocks": isinstance(layers[0], ContextualBlockEncoderLayer | ContextualBlockConformerLayer),
        "skips layers (layer_drop_rate)": layers.layer_drop_rate > 0,
        "drops frames between layers (ctc_trim)": trimmed,
    }
    if (fault := next((words for words, applies in refused.items() if applies), None)) is not None:
        raise ConfigError(
            f"{net}: the layers of attention {cores[0].name!r} hand on a state, and this encoder {fault}; "
            "leave that out, or choose another attention (luna with contextual: false hands on none)"
        )
    for layer in layers:
        layer.register_forward_pre_hook(partial(_give, place=1))
    layers[-1].register_forward_hook(_hand_over if cores[0].state_rows else return_mask)


def connect_to_source(layers: Sequence[nn.Module]) -> int:
    """Connect the cross-attention of a decoder's layers where it starts from a state that the encoder hands over.

    Returns:
        Number of rows of the state, 0 where there is none.
    """
    cores: list[Any] = [layer.get_submodule("src_attn.core") for layer in layers]
    if cores[0].state_rows and cores[0].connect(cores):
        for layer in layers:
            layer.register_forward_pre_hook(partial(_give, place=3))
    return cores[0].state_rows


def check_handed_over(model: nn.Module, possible: bool) -> None:
    """Check that the decoder of a model takes the rows that its encoder hands over.

    Args:
        model: The model, whose nets have the number of rows as `state_rows`.
        possible: Whether only the decoder reads the encoder's output.

    Raises:
        ConfigError: It does not.
    """
    rows = [getattr(getattr(model, part, None), "state_rows", 0) for part in ("encoder", "decoder")]
    if not any(rows):
        return
    if not possible:
        raise ConfigError("handed_over is for translation of text by an attention decoder; leave it out")
    if rows[0] != rows[1]:
        raise ConfigError(
            f"the encoder hands over {rows[0]} rows, and cross-attention of the decoder takes {rows[1]}; give luna "
            "with handed_over and one length to encoder_conf.attention and decoder_conf.cross_attention, or to neither"
        )


def _give(_layer: nn.Module, args: tuple, place: int) -> tuple:
    """Give the layer the state of the one before, in a copy, so that a recomputed layer gets the same state.

    The mask is the argument at `place`.
    """
    mask = args[place]
    return (*args[:place], replace(mask) if isinstance(mask, Stream) else Stream(mask), *args[place + 1 :])


def _hand_over(_layer: nn.Module, _args: tuple, output: tuple[Tensor, Stream]) -> tuple[Tensor, Tensor | None]:
    """Put the state before the frames that the last layer returns, and return its mask: a forward hook."""
    x, stream = output
    state, mask = cast(Tensor, stream.state), stream.mask
    x = torch.cat([state, x], 1)
    return x, None if mask is None else torch.cat([mask.new_ones(*mask.shape[:-1], state.size(1)), mask], -1)


def return_mask(_layer: nn.Module, _args: tuple, output: tuple) -> tuple:
    """Replace the stream that the last layer returns by its mask: a forward hook."""
    x, stream, *rest = output
    return (x, stream.mask, *rest)
