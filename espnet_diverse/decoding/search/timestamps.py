"""Whisper's tokens for times: the rules that a search keeps, and the parts of a text between them.

Radford et al. 2023, sections 2.3 and 4.5. A text with times is

    <|0.00|> first part<|2.40|><|2.60|> second part<|5.10|>

Each part has a token for its begin and one for its end. Times never decrease, a part takes some time, and the first
begins within a second. The decoder chooses between times one by one, so that the most probable one may have less than a
word even where it is certain that a part ends: a time follows where all of them together are more probable than any
other token.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.errors import ConfigError

_PER_SECOND = 50  # times, a frame of the encoder each
_LATEST_BEGIN = 1  # seconds of the window
_TODO = "choose another vad"


class TimestampRules:
    """The tokens that may follow the hypotheses of a batch.

    Args:
        times: Indices of the tokens for times.
        like: Tokens of the hypotheses at the beginning (B, W).

    Attributes:
        last: Number of the last time of each hypothesis (B, W), 0 for the first token of `times`.
        pair: Consecutive times at its end (B, W): 0 within a part, 1 after its end, 2 or more after a begin. It is 1
            before the first token, as if a part had ended at 0.
        begins: Whether no hypothesis has a token.
    """

    def __init__(self, times: range, like: Tensor):
        self.times, self.begins = times, True
        self.last, self.pair = torch.zeros_like(like), torch.ones_like(like)
        self._numbers = torch.arange(len(times), device=like.device)

    def read(self, tokens: Tensor) -> None:
        """Add the next token of each hypothesis (B, W)."""
        is_time = (tokens >= self.times.start) & (tokens < self.times.stop)
        self.last = torch.where(is_time, tokens - self.times.start, self.last)
        self.pair = (self.pair + 1) * is_time
        self.begins = False

    def keep(self, rows: Tensor) -> None:
        """Keep only the utterances `rows`."""
        self.last, self.pair = self.last[rows], self.pair[rows]

    def extend(self, parents: Tensor) -> None:
        """Replace the hypotheses by extensions of the hypotheses `parents` (B, W)."""
        self.last, self.pair = self.last.gather(1, parents), self.pair.gather(1, parents)

    def apply(self, scores: Tensor) -> Tensor:
        """Set scores (B, W, V) of tokens that may not follow to minus infinity, in place; the last is <sos/eos>."""
        times, words, end = (
            scores[..., self.times.start : self.times.stop],
            scores[..., : self.times.start],
            scores[..., -1],
        )
        least = (self.last + (self.pair == 0)).masked_fill(self.pair > 1, len(self.times))
        times.masked_fill_(self._numbers < least.unsqueeze(-1), -torch.inf)
        words.masked_fill_((self.pair == 1).unsqueeze(-1), -torch.inf)
        if self.begins:
            times[..., _LATEST_BEGIN * _PER_SECOND + 1 :] = -torch.inf
            end.fill_(-torch.inf)
        likelier = times.logsumexp(-1) > words.amax(-1).maximum(end)
        words.masked_fill_(likelier.unsqueeze(-1), -torch.inf)
        end.masked_fill_(likelier, -torch.inf)
        return scores


class TimedTokens(NamedTuple):
    """Tokens of a part without times, and its begin and end in seconds of the window."""

    start: float
    end: float
    tokens: list[int]


def parts_between(tokens: Sequence[int], times: range, seconds: float) -> tuple[list[TimedTokens], float]:
    """Parts of a text, and the second of the window at which the next window begins.

    After an end and a begin there is speech that the window may cut, so that the next window begins there, and what
    follows is left out. A text that has neither stands for the whole window, as does the silence after its last end.

    Args:
        tokens: Token indices of the text of a window.
        times: Indices of the tokens for times.
        seconds: Length of the window.
    """

    def second(place: int) -> float:
        return min((tokens[place] - times.start) / _PER_SECOND, seconds)

    if not tokens:
        return [], seconds
    count = len(tokens)
    is_time = [token in times for token in tokens]
    begins = [place + 1 for place in range(count - 1) if is_time[place] and is_time[place + 1]]
    is_whole = not begins or is_time[-2:] == [False, True]
    bounds = [0, *begins, *([count] if is_whole else [])]
    parts = []
    for first, after in zip(bounds, bounds[1:], strict=False):
        start = second(first) if is_time[first] else 0.0
        end = second(after - 1) if is_time[after - 1] and after - 1 > first else seconds
        parts.append(TimedTokens(start, end, [token for token in tokens[first:after] if token not in times]))
    return [part for part in parts if part.tokens], seconds if is_whole else second(begins[-1] - 1)


def check_timed(times: range | None, options: SearchOptions, word_timestamps: bool) -> None:
    """Refuse times by the decoder where it writes none, or where another part of a search knows none.

    Args:
        times: Indices of the decoder's tokens for times; None or none where it has none.
        options: Search options.
        word_timestamps: Whether times of words are requested.

    Raises:
        ConfigError: It is not possible.
    """
    if not times:
        raise ConfigError(f"vad whisper is not possible: the model writes no times, as Whisper models do; {_TODO}")
    if options.search == "greedy" or options.ctc_weight:
        raise ConfigError(
            "vad whisper is not possible with CTC, which knows no times; set ctc_weight=0 and search=batched"
        )
    if options.lm_weight:
        raise ConfigError("vad whisper is not possible with a language model, which knows no times; leave it out")
    if word_timestamps:
        raise ConfigError(f"word_timestamps is not possible with vad whisper, whose segments CTC has not read; {_TODO}")
