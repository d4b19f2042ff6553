"""Decoder that attends to a Gaussian latent code of the encoder's output.

Bowman et al. 2016, "Generating sentences from a continuous space". The posterior of a sentence x with encoder output
h_1 ... h_T, and what the decoder's cross-attention reads instead of the encoder's output, are

    q(z | x) = N(mu, sigma^2),   [mu; log sigma^2] = W mean_t h_t + b                                       (1)
    m_k = V_k z + c_k,   k = 1 ... K                                                                        (2)

The mean over positions makes the posterior depend on all of them, which reduces posterior collapse (Long et al. 2019,
"Preventing posterior collapse in sequence VAEs with pooling"). The vectors m_k are the memory of Li et al. 2020,
"Optimus", which all layers read. Without noise z is the mean of the posterior.
"""

import copy
from dataclasses import dataclass
from typing import NamedTuple, Self

from torch import Tensor, nn

from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.masks import lengths_to_mask, masked_mean
from espnet_diverse.nets.decoder import DiverseTransformerDecoder
from espnet_diverse.nets.replace_attention import signature_with
from espnet_diverse.option_checks import Options, number, read


@dataclass(frozen=True)
class LatentOptions(Options):
    """Options of the section `latent` of `decoder_conf`.

    Attributes:
        size: Number of units Z of a code.
        vectors: Number of vectors K, computed from the code, that cross-attention reads.
    """

    size: int = number(32, least=1)
    vectors: int = number(4, least=1)


class Posterior(NamedTuple):
    """The posteriors of B sentences.

    Attributes:
        mean, log_var: Mean and logarithm of the variance of each unit, (B, Z) each.
    """

    mean: Tensor
    log_var: Tensor


class LatentDecoder(DiverseTransformerDecoder):
    """The decoder p(x | z) with the posterior q(z | x); the model `vae` trains it.

    Args:
        vocab_size: Number of tokens V.
        encoder_output_size: Model width M.
        latent: `LatentOptions` by name.
        options: Options of `DiverseTransformerDecoder`.

    Attributes:
        reads_codes: Whether the source is latent codes (B, 1, Z), see `of_codes`, instead of the encoder's output.
        reads_vectors: True, see `DiverseTransformerDecoder.reads_vectors`.

    Raises:
        ConfigError: As for `DiverseTransformerDecoder`, or cross-attention has a memory or takes rows of the encoder.
    """

    __signature__ = signature_with(DiverseTransformerDecoder, latent=None)

    reads_codes = False
    reads_vectors = True

    def __init__(self, vocab_size: int, encoder_output_size: int, latent: dict | None = None, **options):
        super().__init__(vocab_size, encoder_output_size, **options)
        if self.source_memory is not None or self.state_rows:
            message = "decoder vae reads the latent code alone"
            raise ConfigError(f"{message}; leave out cross_memory and handed_over")
        self.latent = read(LatentOptions, latent or {}, "latent")
        self.to_posterior = nn.Linear(encoder_output_size, 2 * self.latent.size)
        self.to_vectors = nn.Linear(self.latent.size, self.latent.vectors * encoder_output_size)

    def posterior(self, source: Tensor, lengths: Tensor) -> Posterior:
        """Compute (1): encoder output (B, T, M) and its lengths (B,) -> the posteriors."""
        valid = lengths_to_mask(lengths, source.size(1)).unsqueeze(-1)
        return Posterior(*self.to_posterior(masked_mean(source, valid, dim=1)).chunk(2, dim=-1))

    def of_codes(self) -> Self:
        """Return the same decoder, with the same parameters, whose source is latent codes (B, 1, Z)."""
        other = copy.copy(self)
        other.reads_codes = True
        return other

    def shorten(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Compute (2), which cross-attention reads: source (B, T, M) or codes (B, 1, Z) -> (B, K, M), and K (B,)."""
        z = source[:, 0] if self.reads_codes else self.posterior(source, lengths).mean
        vectors = self.to_vectors(z).unflatten(-1, (self.latent.vectors, -1))
        return vectors, lengths.new_full((len(z),), self.latent.vectors)
