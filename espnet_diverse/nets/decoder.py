"""ESPnet's transformer decoder with exchangeable self-attention and cross-attention."""

from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from torch import Tensor

from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.nets.exchange import exchange, signature_with
from espnet_diverse.scope import current


class DiverseTransformerDecoder(TransformerDecoder):
    """ESPnet's transformer decoder; without options its output and state dict equal ESPnet's.

    Args:
        attention: Causal self-attention, `{"core": name, **options of the core}`; None is softmax.
        cross_attention: The same for attention to the encoder's output.
        options: ESPnet's options of the decoder, unchanged.
    """

    __signature__ = signature_with(TransformerDecoder, attention=None, cross_attention=None)

    def __init__(self, *args, attention: dict | None = None, cross_attention: dict | None = None, **options):
        super().__init__(*args, **options)
        exchange(self.decoders, "self_attn", attention, causal=True)
        exchange(self.decoders, "src_attn", cross_attention)

    def forward(self, hs_pad: Tensor, hlens: Tensor, ys_in_pad: Tensor, ys_in_lens: Tensor, *args, **options):
        """hs_pad (B, Tk, M), ys_in_pad (B, Tq) -> ESPnet's result: scores (B, Tq, V), lengths (B,).

        The scope learns which target positions are padding, which the mask of cross-attention does not say.
        """
        shared = current()
        shared.query_mask = lengths_to_mask(ys_in_lens, ys_in_pad.size(1)) if shared.collect else None
        return super().forward(hs_pad, hlens, ys_in_pad, ys_in_lens, *args, **options)
