"""The loss of a model for each utterance."""

from collections.abc import Sequence

import numpy as np
import torch
from espnet2.train.abs_espnet_model import AbsESPnetModel
from numpy.typing import NDArray

from espnet_diverse.analysis.samples import Sample
from espnet_diverse.analysis.windows.layer_cache import LayerCache


@torch.inference_mode()
def losses(model: AbsESPnetModel, utterances: Sequence[Sample], cache: LayerCache | None = None) -> NDArray:
    """Compute the loss of each utterance that a model is trained with, alone and in evaluation mode.

    For Whisper it is the cross-entropy of the decoder, summed over the tokens of the text and its end; with CTC it is
    the weighted sum of both losses.

    Args:
        model: A model of speech recognition or translation, left in evaluation mode.
        utterances: The utterances, whose inputs are samples (L,) float32.
        cache: Cache of the encoder's layers that is installed, or None.

    Returns:
        Losses in nats (U,).
    """
    model.eval()
    values = []
    for number, utterance in enumerate(utterances):
        if cache is not None:
            cache.utterance = number
        values.append(_loss(model, utterance))
    return np.array(values)


def _loss(model: AbsESPnetModel, utterance: Sample) -> float:
    device = next(model.parameters()).device
    speech = torch.from_numpy(utterance.source).unsqueeze(0).to(device)
    text = torch.tensor([list(utterance.tokens)], device=device)
    ids = {name: torch.tensor([[index]], device=device) for name, index in utterance.conditions.items()}
    lengths = {"speech_lengths": speech.size(1), "text_lengths": text.size(1)}
    counts = {name: torch.tensor([count], device=device) for name, count in lengths.items()}
    return float(model(speech=speech, text=text, **counts, **ids)[0])
