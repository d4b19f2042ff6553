"""A classifier of long texts: embedding, transformer encoder of any attention, self-attentive pooling, one layer."""

import inspect
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from espnet_diverse.attention.self_attentive_pooling import SelfAttentivePooling
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.nets.classification.sentence_classifier import Classified, PooledClassifier
from espnet_diverse.nets.encoder import DiverseTransformerEncoder

_GIVEN = ("input_size", "input_layer")


class TransformerClassifier(PooledClassifier):
    """Embedding, transformer encoder, self-attentive pooling, and a linear layer.

    Args:
        vocab_size: Number of tokens.
        by: Condition whose values are the classes, a name of `conditions.CONDITIONS` or a list of one.
        conditions: Values of that condition, by its name; training fills them in.
        pooling_width: Width of the keys of the pooling.
        heads: Number of heads of the pooling.
        options: Options of `DiverseTransformerEncoder`, such as `attention`, `memory`, `output_size` and `num_blocks`.

    Raises:
        ValueError: There is not one condition, or it has fewer than 2 values, or a number is not possible.
        ConfigError: See `DiverseTransformerEncoder`.
    """

    def __init__(
        self,
        vocab_size: int,
        by: str | Sequence[str] | None = None,
        conditions: Mapping[str, Sequence[str]] | None = None,
        pooling_width: int = 64,
        heads: int = 1,
        **options,
    ):
        super().__init__(by, conditions)
        self.encoder = token_encoder(vocab_size, **options)
        size = self.encoder.output_size()
        self.pooling = SelfAttentivePooling(size, pooling_width, heads)
        self.output = nn.Linear(heads * size, len(self.labels))

    @property
    def embed(self) -> nn.Embedding:
        """The embedding of the tokens."""
        return self.encoder.embed[0]

    def forward(self, text: Tensor, lengths: Tensor) -> Classified:
        """Classify texts: tokens (B, T) with their numbers (B,), 1 or more each."""
        heads = self.encode(text, lengths)
        return Classified(self.output(heads.flatten(1)), heads.unsqueeze(1))

    def _states(self, text: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x = self.encoder(text, lengths)[0]
        return x, lengths_to_mask(lengths, x.size(1)).unsqueeze(1)


def token_encoder(vocab_size: int, **options) -> DiverseTransformerEncoder:
    """Build an encoder of tokens whose embeddings begin at the scale of the positions.

    The encoder multiplies embeddings by sqrt(D) (Vaswani et al. 2017, section 3.4). ESPnet draws them from N(0, 1), and
    beside values of sqrt(D) sinusoids of amplitude 1 hardly count; here their deviation is 1 / sqrt(D).

    Args:
        vocab_size: Number of tokens.
        options: Options of `DiverseTransformerEncoder`.
    """
    encoder = DiverseTransformerEncoder(vocab_size, input_layer="embed", **options)
    drawn = encoder.embed[0]
    weight = drawn.weight.detach() * drawn.embedding_dim**-0.5
    count, size = weight.shape
    encoder.embed[0] = _ScaledEmbedding(count, size, padding_idx=drawn.padding_idx, _weight=weight)
    return encoder


class _ScaledEmbedding(nn.Embedding):
    """An embedding of deviation 1 / sqrt(D), also where ESPnet's option `init` draws it again."""

    def reset_parameters(self) -> None:
        super().reset_parameters()
        with torch.no_grad():
            self.weight.mul_(self.embedding_dim**-0.5)


def _signature() -> inspect.Signature:
    """Return the signature of the classifier with the options of the encoder, so that unknown ones are refused."""
    parameters = inspect.signature(TransformerClassifier.__init__).parameters
    options = inspect.signature(DiverseTransformerEncoder).parameters
    added = {name: option.replace(kind=option.KEYWORD_ONLY) for name, option in options.items() if name not in _GIVEN}
    known = [parameter for name, parameter in parameters.items() if name not in ("self", "options")]
    return inspect.Signature([*known, *(option for name, option in added.items() if name not in parameters)])


TransformerClassifier.__signature__ = _signature()  # type: ignore[attr-defined]
