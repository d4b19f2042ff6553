"""Training of FlowSeq: ESPnet's translation model with the evidence lower bound as its loss."""

import torch
from torch import Tensor

from espnet_diverse.attention.update_counter import UpdateCounter
from espnet_diverse.contrib.flowseq.decoder import FlowDecoder
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.models import DiverseMTModel
from espnet_diverse.nets.reductions import token_count
from espnet_diverse.nets.replace_attention import signature_with
from espnet_diverse.option_checks import Rule
from espnet_diverse.scope import current, scope
from espnet_diverse.upstream.layers import th_accuracy


class FlowMTModel(DiverseMTModel):
    """Non-autoregressive text translation.

    The loss is minus the bound (1) of `contrib/flowseq/decoder.py`, with smoothed labels, divided by the number of
    tokens or of sentences, by `length_normalized_loss`. In training the divergence is multiplied by min(1, updates /
    kl_updates)², so that the posterior learns to carry the target before the prior has to predict it (Bowman et al.
    2016, "Generating sentences from a continuous space", section 3.1). It is a square because in the first hundred
    updates the posterior costs tens of nats per token, at which a linear rise already makes it collapse.

    Args:
        args: Arguments of ESPnet's model.
        kl_updates: Number of updates until the divergence has its full weight; a number between 0 and 1 is a share of
            the updates of the run, and 0 gives it from the start.
        options: Options of `DiverseMTModel`. With `report_bleu` validation reports BLEU, of the tokens that are decoded
            at the length of the reference.

    Raises:
        ConfigError: The decoder is not `flow`, or `kl_updates` is negative or not a number.
    """

    __signature__ = signature_with(DiverseMTModel, kl_updates=0.5)

    end_tokens = 0

    def __init__(self, *args, kl_updates: float = 0.5, **options):
        super().__init__(*args, **options)
        if not isinstance(self.decoder, FlowDecoder):
            raise ConfigError(f"model flow has no use for decoder {type(self.decoder).__name__}; set decoder: flow")
        Rule(float, least=0).check("kl_updates", kl_updates)
        self.kl_updates, self.updates = kl_updates, UpdateCounter(kl_updates)

    def _calc_mt_att_loss(
        self, encoder_out: Tensor, encoder_out_lens: Tensor, ys_pad: Tensor, ys_pad_lens: Tensor
    ) -> tuple[Tensor, float | None, float | None]:
        """Loss and, in validation, accuracy and BLEU of the tokens that are decoded at the length of ys_pad (B, T).

        The statistics `acc_posterior`, `kl` and `nll_length` are the accuracy given the posterior, the divergence in
        nats per token, and -log p(T | x) in nats per sentence.
        """
        weight = self._weight()
        bound = self.decoder(encoder_out, encoder_out_lens, ys_pad, ys_pad_lens)
        number = token_count(ys_pad_lens.sum(), len(ys_pad)) if self.loss_per_token else len(ys_pad)
        loss = self.criterion_mt(bound.scores, ys_pad)
        loss = loss + (weight * bound.divergence - bound.length).sum() / number
        shared = current()
        if shared.statistics:
            shared.add_stat("acc_posterior", self._accuracy(bound.scores, ys_pad))
            shared.add_stat("kl", bound.divergence.sum() / ys_pad_lens.sum())
            shared.add_stat("nll_length", -bound.length.mean())
        if self.training:
            return loss, None, None
        with scope(shared.conditions, collect=False):  # its losses are not part of the bound
            scores = self.decoder.translate(encoder_out, encoder_out_lens, ys_pad_lens)
        bleu = self.mt_error_calculator and self.mt_error_calculator(scores.argmax(-1).cpu(), ys_pad.cpu())
        return loss, self._accuracy(scores, ys_pad), bleu

    def _branches(self) -> None:
        """Support no consistency: predictions differ by the posterior that was sampled, too."""

    def _weight(self) -> float | Tensor:
        """Weight of the divergence."""
        done = self.updates(self.decoder.to_mean.weight)
        if not self.training or not self.kl_updates:
            return 1.0
        return torch.clamp(done / self.updates.length(self.kl_updates), max=1.0).square()

    def _accuracy(self, scores: Tensor, tokens: Tensor) -> float:
        return th_accuracy(scores.flatten(0, 1), tokens, ignore_label=self.ignore_id)
