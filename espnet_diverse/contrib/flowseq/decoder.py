"""FlowSeq's model of a translation given its source: latent variables, their posterior and prior, tokens, length.

Ma et al. 2019, "FlowSeq: non-autoregressive conditional sequence generation with generative flow". For a source x and a
target y of T tokens, with one latent vector for each token,

    log p(y | x) >= log p(T | x) + E_q [ sum_t log p(y_t | z, x) + log p(z | x) - log q(z | y, x) ]            (1)

All nets are ESPnet's transformer layers with our attention, without a causal mask. The prior is a normalising flow
(`prior.py`). A translation is made in one pass: lengths of highest p(T | x), z = f^-1(0; x), and the most
probable token at each position.
"""

from dataclasses import dataclass
from inspect import Signature
from typing import NamedTuple

import torch
from espnet2.asr.decoder.abs_decoder import AbsDecoder
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from torch import Tensor, nn

from espnet_diverse.contrib.flowseq.prior import FlowPrior, FlowStep
from espnet_diverse.contrib.flowseq.transformer import ConditionedTransformer, Source
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.flows import normal_log_density
from espnet_diverse.functional.masks import lengths_to_mask, masked_mean
from espnet_diverse.functional.variational import sample
from espnet_diverse.nets.replace_attention import signature_with
from espnet_diverse.option_checks import Options, must_be, number, read


@dataclass(frozen=True)
class FlowOptions(Options):
    """Options of the section `flow` of `decoder_conf`.

    Attributes:
        latent: Width Z of the latent variables.
        groups: Number of groups of Z / groups features that share the linear map of a step.
        steps: Number of steps of the prior's flow.
        step_blocks: Number of layers of the net of each coupling.
        posterior_blocks: Number of layers of the posterior.
        most_difference: Maximum difference between the numbers of target and source tokens that is predicted.
    """

    latent: int = number(64, least=1)
    groups: int = number(4, least=1)
    steps: int = number(4, least=1)
    step_blocks: int = number(1, least=1)
    posterior_blocks: int = number(2, least=1)
    most_difference: int = number(20, least=1)

    def __post_init__(self):
        super().__post_init__()
        if self.latent % 2 or self.latent % self.groups:
            raise must_be("latent", f"a multiple of 2 and of groups {self.groups}", self.latent)


def _signature(signature: Signature) -> Signature:
    """Leave out the options of ESPnet's decoder for which each net of FlowSeq has its own value."""
    fixed = ("input_layer", "use_output_layer")
    return signature.replace(parameters=[option for name, option in signature.parameters.items() if name not in fixed])


class Bound(NamedTuple):
    """The parts of (1) for B sentences.

    Attributes:
        scores: Scores of the tokens given a sample of the posterior, (B, T, V).
        divergence: log q(z | y, x) - log p(z | x) at the sample, in nats, (B,).
        length: log p(T | x), (B,).
    """

    scores: Tensor
    divergence: Tensor
    length: Tensor


class LengthPredictor(nn.Module):
    """The number of target tokens p(T | x): a linear classifier of its difference from the number of source frames.

    Section 3.4 of the paper. Its input is the mean of the encoder's output. Differences beyond the greatest one count
    as the greatest one in training.

    Args:
        width: Model width M.
        most: Greatest difference D; the classes are -D to D.
    """

    def __init__(self, width: int, most: int):
        super().__init__()
        self.most, self.output = most, nn.Linear(width, 2 * most + 1)

    def log_prob(self, source: Source, lengths: Tensor) -> Tensor:
        """Return log p(T | x) of lengths T (B,) -> (B,)."""
        difference = (lengths - source.valid.sum(1)).clamp(-self.most, self.most)
        return self._log_probs(source).gather(1, (difference + self.most).unsqueeze(1)).squeeze(1)

    def best(self, source: Source, number: int, least: Tensor, greatest: Tensor) -> tuple[Tensor, Tensor]:
        """Return the most probable lengths.

        Args:
            source: The source of B sentences.
            number: Number of lengths W.
            least: Minimum of a length, (B,); no length is less than 1.
            greatest: Maximum of a length, (B,).

        Returns:
            Lengths and their log probabilities, (B, W') each, W' the lesser of W and 2 D + 1, most probable first. A
            log probability of -inf stands for a length that is not within the limits, which is then given as 1.
        """
        differences = torch.arange(-self.most, self.most + 1, device=least.device)
        lengths = source.valid.sum(1, keepdim=True) + differences
        outside = (lengths < least.clamp(min=1).unsqueeze(1)) | (lengths > greatest.unsqueeze(1))
        log_probs = self._log_probs(source).masked_fill(outside, -torch.inf)
        values, index = log_probs.topk(min(number, len(differences)))
        return lengths.gather(1, index).masked_fill(values == -torch.inf, 1), values

    def _log_probs(self, source: Source) -> Tensor:
        return self.output(masked_mean(source.output, source.valid.unsqueeze(-1), dim=1)).log_softmax(-1)


class FlowDecoder(AbsDecoder):
    """Posterior, prior and decoder of FlowSeq; the model `flow` trains it.

    Args:
        vocab_size: Number of tokens V.
        encoder_output_size: Model width M.
        attention: Bidirectional self-attention of all nets, `{"core": name, **options of the core}`; None is softmax.
        cross_attention: Attention to the encoder's output, given in the same way.
        flow: `FlowOptions` by name.
        options: Options of ESPnet's transformer decoder; `num_blocks` is the number of layers of p(y | z, x).

    Raises:
        ConfigError: An option is unknown or has a value that is not allowed, or a core does not support the use.
    """

    __signature__ = _signature(signature_with(TransformerDecoder, attention=None, cross_attention=None, flow=None))

    def __init__(self, vocab_size: int, encoder_output_size: int, flow: dict | None = None, **options):
        super().__init__()
        if options.get("gradient_checkpoint_layers"):
            raise ConfigError("gradient_checkpoint_layers has no effect in the decoder flow; leave it out")
        width, chosen = encoder_output_size, read(FlowOptions, flow or {}, "flow")
        self.options = chosen

        def transformer(size: int, input_layer: str = "linear", **changed) -> ConditionedTransformer:
            return ConditionedTransformer(size, width, input_layer=input_layer, **(options | changed))

        self.posterior = transformer(vocab_size, "embed", num_blocks=chosen.posterior_blocks)
        self.to_mean, self.to_log_var = nn.Linear(width, chosen.latent), nn.Linear(width, chosen.latent)
        nets = [transformer(chosen.latent // 2, num_blocks=chosen.step_blocks) for _ in range(chosen.steps)]
        steps = [FlowStep(chosen.latent, chosen.groups, net, width) for net in nets]
        self.prior = FlowPrior(steps)
        self.length = LengthPredictor(width, chosen.most_difference)
        self.generator = transformer(chosen.latent)
        self.output_layer = nn.Linear(width, vocab_size)

    @property
    def embed(self) -> nn.Sequential:
        """Embedding of target tokens and positional encoding, which ESPnet's models share."""
        return self.posterior.embed

    def forward(
        self, hs_pad: Tensor, hlens: Tensor, ys_in_pad: Tensor, ys_in_lens: Tensor, noise: Tensor | None = None
    ) -> Bound:
        """Compute the parts of (1) with one sample of the posterior.

        Args:
            hs_pad: Encoder output (B, S, M).
            hlens: Number of frames of each sentence (B,).
            ys_in_pad: Target tokens (B, T) without begin and end of the sentence; padding may have any index.
            ys_in_lens: Number of target tokens (B,).
            noise: Standard normal noise of the sample, of a shape that broadcasts to (B, T, Z); by default it is drawn.
                0 gives the mean of the posterior.
        """
        source, valid = Source.of(hs_pad, hlens), lengths_to_mask(ys_in_lens, ys_in_pad.size(1))
        hidden = self.posterior(ys_in_pad.masked_fill(~valid, 0), valid, source)
        mean, log_var = self.to_mean(hidden), self.to_log_var(hidden)
        z = sample(mean, log_var, torch.randn_like(mean) if noise is None else noise)
        divergence = normal_log_density(z, mean, log_var, valid) - self.prior.log_density(z, valid, source)
        return Bound(self._scores(z, valid, source), divergence, self.length.log_prob(source, ys_in_lens))

    def translate(self, hs_pad: Tensor, hlens: Tensor, lengths: Tensor) -> Tensor:
        """Return scores of tokens at z = f^-1(0; x): encoder output (B, S, M), hlens, lengths (B,) -> (B, T, V)."""
        source, valid = Source.of(hs_pad, hlens), lengths_to_mask(lengths, int(lengths.max()))
        centre = hs_pad.new_zeros(*valid.shape, self.options.latent)
        return self._scores(self.prior.sample(centre, valid, source), valid, source)

    def _scores(self, z: Tensor, valid: Tensor, source: Source) -> Tensor:
        return self.output_layer(self.generator(z, valid, source))
