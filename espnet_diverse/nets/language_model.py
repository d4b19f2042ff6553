"""ESPnet's transformer language model with a choice of attention."""

from typing import Any

from espnet2.lm.transformer_lm import TransformerLM
from torch import Tensor

from espnet_diverse.nets.memory import add_memory
from espnet_diverse.nets.no_position import remove_absolute_position
from espnet_diverse.nets.replace_attention import replace_attention, signature_with


class DiverseTransformerLM(TransformerLM):
    """ESPnet's transformer language model; without options its output and state dict equal ESPnet's.

    Args:
        args: Positional arguments of ESPnet's language model.
        attention: Causal self-attention, `{"core": name, **options of the core}`; None is softmax.
        memory: `kind` and options of a memory, see `nets/memory`; None attends to the whole text. With a memory
            ESPnet's search recomputes every prefix; ours keeps the memories of the hypotheses.
        options: Options of ESPnet's language model.

    Raises:
        ConfigError: The core or an option is unknown, or the core does not support causal self-attention or cached
            decoding.
    """

    __signature__ = signature_with(TransformerLM, attention=None, memory=None)

    def __init__(self, *args, attention: dict | None = None, memory: dict | None = None, **options):
        super().__init__(*args, **options)
        net, self.by_segments = type(self).__name__, memory is not None
        remove_absolute_position(self, attention)
        if memory is None:
            replace_attention(self.encoder.encoders, "self_attn", attention, causal=True, net=net)
        else:
            add_memory(self.encoder.encoders, attention, memory, causal=True, net=net)

    def score(self, y: Tensor, state: Any, x: Tensor) -> tuple[Tensor, Any]:
        """ESPnet's scores (V,) of the next token after y (T,), and the next state."""
        if not self.by_segments:
            return super().score(y, state, x)
        scores, states = self.batch_score(y.unsqueeze(0), [state], x)
        return scores[0], states[0]

    def batch_score(self, ys: Tensor, states: list[Any], xs: Tensor) -> tuple[Tensor, list[Any]]:
        """ESPnet's scores (B, V) of the next tokens after ys (B, T), and the next states."""
        if not self.by_segments:
            return super().batch_score(ys, states, xs)
        return self(ys, None)[0][:, -1].log_softmax(-1), states
