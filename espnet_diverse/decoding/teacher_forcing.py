"""Teacher forcing: what an attention decoder predicts for each token of given texts, from the tokens before it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.functional.sentence_ends import add_sos_eos
from espnet_diverse.scope import scope


class Encoded(NamedTuple):
    """A batch after the encoder.

    Attributes:
        output: Encoder output (B, T, M).
        lengths: Number of frames of each utterance (B,).
        conditions: Condition indices (B,) by condition, or (1,) where they are those of all.
    """

    output: Tensor
    lengths: Tensor
    conditions: Mapping[str, Tensor]


@torch.inference_mode()
def encode(predictor: Predictor, sources: Sequence[NDArray], conditions: Sequence[Mapping[str, int]]) -> Encoded:
    """Run the encoder over a batch; what an utterance gives does not depend on the others.

    Args:
        predictor: The model.
        sources: What `Predictor.read` returned for each utterance.
        conditions: Condition indices of each utterance.
    """
    ids = {
        name: torch.tensor([each[name] for each in conditions], device=predictor.device)
        for name in predictor.conditions.names
    }
    encoding = predictor.encoding
    features = sources if predictor.preprocess is None else [encoding.features(source) for source in sources]
    return Encoded(*encoding.encode(features, ids), ids)


@torch.inference_mode()
def token_log_probs(predictor: Predictor, encoded: Encoded, texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Run the decoder over the token indices of B texts.

    Returns:
        Log probabilities (n, V) at the n tokens of all texts, each with its end, one text after the other; and these
        tokens (n,).
    """
    model, device = predictor.encoding.model, predictor.device
    tokens = [torch.tensor(text, dtype=torch.long, device=device) for text in texts]
    lengths = torch.tensor([len(text) + 1 for text in texts], device=device)
    padded = pad_sequence(tokens, batch_first=True, padding_value=model.ignore_id)
    read, written = add_sos_eos(padded, model.sos, model.eos, model.ignore_id)
    with scope(encoded.conditions, collect=False):
        scores, _ = model.decoder(encoded.output, encoded.lengths, read, lengths)
    inside = written != model.ignore_id
    return scores[inside].float().log_softmax(-1), written[inside]
