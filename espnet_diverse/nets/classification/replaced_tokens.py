"""Pretraining of a text classifier's encoder without labels: it finds the tokens that a small generator has replaced.

Clark et al. 2020, "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators", section 2. For a text
x of n tokens, the generator G and the encoder D with a linear layer to one score:

    m = ceil(mask_rate n) positions, drawn without replacement                                                    (1)
    L_MLM = mean_{i in m} -log p_G(x_i | x with <blank> at m)                                                     (2)
    x'_i ~ p_G(x_i | x with <blank> at m) for i in m,  else x'_i = x_i                                            (3)
    L_Disc = mean_i -log p_D(i),  p_D(i) = sigmoid(score_i) if x'_i != x_i, else 1 - sigmoid(score_i)             (4)
    loss = L_MLM + weight L_Disc                                                                                  (5)

The mean of (2) and (4) is over all positions of the batch, as in the released code. A token that the generator guesses
right counts as original. No gradient flows through (3). G and D share the embeddings of the tokens, as in the paper.
G reads them through a linear layer, to which its encoder adds positions: after a normalised layer, which ESPnet's input
layer `linear` has, positions would hardly count (`transformer_classifier.token_encoder`), and without an input layer
ESPnet's encoder adds none.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from espnet2.torch_utils.device_funcs import force_gatherable
from espnet2.train.abs_espnet_model import AbsESPnetModel
from torch import Tensor, nn

from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.nets.classification.transformer_classifier import TransformerClassifier, token_encoder
from espnet_diverse.nets.encoder import DiverseTransformerEncoder
from espnet_diverse.nets.reductions import token_count
from espnet_diverse.option_checks import Rule

MASK = 0
"""Index of <blank>, which no text has."""
_OF_CLASSIFIER = ("by", "conditions", "pooling_width", "heads")


class ReplacementDetector(nn.Module):
    """The embedding and the encoder of a `TransformerClassifier`, with a score for each token.

    It has the same options, so that one configuration serves pretraining and classification, and the same names of
    parameters.

    Args:
        vocab_size: Number of tokens.
        options: Options of `DiverseTransformerEncoder`, and those of the classifier alone, which are not used here.
    """

    def __init__(self, vocab_size: int, **options):
        super().__init__()
        of_encoder = {name: value for name, value in options.items() if name not in _OF_CLASSIFIER}
        self.encoder = token_encoder(vocab_size, **of_encoder)
        self.score = nn.Linear(self.encoder.output_size(), 1)

    @property
    def embed(self) -> nn.Embedding:
        """The embedding of the tokens."""
        return self.encoder.embed[0]

    def forward(self, text: Tensor, lengths: Tensor) -> Tensor:
        """Tokens (B, T) with their numbers (B,), 1 or more each -> score of each token (B, T), high if replaced."""
        return self.score(self.encoder(text, lengths)[0]).squeeze(-1)


ReplacementDetector.__signature__ = TransformerClassifier.__signature__  # type: ignore[attr-defined]


class MaskedGenerator(nn.Module):
    """The generator: a small encoder over the embeddings of the tokens, and a score for each token.

    Args:
        embed: The embedding, width M, which belongs to another module.
        options: Options of `DiverseTransformerEncoder`, with its `output_size`.
    """

    def __init__(self, embed: nn.Embedding, **options):
        super().__init__()
        vocab_size, width = embed.weight.shape
        size = options.pop("output_size")
        self.encoder = DiverseTransformerEncoder(1, size, input_layer="embed", **options)
        self.encoder.embed[0] = nn.Linear(width, size)  # the positions follow it
        self.output = nn.Sequential(nn.Linear(self.encoder.output_size(), width), nn.GELU(), nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, text: Tensor, lengths: Tensor, embed: nn.Embedding, chosen: Tensor) -> Tensor:
        """Masked tokens (B, T) with their numbers (B,), N chosen positions, bool (B, T) -> scores of tokens (N, V)."""
        states = self.encoder(embed(text), lengths)[0]
        return F.linear(self.output(states[chosen]), embed.weight, self.bias)


class ReplacedTokenModel(AbsESPnetModel):
    """The losses (2) and (4).

    Args:
        classifier: The detector; the name is the one of the classifier that is initialised with it.
        mask_rate: Share of the tokens that are masked.
        weight: Weight of (4) in (5); the paper has 50.
        generator: Options of the generator's encoder; by default it has the size that the paper has for a small
            model: a quarter of the detector's width, heads and units, and as many layers.

    Raises:
        ValueError: An option is not possible.
    """

    def __init__(
        self,
        classifier: ReplacementDetector,
        mask_rate: float = 0.15,
        weight: float = 50.0,
        generator: Mapping | None = None,
    ):
        super().__init__()
        Rule(float, above=0, below=1).check("mask_rate", mask_rate)
        Rule(float, least=0).check("weight", weight)
        self.classifier, self.mask_rate, self.weight = classifier, mask_rate, weight
        self.generator = MaskedGenerator(classifier.embed, **_smaller(classifier.encoder) | dict(generator or {}))

    def forward(
        self, text: Tensor, text_lengths: Tensor, *, utt_id: object = None
    ) -> tuple[Tensor, dict[str, Tensor | None], Tensor]:
        """Compute loss (1,), statistics of (1,) each, and weight (1,).

        In evaluation the positions and tokens are drawn with a fixed seed.

        Args:
            text: Tokens (B, T).
            text_lengths: Their numbers (B,), 1 or more each.
            utt_id: Ids of the texts, which are not used.
        """
        draw = None if self.training else torch.Generator(text.device).manual_seed(0)
        valid = lengths_to_mask(text_lengths, text.size(1))
        chosen = choose_positions(text_lengths, text.size(1), self.mask_rate, draw)
        logits = self.generator(text.masked_fill(chosen, MASK), text_lengths, self.classifier.embed, chosen)
        masked = F.cross_entropy(logits, text[chosen], reduction="sum") / token_count(chosen.sum(), len(text))
        drawn = torch.multinomial(logits.detach().float().softmax(-1), 1, generator=draw).squeeze(-1)
        corrupted = text.masked_scatter(chosen, drawn)
        replaced = (corrupted != text)[valid]
        scores = self.classifier(corrupted, text_lengths)[valid]
        detection = F.binary_cross_entropy_with_logits(scores, replaced.to(scores.dtype), reduction="sum")
        detection_loss = detection / token_count(valid.sum(), len(text))
        loss = masked + self.weight * detection_loss
        detected = (scores.detach() > 0)[replaced].float().sum() / replaced.sum().clamp(min=1)
        stats = {
            "loss": loss.detach(),
            "loss_mlm": masked.detach(),
            "loss_replaced": detection_loss.detach(),
            "acc_mlm": (logits.argmax(-1) == text[chosen]).float().mean(),
            "acc": ((scores > 0) == replaced).float().mean(),
            "detected": detected,
        }
        return force_gatherable((loss, stats, len(text)), loss.device)

    def collect_feats(self, text: Tensor, text_lengths: Tensor, **_) -> dict[str, Tensor]:
        """Return nothing: text has no features."""
        return {}


def choose_positions(lengths: Tensor, time: int, rate: float, draw: torch.Generator | None = None) -> Tensor:
    """Draw the positions (1) of texts.

    Args:
        lengths: Numbers of tokens (B,).
        time: Length T of the longest.
        rate: Share of the tokens.
        draw: Source of random numbers.

    Returns:
        Bool (B, T), True at ceil(rate n) of the n first positions of each text.
    """
    noise = torch.rand(len(lengths), time, device=lengths.device, generator=draw)
    rank = noise.masked_fill(~lengths_to_mask(lengths, time), 2.0).argsort(1).argsort(1)
    return rank < torch.ceil(rate * lengths - 1e-6).clamp(min=1).unsqueeze(1)


def _smaller(encoder: DiverseTransformerEncoder) -> dict[str, int]:
    """Return the default options of the generator for a detector's encoder."""
    attention, units = encoder.encoders[0].self_attn, encoder.encoders[0].feed_forward.w_1.weight.size(0)
    heads = max(1, attention.h // 4)
    return {
        "output_size": max(1, encoder.output_size() // 4 // heads) * heads,
        "attention_heads": heads,
        "linear_units": max(1, units // 4),
        "num_blocks": len(encoder.encoders),
    }
