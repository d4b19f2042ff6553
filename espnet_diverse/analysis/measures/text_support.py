"""Support of texts by CTC: of the texts that a model writes, and of the references.

See `decoding/ctc_alignment.py`. A text of the model without support may be invented; a reference without support may
be wrong, or belong to another recording.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.analysis.samples import Sample, batches
from espnet_diverse.decoding.ctc_alignment import align, ctc_support
from espnet_diverse.decoding.options import LEAST_SUPPORT
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.errors import ConfigError
from espnet_diverse.progress import progress


@dataclass(frozen=True)
class Supported:
    """One utterance.

    Attributes:
        utterance: Id of the utterance.
        text: Text that the model writes.
        support: Share of its tokens that CTC supports, 0 to 1; 1 for an empty text, which invents nothing.
        reference: Reference text.
        reference_support: Share of the tokens of the reference that CTC supports.
    """

    utterance: str
    text: str
    support: float
    reference: str
    reference_support: float


@dataclass(frozen=True)
class TextSupport:
    """Utterances with the support of their texts."""

    utterances: Sequence[Supported]

    def shares(self) -> tuple[NDArray, NDArray]:
        """Return the support of the model's texts and of the references, (utterances,) each."""
        return (
            np.array([one.support for one in self.utterances]),
            np.array([one.reference_support for one in self.utterances]),
        )

    def invented(self) -> list[Supported]:
        """Return the utterances whose text may be invented, least supported first."""
        return sorted((one for one in self.utterances if one.support < LEAST_SUPPORT), key=lambda one: one.support)

    def summary(self) -> dict:
        """Return the numbers, for JSON."""
        support, reference = self.shares()
        return {
            "ctc_support": float(support.mean()),
            "reference_ctc_support": float(reference.mean()),
            "may_be_invented": [one.utterance for one in self.invented()],
            "utterances": {
                one.utterance: {
                    "text": one.text,
                    "ctc_support": one.support,
                    "reference_ctc_support": one.reference_support,
                }
                for one in self.utterances
            },
        }


def check_support(predictor: Predictor) -> None:
    """Refuse a model whose texts CTC cannot judge.

    Raises:
        ConfigError: The model has no CTC over its output text, or CTC alone writes the text.
    """
    if predictor.ctc is None:
        raise ConfigError("--ctc_support: the model has no CTC over its output text; leave it out")
    if predictor.options.ctc_weight == 1:
        raise ConfigError(
            "--ctc_support: CTC alone writes the texts of this model, and supports them all; leave it out"
        )


def measure_support(predictor: Predictor, samples: Sequence[Sample]) -> TextSupport:
    """Decode utterances and measure the support of the decoded texts and of the references."""
    utterances = []
    for batch in progress(list(batches(predictor, samples)), "CTC support", unit="batch"):
        sources, conditions = [one.source for one in batch], [one.conditions for one in batch]
        for sample, best in zip(batch, predictor.find(sources, conditions, posteriors=True), strict=True):
            text, words, _ = best.texts[0] if best.texts else ("", [], 0.0)
            both = predictor.tokens.indices(words), sample.tokens
            support = [ctc_support(align(best.log_probs, ids, predictor.ctc)) if len(ids) else 1.0 for ids in both]
            utterances.append(Supported(sample.utterance, text, support[0], sample.text, support[1]))
    return TextSupport(sorted(utterances, key=lambda one: one.utterance))
