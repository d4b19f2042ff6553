"""The prediction of a search for one utterance, and its numbers as they are written."""

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor
    from torchaudio.functional import TokenSpan

type Spans = "list[TokenSpan]"
"""Frames of the tokens of a text, with their probabilities."""

_DIGITS = 6  # significant digits that float32 holds of any number
_DECIMALS = 4  # sums of logits of size 10 are off by some 1e-5 in float32


class Text(NamedTuple):
    """A hypothesis as text.

    Attributes:
        text: Detokenised text.
        tokens: Tokens of the text.
        score: Log score.
    """

    text: str
    tokens: list[str]
    score: float


class Prediction(NamedTuple):
    """Result of one utterance.

    Attributes:
        texts: The n-best texts, best first.
        log_probs: CTC log probabilities of labels (T, V), if they were requested.
        spans: Frames of the tokens of the best text by cross-attention, if they were requested.
    """

    texts: list[Text]
    log_probs: "Tensor | None"
    spans: "Spans | None" = None


def rounded_score(score: float) -> float:
    """A log score or probability with the digits that are certain in float32, as it is written to files.

    Kernels choose the order of a sum by the shapes of their operands and by the CPU, so the digits beyond these depend
    on the other utterances in a batch and on the machine. Searches compare and rank unrounded scores. Two scores that
    differ only in those digits are written alike, or differ by 1 in the last place if they lie on either side of a
    rounding boundary.
    """
    return round(float(f"{score:.{_DIGITS}g}"), _DECIMALS) + 0.0  # not -0.0


def json_score(score: float) -> float | None:
    """The certain digits of a score, or None for -inf, the score without a hypothesis, which JSON cannot store."""
    return rounded_score(score) if math.isfinite(score) else None


def rounded_probability(probability: float) -> float:
    """A probability with the digits that do not depend on the batch or the CPU in float32."""
    return round(probability, _DECIMALS)
