"""When each word was said, and how sure the model is of it, by CTC.

The most probable CTC path that gives the tokens of a text (Graves et al. 2006, "Connectionist Temporal
Classification", section 4.1) says at which frames each of them stands; torchaudio's `forced_align` finds it. CTC learns
to name a token in a frame or two of the time in which it is said, and blank in the others, so a word seems shorter than
it was.

Confidence of a token is the mean of its CTC posteriors over its frames, and of a word the mean of its tokens'. They are
those of CTC alone, whatever else the search has ranked the text by.
"""

import logging
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torchaudio.functional import TokenSpan, forced_align, merge_tokens

from espnet_diverse.audio.resampling import RATE
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.transcription.cjk import LETTER
from espnet_diverse.transcription.result import Word
from espnet_diverse.vocabulary import SPACE

_BEGIN = "▁"  # of a word, in the pieces of sentencepiece


class FrameTimes(NamedTuple):
    """Where the frames of an encoder lie: the middle of the first and the step to the next, in seconds."""

    first: float
    step: float

    def edge(self, frame: int) -> float:
        """Where `frame` begins, which is where the one before it ends, in seconds."""
        return self.first + (frame - 0.5) * self.step


def frame_times(model: nn.Module) -> FrameTimes:
    """Where the frames of a model's encoder lie, from the hop of its frontend and the strides of its subsampling.

    Args:
        model: Of speech recognition or translation; its frontend centres frame t on sample t * hop.

    Raises:
        ModelError: Its frontend has no hop.
    """
    hop = getattr(model.frontend, "hop_length", None)
    if not hop:
        raise ModelError(f"frontend {type(model.frontend).__name__} has no hop_length; leave word_timestamps away")
    first, step = 0.0, 1  # in feature frames
    for module in getattr(model.encoder.embed, "conv", nn.Identity()).modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d):
            first += ((module.kernel_size[0] - 1) / 2 - module.padding[0]) * step
            step *= module.stride[0]
    return FrameTimes(first * hop / RATE, step * hop / RATE)


def check_ctc(ctc: nn.Module | None) -> None:
    """Refuse word times of a model that has no CTC over the text that it writes.

    Args:
        ctc: Its CTC module over that text; None where it was trained without.

    Raises:
        ConfigError: There is none.
    """
    if ctc is None:
        raise ConfigError(
            "word_timestamps is not possible: the model was trained without CTC over its text; leave it away"
        )


def align(log_probs: Tensor, ids: Sequence[int]) -> list[TokenSpan] | None:
    """The frames of each token on the most probable CTC path of a text.

    Args:
        log_probs: Log probabilities of labels (T, V), label 0 the blank.
        ids: Labels of the text, none of them blank.

    Returns:
        For each label its first frame `start`, the frame `end` after its last, and as `score` the mean of its
        probabilities there; None where the text needs more frames: one a label, and a blank between equal ones.
    """
    if not ids:
        return []
    if len(ids) + sum(one == other for one, other in pairwise(ids)) > len(log_probs):
        return None
    path, scores = forced_align(log_probs.float().cpu().unsqueeze(0), torch.tensor([ids]))
    return merge_tokens(path[0], scores[0].exp())


def timed(
    log_probs: Tensor, ids: Sequence[int], tokens: Sequence[str], frames: FrameTimes, start: float, end: float
) -> tuple[tuple[float, ...], tuple[Word, ...]]:
    """Confidence of each token of a segment, and its words with their times; words do not overlap.

    Args:
        log_probs: CTC log probabilities of the segment (T, V), label 0 the blank.
        ids: Indices of the tokens of its text, none of them blank.
        tokens: The tokens: characters with <space>, or pieces of sentencepiece.
        frames: Where the frames lie, from the beginning of the segment.
        start, end: When the segment begins and ends in the recording, in seconds.

    Returns:
        Confidences from 0 to 1, one a token, and words; neither, with a warning, where the text has more tokens than
        CTC can place in the frames.
    """
    spans = align(log_probs, ids)
    if spans is None:
        logging.warning(
            "%d tokens do not fit into %d frames from %.2f s on; their words get no times",
            *(len(ids), len(log_probs), start),
        )
        return (), ()

    def at(frame: int) -> float:
        return min(max(start, start + frames.edge(frame)), end)

    words = []
    for text, first, last in words_of(tokens):
        own = [span.score for span in spans[first:last]]
        words.append(Word(text, at(spans[first].start), at(spans[last - 1].end), sum(own) / len(own)))
    return tuple(span.score for span in spans), tuple(words)


def words_of(tokens: Sequence[str]) -> list[tuple[str, int, int]]:
    """The words that tokens make: the text of each, its first token and the one after its last.

    A word begins after <space>, at a piece with "▁", and before and after Chinese characters and kana, which are words
    of their own with the punctuation behind them. A piece is never cut.
    """
    words: list[tuple[str, int, int]] = []
    begins = True
    for index, token in enumerate(tokens):
        begins |= token == SPACE or token.startswith(_BEGIN)
        piece = "" if token == SPACE else token.removeprefix(_BEGIN)
        if not piece:
            continue
        if begins or _apart(words[-1][0], piece):
            words.append((piece, index, index + 1))
        else:
            text, first, _ = words[-1]
            words[-1] = text + piece, first, index + 1
        begins = False
    return words


def _apart(word: str, piece: str) -> bool:
    """Whether a piece is no part of the word before it, though no space is between them."""
    joins = not piece[0].isalnum() or not any(map(str.isalnum, word))  # punctuation
    return not joins and bool(LETTER.search(word) or LETTER.match(piece))
