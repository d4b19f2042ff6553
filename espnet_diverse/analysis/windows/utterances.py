"""Utterances of a data directory with their texts, and the loss of a model for each."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from espnet2.train.abs_espnet_model import AbsESPnetModel
from numpy.typing import NDArray

from espnet_diverse.analysis.samples import read_speech
from espnet_diverse.analysis.windows.layer_cache import LayerCache
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.decoding.token_text import TokenText
from espnet_diverse.errors import DataError
from espnet_diverse.text.vocabulary import Vocabulary

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Utterance:
    """An utterance.

    Attributes:
        name: Its id.
        samples: Audio (L,) float32.
        tokens: Token indices of its text.
        conditions: Index of the value of each condition that the model needs.
    """

    name: str
    samples: NDArray
    tokens: Sequence[int]
    conditions: Mapping[str, int]


def read_utterances(
    data: DataDir, conditions: Mapping[str, Mapping[str, int]], vocabulary: Vocabulary | TokenText, rate: int | None
) -> tuple[list[Utterance], dict[str, str]]:
    """Read utterances; those that cannot be read are left out.

    Args:
        data: The data directory.
        conditions: For each utterance to read, the index of the value of each condition that the model needs.
        vocabulary: Vocabulary of the texts.
        rate: Sampling rate in Hz of the audio that the model reads.

    Returns:
        The utterances, and the reason for each one that was left out, by id.

    Raises:
        DataError: No utterance could be read.
    """
    read, skipped = [], {}
    for name, known in conditions.items():
        try:
            read.append(Utterance(name, read_speech(data, name, rate), vocabulary.encode(data.text[name]), known))
        except DataError as error:
            skipped[name] = str(error)
            log.warning("%s was left out: %s", name, error)
    if not read:
        name, reason = next(iter(skipped.items()))
        raise DataError(f"none of {len(skipped)} utterances could be read; first {name}: {reason}")
    return read, skipped


@torch.inference_mode()
def losses(model: AbsESPnetModel, utterances: Sequence[Utterance], cache: LayerCache | None = None) -> NDArray:
    """Compute the loss of each utterance that a model is trained with, alone and in evaluation mode.

    For Whisper it is the cross-entropy of the decoder, summed over the tokens of the text and its end; with CTC it is
    the weighted sum of both losses.

    Args:
        model: A model of speech recognition or translation, left in evaluation mode.
        utterances: The utterances.
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


def _loss(model: AbsESPnetModel, utterance: Utterance) -> float:
    device = next(model.parameters()).device
    speech = torch.from_numpy(utterance.samples).unsqueeze(0).to(device)
    text = torch.tensor([list(utterance.tokens)], device=device)
    ids = {name: torch.tensor([[index]], device=device) for name, index in utterance.conditions.items()}
    lengths = {"speech_lengths": speech.size(1), "text_lengths": text.size(1)}
    counts = {name: torch.tensor([count], device=device) for name, count in lengths.items()}
    return float(model(speech=speech, text=text, **counts, **ids)[0])
