"""ESPnet's transformer language model with exchangeable attention."""

from espnet2.lm.transformer_lm import TransformerLM

from espnet_diverse.nets.replace_attention import exchange, signature_with


class DiverseTransformerLM(TransformerLM):
    """ESPnet's transformer language model; without options its output and state dict equal ESPnet's.

    Args:
        attention: Causal self-attention, `{"core": name, **options of the core}`; None is softmax.
        options: ESPnet's options of the language model, unchanged.
    """

    __signature__ = signature_with(TransformerLM, attention=None)

    def __init__(self, *args, attention: dict | None = None, **options):
        super().__init__(*args, **options)
        exchange(self.encoder.encoders, "self_attn", attention, causal=True)
