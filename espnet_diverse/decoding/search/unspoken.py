"""Filters for hallucinations of Whisper: repetitions without end, and texts of recordings without speech.

Radford et al. 2023, section 4.5, take a segment for silence where the probability of no speech is above .6 and the mean
log probability of a token below -1. They detect repetitions by the size of the compressed text and search again with
random numbers; here the repeated part is cut, without another search.
"""

from collections.abc import Sequence

from espnet_diverse.decoding.search.beam import Hypothesis

_REPEATS = 3  # a text with fewer repetitions is kept
_RATE = 0.1  # tokens per frame of the encoder, 5 a second: repeated words are hardly spoken as fast
_NO_SPEECH, _UNSURE = 0.6, -1.0


def without_loops(hypotheses: Sequence[Hypothesis], frames: int) -> list[Hypothesis]:
    """Hypotheses whose endless repetitions are cut after the first.

    The same words may be spoken several times, so that short hypotheses stay. A decoder in a loop fills the time, with
    the silence after the audio, with more words than anybody speaks.

    Args:
        hypotheses: Hypotheses of an utterance.
        frames: Number of its encoder frames.
    """
    return [hyp._replace(tokens=_cut(hyp.tokens)) if len(hyp.tokens) >= _RATE * frames else hyp for hyp in hypotheses]


def heard(
    hypotheses: list[Hypothesis], no_speech: float, length_penalty: float = 0.0, added: float = 0.0
) -> list[Hypothesis]:
    """Hypotheses of an utterance, best first, or one without tokens where there is no speech.

    Args:
        hypotheses: The hypotheses.
        no_speech: Probability that there is no speech.
        length_penalty: Exponent of the number of tokens that scores were divided by.
        added: What the penalty and hotwords added to the score of the best one, before it was divided.
    """
    if not hypotheses or no_speech <= _NO_SPEECH:
        return hypotheses
    best, count = hypotheses[0], len(hypotheses[0].tokens) + 1
    mean = best.score * count ** (length_penalty - 1) - added / count
    return hypotheses if mean >= _UNSURE else [best._replace(tokens=[])]


def _cut(tokens: list[int]) -> list[int]:
    """Tokens up to the end of the first of several repetitions, or all tokens.

    The repetitions make up half of the text, or begin a rest of few different tokens, in another order each time.
    """
    return tokens[: min((_end(tokens, period) for period in range(1, len(tokens) // _REPEATS + 1)), default=None)]


def _end(tokens: list[int], period: int) -> int:
    """The end of the first of several repetitions of `period` tokens, or the end of the text."""
    run = 0  # consecutive tokens that equal the one a period before
    for place in range(period, len(tokens)):
        run = run + 1 if tokens[place] == tokens[place - period] else 0
        if run >= (_REPEATS - 1) * period:
            end = place - run + 1
            rest = tokens[end - period :]
            if 2 * (run + period) >= len(tokens) or 2 * _REPEATS * len(set(rest)) <= len(rest):
                return end
    return len(tokens)
