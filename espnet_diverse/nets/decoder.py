"""ESPnet's transformer decoder with a choice of self-attention and cross-attention, adapters and a start tag."""

from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from torch import Tensor

from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.nets.adapters.bottleneck import insert_adapters
from espnet_diverse.nets.no_position import remove_absolute_position
from espnet_diverse.nets.recomputation import check_recomputed
from espnet_diverse.nets.replace_attention import replace_attention, signature_with
from espnet_diverse.nets.start_tag import insert_start_tag
from espnet_diverse.scope import current

_OURS = {"attention": None, "cross_attention": None, "adapter": None, "start_tag": None}


class DiverseTransformerDecoder(TransformerDecoder):
    """ESPnet's transformer decoder; without options its output and state dict equal ESPnet's.

    Args:
        args: Positional arguments of ESPnet's decoder.
        attention: Causal self-attention, `{"core": name, **options of the core}`; None is softmax.
        cross_attention: Attention to the encoder's output, given in the same way.
        adapter: `AdapterOptions` by name; None adds no adapters.
        start_tag: `StartTagOptions` by name; None keeps the embedding of <sos/eos> as the first input.
        options: Options of ESPnet's decoder.

    Raises:
        ConfigError: An option is unknown or has a value that is not allowed, a core does not support causal
            self-attention, cross-attention or cached decoding, or a layer cannot be computed again that
            `gradient_checkpoint_layers` has.
    """

    __signature__ = signature_with(TransformerDecoder, **_OURS)

    def __init__(
        self,
        *args,
        attention: dict | None = None,
        cross_attention: dict | None = None,
        adapter: dict | None = None,
        start_tag: dict | None = None,
        **options,
    ):
        super().__init__(*args, **options)
        net = type(self).__name__
        remove_absolute_position(self, attention)
        replace_attention(self.decoders, "self_attn", attention, causal=True, net=net)
        replace_attention(self.decoders, "src_attn", cross_attention, net=net)
        insert_adapters(self.decoders, adapter)
        insert_start_tag(self.embed, start_tag)
        check_recomputed(self.decoders, self.gradient_checkpoint_layers, net)

    def forward(self, hs_pad: Tensor, hlens: Tensor, ys_in_pad: Tensor, ys_in_lens: Tensor, *args, **options):
        """hs_pad (B, Tk, M), ys_in_pad (B, Tq) -> ESPnet's result: scores (B, Tq, V), lengths (B,).

        The open scope is told which target positions are padding, because the mask of cross-attention does not tell.
        """
        shared = current()
        shared.query_mask = lengths_to_mask(ys_in_lens, ys_in_pad.size(1)) if shared.collect else None
        return super().forward(hs_pad, hlens, ys_in_pad, ys_in_lens, *args, **options)

    def forward_partially_AR(self, *args, **options):  # noqa: N802 (ESPnet's name)
        """ESPnet's partially autoregressive step.

        Raises:
            ConfigError: The decoder has adapters, which ESPnet's step would not apply.
        """
        if any(hasattr(layer, "adapter") for layer in self.decoders):
            raise ConfigError("partially autoregressive decoding does not apply adapters; set partial_ar to false")
        return super().forward_partially_AR(*args, **options)
