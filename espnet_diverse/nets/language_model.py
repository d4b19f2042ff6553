"""ESPnet's transformer language model with a choice of attention."""

from espnet2.lm.transformer_lm import TransformerLM

from espnet_diverse.nets.replace_attention import replace_attention, signature_with


class DiverseTransformerLM(TransformerLM):
    """ESPnet's transformer language model; without options its output and state dict equal ESPnet's.

    Args:
        args: Positional arguments of ESPnet's language model.
        attention: Causal self-attention, `{"core": name, **options of the core}`; None is softmax.
        options: Options of ESPnet's language model.

    Raises:
        ConfigError: The core or an option is unknown, or the core does not support causal self-attention or cached
            decoding.
    """

    __signature__ = signature_with(TransformerLM, attention=None)

    def __init__(self, *args, attention: dict | None = None, **options):
        super().__init__(*args, **options)
        net = type(self).__name__
        replace_attention(self.encoder.encoders, "self_attn", attention, causal=True, net=net)
