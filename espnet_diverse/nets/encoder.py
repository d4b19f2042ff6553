"""ESPnet's encoders with exchangeable attention.

Each class is ESPnet's own encoder; after its constructor has run, the self-attention of every layer is exchanged for
ours. Without an `attention` option it is softmax, and output and state dict equal ESPnet's.
"""

from espnet2.asr.encoder.conformer_encoder import ConformerEncoder
from espnet2.asr.encoder.contextual_block_transformer_encoder import ContextualBlockTransformerEncoder
from espnet2.asr.encoder.e_branchformer_encoder import EBranchformerEncoder
from espnet2.asr.encoder.transformer_encoder import TransformerEncoder

from espnet_diverse.nets.exchange import exchange, signature_with


class _Exchanged:
    """Before an encoder of ESPnet in the bases: builds it, then exchanges the attention of its layers."""

    attribute = "self_attn"

    def __init__(self, *args, attention: dict | None = None, **options):
        """`options` are ESPnet's; `attention` is `{"core": name, **options of the core}`, or None for softmax."""
        super().__init__(*args, **options)
        exchange(self.encoders, self.attribute, attention)


class DiverseTransformerEncoder(_Exchanged, TransformerEncoder):
    """ESPnet's transformer encoder; its attention is bidirectional with absolute position."""

    __signature__ = signature_with(TransformerEncoder, attention=None)


class DiverseConformerEncoder(_Exchanged, ConformerEncoder):
    """ESPnet's conformer encoder; its attention has relative position."""

    __signature__ = signature_with(ConformerEncoder, attention=None)


class DiverseEBranchformerEncoder(_Exchanged, EBranchformerEncoder):
    """ESPnet's E-Branchformer encoder; its attention has relative position."""

    __signature__ = signature_with(EBranchformerEncoder, attention=None)
    attribute = "attn"


class DiverseContextualBlockTransformerEncoder(_Exchanged, ContextualBlockTransformerEncoder):
    """ESPnet's streaming transformer encoder, which attends within blocks that carry a context vector."""

    __signature__ = signature_with(ContextualBlockTransformerEncoder, attention=None)
