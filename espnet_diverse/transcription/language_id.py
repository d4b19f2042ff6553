"""Finding the language that is spoken in a recording, by the model that is to transcribe it.

The model transcribes the beginning once for each language that it knows, as if that were spoken. A text in another
language than is spoken fits the sound less, so its joint CTC/attention score is lower. With s(l) the sum over stretches
of speech of the best text's log score for language l, and n(l) the number of its tokens with <sos/eos>,

    p(l) = exp(s(l) / (temperature n(l))) / sum over languages m of exp(s(m) / (temperature n(m)))

Without n the language with the shortest texts would be found most of the time: the more tokens a text has, the lower is
its probability. Where the model does not recognise the speech, what is found is worth little.
"""

from collections.abc import Mapping, Sequence

import torch
from numpy.typing import NDArray
from torch import Tensor

from espnet_diverse.decoding.ctc_prefix import IMPOSSIBLE
from espnet_diverse.decoding.options import Options
from espnet_diverse.decoding.predictor import Predictor

_TEMPERATURE = 0.1  # the likeliest one for dev sets of three models of seven and ten languages


def spoken_conditions(search: Predictor) -> list[str]:
    """Conditions by which a model depends on the spoken language; in speech recognition the text is in it too."""
    spoken = ("lang", "tgtlang") if search.task == "asr" else ("lang",)
    return [condition for condition in spoken if condition in search.conditions.names]


def find_language(
    search: Predictor,
    features: Sequence[NDArray],
    conditions: Mapping[str, int],
    options: Options | None = None,
) -> dict[str, float]:
    """How likely each language that a model knows is the one that is spoken.

    Args:
        search: Of speech recognition or speech translation.
        features: Of the first stretches of speech of a recording, (T, F) each; at least one.
        conditions: Index by condition of what is known of the recording.
        options: Search options; by default those that the model was loaded with.

    Returns:
        Probability by name, likeliest first; nothing where the spoken language makes no difference to the model, or is
        among `conditions`.
    """
    axes = [condition for condition in spoken_conditions(search) if condition not in conditions]
    if not axes:
        return {}
    names = search.conditions.names
    languages = [name for name in names[axes[0]] if all(name in names[condition] for condition in axes)]
    candidates = [
        {**conditions, **{condition: names[condition].index(name) for condition in axes}} for name in languages
    ]
    scores, tokens = sum(_scores(search, stretch, candidates, options) for stretch in features).unbind()
    found = (scores / (_TEMPERATURE * tokens)).softmax(0).tolist()
    return dict(sorted(zip(languages, found, strict=True), key=lambda one: -one[1]))


def _scores(
    search: Predictor, stretch: NDArray, candidates: Sequence[Mapping[str, int]], options: Options | None
) -> Tensor:
    """Log scores of the best texts of a stretch for N candidates' task indices, and their tokens, (2, N) float64."""
    size = max(1, search.batch_frames // len(stretch))
    scores = []
    for first in range(0, len(candidates), size):
        batch = candidates[first : first + size]
        found = search.batch([stretch] * len(batch), batch, options)
        scores += [(best[0].score, len(best[0].tokens) + 1) if best else (IMPOSSIBLE, 1) for best in found]
    return torch.tensor(scores, dtype=torch.float64).T
