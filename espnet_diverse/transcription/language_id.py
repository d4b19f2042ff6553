"""Identification of the spoken language by the model that transcribes.

The model decodes the beginning of a recording once for each language that it knows. With a wrong language the text fits
the audio less well, so its joint CTC/attention score is lower. With s(l) the sum over segments of the best text's log
score for language l, and n(l) the number of its tokens with <sos/eos>,

    p(l) = exp(s(l) / (temperature n(l))) / sum over languages m of exp(s(m) / (temperature n(m)))

Without n the language with the shortest texts would win most of the time, because each token lowers the probability of
a text. The result is unreliable where the model does not recognise the speech. A multitask model, such as OWSM,
and Whisper write the language themselves, as the first token.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from espnet_diverse.decoding.options import SAME_LANGUAGE_TASKS, SearchOptions
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.decoding.search.ctc_prefix import IMPOSSIBLE

_TEMPERATURE = 0.1  # with the greatest likelihood on the dev sets of three models of seven and ten languages


def spoken_conditions(search: Predictor) -> list[str]:
    """Conditions of a model that hold the spoken language; in speech recognition the text is in that language too."""
    spoken = ("lang", "tgtlang") if search.task in SAME_LANGUAGE_TASKS else ("lang",)
    return [condition for condition in spoken if condition in search.conditions.names]


def first_seconds(chunks: Iterable[tuple[NDArray[np.float32], float]], seconds: float) -> list[NDArray[np.float32]]:
    """Features of the first seconds of chunks; a rest of less than a second is left out.

    Args:
        chunks: Features (T, F) and length in seconds of each chunk of speech.
        seconds: Seconds to return.
    """
    remaining, selected = seconds, []
    for features, length in chunks:
        if length > remaining >= 1.0:
            selected.append(features[: ceil(len(features) * remaining / length)])
        elif length <= remaining:
            selected.append(features)
        remaining -= length
    return selected


def identify_language(
    search: Predictor,
    features: Sequence[NDArray[np.float32]],
    conditions: Mapping[str, int],
    options: SearchOptions | None = None,
) -> dict[str, float]:
    """Probabilities of the languages of a model for a recording.

    Args:
        search: Search with a model of speech recognition or speech translation.
        features: Features of the first segments of speech of the recording, (T, F) each; at least one.
        conditions: Indices by condition, for the conditions of the recording that are known.
        options: Search options; by default, the options that the model was loaded with.

    Returns:
        Probabilities by language, highest first; empty if the model has no condition for the spoken language, or if
        it is among `conditions`.
    """
    unknown = [condition for condition in spoken_conditions(search) if condition not in conditions]
    if not unknown:
        return {}
    if search.names_language:
        return search.languages(max(features, key=len))
    names = search.conditions.names
    languages = [name for name in names[unknown[0]] if all(name in names[condition] for condition in unknown)]
    candidates = [
        {**conditions, **{condition: names[condition].index(name) for condition in unknown}} for name in languages
    ]
    # The length penalty would divide scores by n again, and the penalty and hotwords would add to tokens.
    options = options or search.options
    nbest = options.nbest if options.search == "sampling" else 1  # of samples, the best of all is taken
    plain = replace(options, length_penalty=0.0, penalty=0.0, hotword_weight=0.0, nbest=nbest)
    nothing = torch.zeros(2, 1, dtype=torch.float64)
    scores, tokens = sum((_scores(search, segment, candidates, plain) for segment in features), nothing)
    probabilities = (scores / (_TEMPERATURE * tokens)).softmax(0).tolist()
    return dict(sorted(zip(languages, probabilities, strict=True), key=lambda one: -one[1]))


def _scores(
    search: Predictor, segment: NDArray[np.float32], candidates: Sequence[Mapping[str, int]], options: SearchOptions
) -> Tensor:
    """Log scores of the best texts of a segment for N candidates, and their numbers of tokens, (2, N) float64."""
    size = max(1, search.batch_frames // len(segment))
    scores = []
    for first in range(0, len(candidates), size):
        batch = candidates[first : first + size]
        results = search.batch([segment] * len(batch), batch, options)
        scores += [(best[0].score, len(best[0].tokens) + 1) if best else (IMPOSSIBLE, 1) for best in results]
    return torch.tensor(scores, dtype=torch.float64).T
