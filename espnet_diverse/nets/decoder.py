"""ESPnet's transformer decoder with exchangeable self-attention and cross-attention, adapters and a start tag."""

from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from torch import Tensor

from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.nets.adapter import insert_adapters
from espnet_diverse.nets.replace_attention import exchange, signature_with
from espnet_diverse.nets.start_tag import insert_start_tag
from espnet_diverse.scope import current

_OURS = {"attention": None, "cross_attention": None, "adapter": None, "start_tag": None}


class DiverseTransformerDecoder(TransformerDecoder):
    """ESPnet's transformer decoder; without options its output and state dict equal ESPnet's.

    Args:
        attention: Causal self-attention, `{"core": name, **options of the core}`; None is softmax.
        cross_attention: The same for attention to the encoder's output.
        adapter: `AdapterOptions` by name; None is no adapter.
        start_tag: `StartTagOptions` by name; None leaves the embedding of <sos/eos> as the first input.
        options: ESPnet's options of the decoder, unchanged.
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
        exchange(self.decoders, "self_attn", attention, causal=True)
        exchange(self.decoders, "src_attn", cross_attention)
        insert_adapters(self.decoders, adapter)
        insert_start_tag(self.embed, start_tag)

    def forward(self, hs_pad: Tensor, hlens: Tensor, ys_in_pad: Tensor, ys_in_lens: Tensor, *args, **options):
        """hs_pad (B, Tk, M), ys_in_pad (B, Tq) -> ESPnet's result: scores (B, Tq, V), lengths (B,).

        The scope learns which target positions are padding, which the mask of cross-attention does not say.
        """
        shared = current()
        shared.query_mask = lengths_to_mask(ys_in_lens, ys_in_pad.size(1)) if shared.collect else None
        return super().forward(hs_pad, hlens, ys_in_pad, ys_in_lens, *args, **options)

    def forward_partially_AR(self, *args, **options):  # noqa: N802 (ESPnet's name)
        """ESPnet's partially autoregressive step.

        Raises:
            ConfigError: The decoder has adapters, which ESPnet's step would pass by.
        """
        if any(hasattr(layer, "adapter") for layer in self.decoders):
            raise ConfigError("partially autoregressive decoding passes adapters by; set partial_ar to false")
        return super().forward_partially_AR(*args, **options)
