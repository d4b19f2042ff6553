"""What a model predicts for each token of the reference texts, given the tokens before it (teacher forcing)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.analysis.samples import Sample
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.functional.sentence_ends import add_sos_eos
from espnet_diverse.scope import scope


class Encoded(NamedTuple):
    """A batch after the encoder.

    Attributes:
        output: Encoder output (B, T, M).
        lengths: Number of frames of each utterance (B,).
        conditions: Condition indices (B,) by condition.
    """

    output: Tensor
    lengths: Tensor
    conditions: Mapping[str, Tensor]


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


@torch.inference_mode()
def encode(predictor: Predictor, batch: Sequence[Sample]) -> Encoded:
    """Run the encoder over a batch; what an utterance gives does not depend on the others."""
    conditions = {
        name: torch.tensor([each.conditions[name] for each in batch], device=predictor.device)
        for name in predictor.conditions.names
    }
    encoding, sources = predictor.encoding, [each.source for each in batch]
    features = sources if predictor.preprocess is None else [encoding.features(source) for source in sources]
    return Encoded(*encoding.encode(features, conditions), conditions)


@torch.inference_mode()
def predict_tokens(predictor: Predictor, batch: Sequence[Sample], encoded: Encoded) -> TokenPredictions:
    """Run the decoder over the reference texts of a batch that `encode` has encoded."""
    model = predictor.encoding.model
    texts = [torch.tensor(each.tokens, dtype=torch.long, device=predictor.device) for each in batch]
    lengths = torch.tensor([len(text) + 1 for text in texts], device=predictor.device)
    padded = pad_sequence(texts, batch_first=True, padding_value=model.ignore_id)
    read, written = add_sos_eos(padded, model.sos, model.eos, model.ignore_id)
    with scope(encoded.conditions, collect=False):
        scores, _ = model.decoder(encoded.output, encoded.lengths, read, lengths)
    inside = written != model.ignore_id
    log_probs, targets = scores[inside].float().log_softmax(-1), written[inside]
    best, predicted = log_probs.max(-1)
    loss = -log_probs.gather(1, targets.unsqueeze(1)).squeeze(1)
    entropy = torch.special.entr(log_probs.exp()).sum(-1)
    return TokenPredictions(loss.cpu(), best.exp().cpu(), (predicted == targets).cpu(), entropy.cpu())


def joined(parts: Sequence[TokenPredictions]) -> TokenPredictions:
    """Join the predictions of several batches."""
    return TokenPredictions(*map(torch.cat, zip(*parts, strict=True)))
