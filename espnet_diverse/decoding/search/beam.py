"""The hypotheses of a batch of utterances during beam search, and the rules that end the search."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.functional.copies import copied

_END_STEPS, _END_MARGIN = 3, -10.0  # M and D_end of equation (50) of Watanabe et al. 2017


class Hypothesis(NamedTuple):
    """A hypothesis: its tokens without <sos/eos>, and its log score."""

    tokens: list[int]
    score: float


class Choice(NamedTuple):
    """Hypotheses of the next step, best first.

    Attributes:
        scores: Scores of the hypotheses (B, W); -inf where a row has fewer than W.
        parents: Index of the hypothesis that each of them extends (B, W).
        tokens: Token that each of them adds (B, W).
        ctc: CTC score of the added token (B, W).
    """

    scores: Tensor
    parents: Tensor
    tokens: Tensor
    ctc: Tensor

    def pick(self, index: Tensor) -> "Choice":
        """Select the hypotheses at `index` (B, W')."""
        return Choice(*(x.gather(1, index) for x in self))


class Beam:
    """W hypotheses of each of B active utterances.

    Args:
        least: Minimum number of tokens (B,); a shorter hypothesis that ends is discarded.
        greatest: Maximum number of tokens (B,), at which all hypotheses end.
        eos: Index of <sos/eos>.
        options: Search options; `nbest`, `penalty`, `length_penalty` and whether `maxlenratio` is 0 are used.
        bonus: The most that a token can add to the score of a hypothesis, apart from the penalty.
        sos: Index of the token before the first one; None stands for `eos`.

    Attributes:
        rows, numbers: Index of each active utterance in the whole batch, (B,) and as a list.
        tokens: Last token of each hypothesis (B, W).
        scores: Scores of the hypotheses (B, W); -inf where a row has fewer.
        found: The n-best hypotheses of each utterance of the whole batch; empty while any is active.
    """

    def __init__(
        self,
        least: Tensor,
        greatest: Tensor,
        eos: int,
        options: SearchOptions,
        bonus: float = 0.0,
        sos: int | None = None,
    ):
        batch, nbest = len(least), options.nbest
        self.bonus = bonus
        self.least, self.greatest, self.eos, self.options = least, greatest, eos, options
        self.step = 0
        self.numbers = list(range(batch))
        self.rows = torch.arange(batch, device=least.device)
        self.tokens = least.new_full((batch, 1), eos if sos is None else sos)
        self.prefixes = least.new_empty(batch, 1, 0)
        self.scores = torch.zeros(batch, 1, dtype=torch.float64, device=least.device)
        self.ended = torch.full(
            (batch, nbest), -torch.inf, dtype=torch.float64, device=least.device
        )  # normalised scores of the n-best completed hypotheses
        self.ended_prefixes = least.new_empty(batch, nbest, 0)  # tokens of these hypotheses
        self.best_ended_at = self.ended[:, :0]  # best score of the hypotheses completed at each step
        self.found: list[list[Hypothesis]] = [[] for _ in range(batch)]
        self._completed: list[tuple[list[int], Tensor, Tensor]] = []  # rows, their `ended` and `ended_prefixes`

    def at_greatest(self) -> Tensor:
        """Return whether the next token is the last one that the greatest length allows, (B,)."""
        return self.step == self.greatest - 1

    def advance(self, choice: Choice) -> tuple[Tensor | None, Choice]:
        """Take a step: finish hypotheses, drop completed utterances.

        Args:
            choice: The best extensions of the current hypotheses.

        Returns:
            Indices of the rows that remain, None where all remain, and their active hypotheses, with W reduced to the
            largest number in any row.
        """
        prefixes = torch.cat([_gather(self.prefixes, choice.parents), choice.tokens.unsqueeze(-1)], -1)
        exists = choice.scores > -torch.inf
        ends = exists & ((choice.tokens == self.eos) | self.at_greatest().unsqueeze(1))
        self._keep_completed(
            choice.scores.masked_fill(~ends | (self.step < self.least).unsqueeze(1), -torch.inf), prefixes
        )
        active = exists & ~ends
        done = self._no_longer_improves() | self._decided(choice.scores.masked_fill(~active, -torch.inf).amax(1))
        counts = active.sum(1).masked_fill_(done, 0).tolist()
        if min(counts) < choice.scores.size(1):
            order = active.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, : max(counts)]
            choice = choice._replace(scores=choice.scores.masked_fill(~active, -torch.inf)).pick(order)
            prefixes = _gather(prefixes, order)
        self.tokens, self.scores, self.prefixes = choice.tokens, choice.scores, prefixes
        self.step += 1
        return self._drop_completed(counts, choice)

    def _keep_completed(self, scores: Tensor, prefixes: Tensor) -> None:
        """Keep the n-best completed hypotheses; scores (B, W) are -inf where a hypothesis is not completed."""
        best = scores.amax(1, keepdim=True)
        self.best_ended_at = torch.cat([self.best_ended_at, best], 1)
        if not best.is_cuda and not bool((best > -torch.inf).any()):  # would wait for a GPU
            return
        missing = prefixes.size(2) - self.ended_prefixes.size(2)
        before = F.pad(self.ended_prefixes, (0, missing), value=self.eos)
        normalised = scores / prefixes.size(2) ** self.options.length_penalty
        self.ended, index = torch.cat([self.ended, normalised], 1).topk(self.ended.size(1))
        self.ended_prefixes = _gather(torch.cat([before, prefixes], 1), index)

    def _no_longer_improves(self) -> Tensor:
        """Return whether the best hypotheses completed at three steps are far below the best of all, (B,).

        As in ESPnet these are the steps 2, 3 and 4 before the current one.
        """
        last = self.step - 1
        if self.options.maxlenratio or last < _END_STEPS:
            return torch.zeros_like(self.rows, dtype=torch.bool)
        at = self.best_ended_at[:, last - _END_STEPS : last]
        best = self.best_ended_at.amax(1, keepdim=True)
        return ((at > -torch.inf) & (at - best < _END_MARGIN)).all(1)

    def _decided(self, best: Tensor) -> Tensor:
        """Return whether no active hypothesis, with best score `best` (B,), can still enter the n-best list, (B,).

        Log probabilities are at most 0, so that the score of a hypothesis can only increase by penalty and bonus.
        ESPnet continues to search here, with the same result (Huang et al. 2017, "When to finish?").
        """
        options, remaining = self.options, (self.greatest - self.step - 1).clamp(min=0)
        reachable = best + (max(options.penalty, 0.0) + self.bonus) * remaining
        if options.length_penalty:
            length = torch.where(reachable < 0, self.greatest, self.step + 2)
            reachable = reachable / length**options.length_penalty
        return self.ended[:, -1] >= reachable

    def _drop_completed(self, counts: list[int], choice: Choice) -> tuple[Tensor | None, Choice]:
        done = [row for row, count in enumerate(counts) if not count]
        if not done:
            return None, choice
        device, remaining = self.rows.device, [row for row, count in enumerate(counts) if count]
        ended, rows = copied(done, device), copied(remaining, device, torch.long)
        self._completed.append(([self.numbers[row] for row in done], self.ended[ended], self.ended_prefixes[ended]))
        self.numbers = [self.numbers[row] for row in remaining]
        for name in ("least", "greatest", "rows", "tokens", "prefixes", "scores", "ended", "ended_prefixes"):
            setattr(self, name, getattr(self, name)[rows])
        self.best_ended_at = self.best_ended_at[rows]
        if not remaining:
            self._read_completed()
        return rows, Choice(*(x[rows] for x in choice))

    def _read_completed(self) -> None:
        """Read the hypotheses of all utterances in two copies, at the end of the search."""
        numbers = [number for rows, _, _ in self._completed for number in rows]
        scores = torch.cat([ended for _, ended, _ in self._completed]).tolist()
        longest = self.ended_prefixes.size(2)
        padded = [F.pad(tokens, (0, longest - tokens.size(2)), value=self.eos) for _, _, tokens in self._completed]
        for number, ended, prefixes in zip(numbers, scores, torch.cat(padded).tolist(), strict=True):
            pairs = zip(prefixes, ended, strict=True)
            self.found[number] = [Hypothesis(before_end(p, self.eos), s) for p, s in pairs if s > -torch.inf]


def before_end(tokens: list[int], eos: int) -> list[int]:
    """The tokens before the first <sos/eos>; all of them where there is none."""
    return tokens[: tokens.index(eos)] if eos in tokens else tokens


def _gather(prefixes: Tensor, index: Tensor) -> Tensor:
    """Select prefixes: (B, W, L), index (B, W') -> (B, W', L)."""
    return prefixes.gather(1, index.unsqueeze(-1).expand(-1, -1, prefixes.size(-1)))
