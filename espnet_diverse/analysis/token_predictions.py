"""Predictions of a model for each token of the reference texts, given the tokens before it (teacher forcing)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from espnet_diverse.analysis.samples import Sample
from espnet_diverse.decoding.encoder.encoding import Encoded
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.decoding.teacher_forcing import token_log_probs


class TokenPredictions(NamedTuple):
    """Predictions of n tokens, with the end of each text, on the CPU; (n,) each.

    Attributes:
        loss: Negative log probability of the reference token, in nats.
        confidence: Probability of the most likely token.
        correct: Whether the most likely token is the reference token, bool.
        entropy: Entropy of the predictive distribution, in nats.
    """

    loss: Tensor
    confidence: Tensor
    correct: Tensor
    entropy: Tensor


def encode(predictor: Predictor, batch: Sequence[Sample]) -> Encoded:
    """Run the encoder over a batch; the result of an utterance does not depend on the others."""
    return predictor.encode([sample.source for sample in batch], [sample.conditions for sample in batch])


@torch.inference_mode()
def predict_tokens(predictor: Predictor, batch: Sequence[Sample], encoded: Encoded) -> TokenPredictions:
    """Run the decoder over the reference texts of a batch that `encode` has encoded."""
    log_probs, targets = token_log_probs(predictor.encoding.model, encoded, [sample.tokens for sample in batch])
    best, predicted = log_probs.max(-1)
    loss = -log_probs.gather(1, targets.unsqueeze(1)).squeeze(1)
    entropy = torch.special.entr(log_probs.exp()).sum(-1)
    return TokenPredictions(loss.cpu(), best.exp().cpu(), (predicted == targets).cpu(), entropy.cpu())


def joined(parts: Sequence[TokenPredictions]) -> TokenPredictions:
    """Join the predictions of several batches."""
    return TokenPredictions(*map(torch.cat, zip(*parts, strict=True)))
