"""ESPnet's encoders with a choice of attention, adapters and gated subsampling.

Each class is ESPnet's encoder; after its constructor has run, the self-attention of every layer is replaced by ours.
Without our options the attention is softmax, and output and state dict equal ESPnet's.
"""

from collections.abc import Callable
from typing import Any

import torch
from espnet2.asr.encoder.branchformer_encoder import BranchformerEncoder
from espnet2.asr.encoder.conformer_encoder import ConformerEncoder
from espnet2.asr.encoder.contextual_block_conformer_encoder import ContextualBlockConformerEncoder
from espnet2.asr.encoder.contextual_block_transformer_encoder import ContextualBlockTransformerEncoder
from espnet2.asr.encoder.e_branchformer_ctc_encoder import EBranchformerCTCEncoder
from espnet2.asr.encoder.e_branchformer_encoder import EBranchformerEncoder
from espnet2.asr.encoder.transformer_encoder import TransformerEncoder
from torch import Tensor

from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.nets.adapters.bottleneck import insert_adapters
from espnet_diverse.nets.encoder_layer import replace_layers
from espnet_diverse.nets.memory import Carried, MemoryStream, add_memory
from espnet_diverse.nets.no_position import remove_absolute_position
from espnet_diverse.nets.recomputation import check_recomputed
from espnet_diverse.nets.replace_attention import replace_attention, signature_with
from espnet_diverse.nets.stream import connect_layers
from espnet_diverse.nets.subsampling import GATED, ChunkedConvSubsampling, GatedConvSubsampling
from espnet_diverse.upstream.layers import (
    Conv2dSubsampling,
    PositionwiseFeedForward,
    TooShortUttError,
    check_short_utt,
)

_MASKED = (TransformerEncoder, ConformerEncoder, EBranchformerEncoder)
"""ESPnet's encoders whose `forward` takes a mask of padding as its fourth argument."""
_OURS = {"attention": None, "adapter": None, "conv_channels": 1024}


class _WithAttention:
    """Mixin that precedes an encoder of ESPnet in the bases: builds it, then replaces the attention of its layers.

    Args:
        input_size: Number of features of a frame.
        args: Further positional arguments of ESPnet's encoder.
        attention: `{"core": name, **options of the core}`; None is softmax.
        adapter: `AdapterOptions` by name; None adds no adapters.
        conv_channels: Channels of the first convolution with `input_layer: conv1d4_glu`.
        memory: `kind` and options of a memory, see `nets/memory`; None attends to the whole sequence.
        options: Options of ESPnet's encoder; `input_layer` may also be conv1d4_glu, see `nets/subsampling.py`.

    Raises:
        ConfigError: An option is unknown or has a value that is not allowed, the core does not support the attention of
            this encoder, or `gradient_checkpoint_layers` has a layer that cannot be recomputed.

    Attributes:
        state_rows: Number of rows before the frames of the output, for the decoder; see `nets/stream.py`.
    """

    attribute = "self_attn"
    #: Values of options that ESPnet's encoder does not have.
    own_values = {"input_layer": (GATED,)}
    encoders: Any  # as ESPnet's class makes them
    embed: Any
    output_size: Callable[[], int]

    def __init__(
        self,
        input_size: int,
        *args,
        attention: dict | None = None,
        adapter: dict | None = None,
        conv_channels: int = 1024,
        memory: dict | None = None,
        **options,
    ):
        gated = options.get("input_layer") == GATED
        base_options = options | {"input_layer": "conv2d"} if gated else options
        super().__init__(input_size, *args, **base_options)  # type: ignore[call-arg]  # of ESPnet's class in the bases
        if gated:
            self.embed = self._gated_subsampling(input_size, conv_channels)
        elif type(getattr(self, "embed", None)) is Conv2dSubsampling:
            self.embed = ChunkedConvSubsampling(self.embed)
        remove_absolute_position(self, attention)  # type: ignore[arg-type]  # a mixin: a module
        replace_layers(self.encoders)
        net, self.by_segments = type(self).__name__, memory is not None
        if memory is None:
            replace_attention(self.encoders, self.attribute, attention, net=net, length=self._attention_length())
        else:
            add_memory(self.encoders, attention, memory, net=net)
        insert_adapters(self.encoders, adapter)  # of frames, not of the rows that connected layers hand over
        if memory is None:
            connect_layers(self.encoders, self.attribute, net, getattr(self, "ctc_trim", False))
        elif getattr(self, "ctc_trim", False):
            raise ConfigError(f"{net}: ctc_trim drops frames of the segments that a memory has seen; leave out either")
        self.state_rows: int = self.encoders[0].get_submodule(self.attribute).core.state_rows
        check_recomputed(self.encoders, getattr(self, "gradient_checkpoint_layers", ()), net)

    def forward(self, xs_pad: Tensor, ilens: Tensor, *args, **options):
        """xs_pad (B, T, features), ilens (B,) -> ESPnet's result: output (B, T4, M), lengths (B,), None.

        The mask of padding is made here. ESPnet's function takes T^2 bytes for it, 130 GB for an hour of audio; only a
        tracer needs that form.
        """
        if isinstance(self, _MASKED) and len(args) < 2 and not torch.jit.is_tracing():
            options.setdefault("masks", ~lengths_to_mask(ilens, xs_pad.size(1)).to(xs_pad.device))
        return super().forward(xs_pad, ilens, *args, **options)  # type: ignore[misc]  # of ESPnet's class in the bases

    def _attention_length(self) -> int | None:
        """Return the greatest number of positions of a call of the attention, or None if it depends on the input."""
        return None

    def _gated_subsampling(self, input_size: int, channels: int) -> GatedConvSubsampling:
        if not isinstance(self.embed, Conv2dSubsampling):
            raise ConfigError(
                f"input_layer {GATED} does not fit {type(self).__name__}; choose conv2d or another encoder"
            )
        return GatedConvSubsampling(input_size, self.output_size(), channels, self.embed.pos_enc)


class DiverseTransformerEncoder(_WithAttention, TransformerEncoder):
    """ESPnet's transformer encoder; its attention is bidirectional with absolute position.

    With a memory it attends by segments, with positions in the whole sequence.
    """

    __signature__ = signature_with(TransformerEncoder, **_OURS, memory=None)

    def encode_segments(
        self, x: Tensor, carried: Carried | None = None, valid: Tensor | None = None, last: bool = False
    ) -> tuple[Tensor, Carried]:
        """Encode the next part of a sequence, given the state after the parts before; for an encoder with memory.

        In evaluation the outputs of all parts, one after the other, equal the output for the whole sequence.

        Args:
            x: Frames after subsampling, with their positions in the whole sequence, (B, T, M).
            carried: State that the call for the previous part returned; None begins a sequence.
            valid: Which frames are not padding, (B, T); None is all.
            last: Whether this is the last part. The length of any other is a multiple of a segment's.

        Returns:
            Output (B, T, M), and the state for the next part; its size does not depend on the length.

        Raises:
            ValueError: The encoder has no memory, its layers look beyond a frame, or a part ends inside a segment.
        """
        if not self.by_segments:
            raise ValueError("the encoder has no memory to carry; give encoder_conf.memory, or encode it all at once")
        if not isinstance(self.encoders[0].feed_forward, PositionwiseFeedForward):
            raise ValueError("a convolution between layers sees beyond a part; set positionwise_layer_type: linear")
        length = self.encoders[0].self_attn.segment
        if not last and x.size(1) % length:
            raise ValueError(f"{x.size(1)} frames end inside a segment of {length}; give a multiple, or last=True")
        mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if valid is None else valid
        stream = MemoryStream(mask.unsqueeze(1), carried)
        for layer in self.encoders:
            x, _ = layer(x, stream)
        return (self.after_norm(x) if self.normalize_before else x), stream.carried


class DiverseConformerEncoder(_WithAttention, ConformerEncoder):
    """ESPnet's conformer encoder; its attention has relative position.

    With a memory it attends by segments, with absolute position. Its convolutions go over the whole sequence: near an
    end of a segment they read frames of the next one, so that it cannot be encoded part by part.
    """

    __signature__ = signature_with(ConformerEncoder, **_OURS, memory=None)


class DiverseBranchformerEncoder(_WithAttention, BranchformerEncoder):
    """ESPnet's Branchformer encoder; its attention has relative position."""

    __signature__ = signature_with(BranchformerEncoder, **_OURS)
    attribute = "attn"

    def forward(self, xs_pad: Tensor, ilens: Tensor, prev_states: Tensor | None = None):
        """xs_pad (B, T, features), ilens (B,) -> ESPnet's result, see the other encoders.

        ESPnet's function takes no mask of padding, and makes one with T^2 bytes.

        Raises:
            TooShortUttError: There are too few frames for the subsampling.
        """
        short, least = check_short_utt(self.embed, xs_pad.size(1))
        if short:
            message = f"{xs_pad.size(1)} frames are too short for subsampling, which needs {least}"
            raise TooShortUttError(message, xs_pad.size(1), least)
        mask = lengths_to_mask(ilens, xs_pad.size(1)).unsqueeze(1).to(xs_pad.device)
        if isinstance(self.embed, torch.nn.Sequential | torch.nn.Linear):
            xs_pad = self.embed(xs_pad)
        elif self.embed is not None:
            xs_pad, mask = self.embed(xs_pad, mask)
        xs_pad, mask = self.encoders(xs_pad, mask)
        output = xs_pad[0] if isinstance(xs_pad, tuple) else xs_pad  # without the positions
        return self.after_norm(output), mask.squeeze(1).sum(1), None


class DiverseEBranchformerEncoder(_WithAttention, EBranchformerEncoder):
    """ESPnet's E-Branchformer encoder; its attention has relative position."""

    __signature__ = signature_with(EBranchformerEncoder, **_OURS)
    attribute = "attn"


class DiverseEBranchformerCTCEncoder(_WithAttention, EBranchformerCTCEncoder):
    """ESPnet's E-Branchformer encoder of OWSM-CTC; its cross-attention, which reads a prompt, stays ESPnet's."""

    __signature__ = signature_with(EBranchformerCTCEncoder, **_OURS)
    attribute = "attn"

    def _gated_subsampling(self, input_size: int, channels: int) -> GatedConvSubsampling:
        raise ConfigError(
            f"input_layer {GATED} does not fit {type(self).__name__}, which reads a prompt; choose conv2d"
        )


class _InBlocks(_WithAttention):
    block_size: int

    def _attention_length(self) -> int | None:
        return self.block_size + 2 if self.block_size > 0 else None  # frames of a block, and two context vectors


class DiverseContextualBlockTransformerEncoder(_InBlocks, ContextualBlockTransformerEncoder):
    """ESPnet's streaming transformer encoder, which attends within blocks that carry a context vector."""

    __signature__ = signature_with(ContextualBlockTransformerEncoder, **_OURS)


class DiverseContextualBlockConformerEncoder(_InBlocks, ContextualBlockConformerEncoder):
    """ESPnet's streaming conformer encoder, which attends within blocks with absolute position."""

    __signature__ = signature_with(ContextualBlockConformerEncoder, **_OURS)
