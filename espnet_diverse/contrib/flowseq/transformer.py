"""ESPnet's transformer decoder without its causal mask: all positions at once, conditioned on the source."""

from typing import NamedTuple

from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from torch import Tensor

from espnet_diverse.attention.cores.value_residual import ValueResidual
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.nets.no_position import remove_absolute_position
from espnet_diverse.nets.replace_attention import replace_attention
from espnet_diverse.scope import current


class Source(NamedTuple):
    """Output of the encoder for B sentences.

    Attributes:
        output: Encoder output (B, S, M).
        valid: Which frames are not padding, (B, S).
    """

    output: Tensor
    valid: Tensor

    @classmethod
    def of(cls, output: Tensor, lengths: Tensor) -> "Source":
        """Encoder output (B, S, M) with the lengths (B,) of its sentences."""
        return cls(output, lengths_to_mask(lengths, output.size(1)))


class ConditionedTransformer(TransformerDecoder):
    """Layers of bidirectional self-attention and cross-attention to the source.

    Args:
        size: Number of input features F, or of tokens where `input_layer` is "embed".
        width: Model width M.
        attention: Self-attention, `{"core": name, **options of the core}`; None is softmax.
        cross_attention: Attention to the source, given in the same way.
        options: Options of ESPnet's transformer decoder.

    Raises:
        ConfigError: As for `replace_attention`, or the attention takes values that only the layers of encoders hand on.
    """

    def __init__(
        self,
        size: int,
        width: int,
        attention: dict | None = None,
        cross_attention: dict | None = None,
        **options,
    ):
        super().__init__(size, width, use_output_layer=False, **options)
        remove_absolute_position(self, attention)
        replace_attention(self.decoders, "self_attn", attention, net="FlowDecoder")
        replace_attention(self.decoders, "src_attn", cross_attention, net="FlowDecoder")
        if any(isinstance(layer.self_attn.core, ValueResidual) for layer in self.decoders):
            message = "attention 'value_residual' takes values of the first layer, which only encoders hand on"
            raise ConfigError(f"FlowDecoder: {message}; choose another attention")
        if any(layer.src_attn.core.state_rows for layer in self.decoders):
            raise ConfigError("FlowDecoder: its cross-attention takes no rows of the encoder; leave out handed_over")

    def forward(self, x: Tensor, valid: Tensor, source: Source) -> Tensor:
        """Features x (B, T, F) or tokens (B, T), valid (B, T) -> (B, T, M); values at padding change nothing.

        The open scope receives the padding, because the mask of cross-attention does not show it.
        """
        shared = current()
        shared.query_mask = valid if shared.collect else None
        x, mask, source_mask = self.embed(x), valid.unsqueeze(1), source.valid.unsqueeze(1)
        for layer in self.decoders:
            x, *_ = layer(x, mask, source.output, source_mask)
        return self.after_norm(x) if self.normalize_before else x
