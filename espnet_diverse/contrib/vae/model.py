"""Training of a variational autoencoder of text: ESPnet's translation model, whose source is the target text."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from espnet_diverse.attention.update_counter import UpdateCounter
from espnet_diverse.contrib.vae.decoder import LatentDecoder, Posterior
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.sentence_ends import add_sos_eos
from espnet_diverse.functional.variational import active_units, annealing, divergence_by_unit, free_bits, sample
from espnet_diverse.nets.models import DiverseMTModel
from espnet_diverse.nets.replace_attention import signature_with
from espnet_diverse.option_checks import Options, choice, must_be, number, read
from espnet_diverse.scope import current
from espnet_diverse.upstream.layers import th_accuracy

_UNKNOWN = 1  # index of <unk>
_RISING = 0.5  # share of a cycle, as Fu et al.


@dataclass(frozen=True)
class BoundOptions(Options):
    """Options of the section `bound` of `model_conf`; equations in `functional/variational.py`.

    Attributes:
        kl_weight: Final weight of KL: 1 gives the bound, other values the beta-VAE of Higgins et al. 2017; with 0, z is
            always the posterior mean (a deterministic autoencoder).
        schedule: Annealing of the weight: it rises once from 0, rises from 0 in cycles, or is constant.
        kl_updates: Number of updates of the annealing; a number between 0 and 1 is a fraction of the run.
        cycles: Number of cycles of the cyclical schedule.
        free_bits: Minimum KL of a unit in nats, averaged over a batch, below which it is not reduced.
        word_dropout: Fraction of the decoder's input tokens that training replaces by <unk> (Bowman et al. 2016).
    """

    kl_weight: float = number(1.0, least=0)
    schedule: str = choice("linear", "cyclical", "constant")
    kl_updates: float = number(0.5, above=0)
    cycles: int = number(4, least=1)
    free_bits: float = number(0.0, least=0)
    word_dropout: float = number(0.0, least=0, most=1)


class VaeMTModel(DiverseMTModel):
    """Variational autoencoder, whose source and target are the same text.

    The loss is the negative bound (1) of `functional/variational.py` for one sample of the posterior, divided by the
    number of tokens or sentences (`length_normalized_loss`). Training uses the annealed weight and the free bits of
    `bound`; validation uses `kl_weight`, no free bits, and the same noise in every epoch.

    The statistics, in nats: `reconstruction`, -log p(x | z) per token; `kl` and `bound` per sentence; `active_units`,
    their number in a batch; `kl_weight`, the annealed weight. With weight 0 there is no kl or bound.

    Args:
        args: Arguments of ESPnet's model.
        bound: `BoundOptions` by name.
        options: Options of `DiverseMTModel`.

    Raises:
        ConfigError: The decoder is not `vae`, labels are smoothed, or an option has a value that is not allowed.
    """

    __signature__ = signature_with(DiverseMTModel, bound=None)

    def __init__(self, *args, bound: dict | None = None, **options):
        super().__init__(*args, **options)
        if not isinstance(self.decoder, LatentDecoder):
            raise ConfigError(f"model vae has no use for decoder {type(self.decoder).__name__}; set decoder: vae")
        if smoothing := options.get("lsm_weight"):
            raise must_be("lsm_weight", "0 for model vae, whose loss is a bound of the likelihood", smoothing)
        self.bound = read(BoundOptions, bound or {}, "bound")
        self.updates = UpdateCounter(self.bound.kl_updates if self.bound.schedule != "constant" else None)

    def _calc_mt_att_loss(
        self, encoder_out: Tensor, encoder_out_lens: Tensor, ys_pad: Tensor, ys_pad_lens: Tensor
    ) -> tuple[Tensor, float | None, float | None]:
        """Loss, accuracy and, in validation with `report_bleu`, BLEU, with the reference ys_pad (B, T) as input."""
        posterior, weight = self.decoder.posterior(encoder_out, encoder_out_lens), self._weight()
        inputs, targets = add_sos_eos(ys_pad, self.sos, self.eos, self.ignore_id)
        codes = sample(posterior.mean, posterior.log_var, self._noise(posterior)).unsqueeze(1)
        one, lengths = torch.ones_like(ys_pad_lens), ys_pad_lens + 1
        scores, _ = self.decoder.of_codes()(codes, one, self._drop_words(inputs), lengths)
        total, number = self.criterion_mt.total(scores, targets), self.criterion_mt.number(targets)
        divergence = divergence_by_unit(*posterior)
        least = self.bound.free_bits if self.training else 0.0
        loss = (total + weight * len(ys_pad) * free_bits(divergence, least)) / number
        accuracy = th_accuracy(scores.flatten(0, 1), targets, ignore_label=self.ignore_id)
        self._add_statistics(total, divergence, posterior, lengths, weight)
        if self.training or self.mt_error_calculator is None:
            return loss, accuracy, None
        return loss, accuracy, self.mt_error_calculator(scores.argmax(dim=-1).cpu(), ys_pad.cpu())

    def _branches(self) -> None:
        """Support no consistency: predictions differ by the code that was sampled, too."""

    def _weight(self) -> Tensor | float:
        """Weight of the divergence."""
        options, done = self.bound, self.updates(self.decoder.to_posterior.weight)
        if not self.training or not options.kl_weight or options.schedule == "constant":
            return options.kl_weight
        form: dict[str, Any] = {} if options.schedule == "linear" else {"cycles": options.cycles, "rising": _RISING}
        return options.kl_weight * annealing(done, self.updates.length(options.kl_updates), **form)

    def _noise(self, posterior: Posterior) -> Tensor:
        """Noise of the sample (B, Z); validation uses a fixed seed, so that epochs can be compared."""
        if not self.bound.kl_weight:
            return torch.zeros_like(posterior.mean)
        if self.training:
            return torch.randn_like(posterior.mean)
        drawn = torch.randn(posterior.mean.shape, generator=torch.Generator().manual_seed(0))
        return drawn.to(posterior.mean)

    def _drop_words(self, inputs: Tensor) -> Tensor:
        """Replace tokens of the decoder's input (B, T) by <unk>, all but the first, <sos/eos>."""
        if not self.training or not self.bound.word_dropout:
            return inputs
        dropped = torch.rand(inputs.shape, device=inputs.device) < self.bound.word_dropout
        dropped[:, 0] = False
        return inputs.masked_fill(dropped, _UNKNOWN)

    def _add_statistics(
        self, total: Tensor, divergence: Tensor, posterior: Posterior, lengths: Tensor, weight: Tensor | float
    ) -> None:
        shared = current()
        if not shared.statistics:
            return
        shared.add_stat("reconstruction", total / lengths.sum())
        shared.add_stat("active_units", active_units(posterior.mean).sum())
        if self.bound.kl_weight:
            shared.add_stat("kl", divergence.sum(-1).mean())
            shared.add_stat("bound", -(total + divergence.sum()) / len(lengths))
            shared.add_stat("kl_weight", weight)
