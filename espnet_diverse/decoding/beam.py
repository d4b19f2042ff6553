"""The hypotheses of a batch of utterances during beam search, and the rules by which they end."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from espnet_diverse.decoding.options import Options

_END_STEPS, _END_MARGIN = 3, -10.0  # M and D_end of equation (50) of Watanabe et al. 2017


class Hypothesis(NamedTuple):
    """Tokens of a hypothesis, without <sos/eos>, and its score."""

    tokens: list[int]
    score: float


class Choice(NamedTuple):
    """Hypotheses of the next step, best first, (B, W) each: scores, -inf for none, which one each goes on from, the
    token that it adds, and the CTC score of that."""

    scores: Tensor
    parents: Tensor
    tokens: Tensor
    ctc: Tensor

    def pick(self, index: Tensor) -> "Choice":
        """The hypotheses at `index` (B, W')."""
        return Choice(*(x.gather(1, index) for x in self))


class Beam:
    """Hypotheses of B utterances that are not done, W of each.

    Args:
        least: Steps before which a hypothesis that ends is given up, (B,).
        greatest: Steps after which all hypotheses end, (B,).
        eos: Index of <sos/eos>.
        options: Of the search; `nbest`, `penalty`, `length_penalty` and whether `maxlenratio` is 0 count here.

    Attributes:
        rows: Which utterance of the whole batch each row is, (B,).
        tokens: Last token of each hypothesis (B, W).
        scores: Their scores (B, W); -inf where a row has fewer.
        found: The best hypotheses of each utterance of the whole batch; of those not done it is empty.
    """

    def __init__(self, least: Tensor, greatest: Tensor, eos: int, options: Options):
        batch, nbest = len(least), options.nbest
        self.least, self.greatest, self.eos, self.options = least, greatest, eos, options
        self.step = 0
        self.rows = torch.arange(batch, device=least.device)
        self.tokens = least.new_full((batch, 1), eos)
        self.prefixes = least.new_empty(batch, 1, 0)
        self.scores = torch.zeros(batch, 1, dtype=torch.float64, device=least.device)
        self.ended = torch.full(
            (batch, nbest), -torch.inf, dtype=torch.float64, device=least.device
        )  # scores of the best that ended,
        self.ended_prefixes = least.new_empty(batch, nbest, 0)  # their tokens,
        self.best_ended_at = self.ended[:, :0]  # and by step the best that ended there
        self.found: list[list[Hypothesis]] = [[] for _ in range(batch)]

    def advance(self, choice: Choice) -> tuple[Tensor | None, Choice]:
        """Take a step: end what ends, and let utterances go that are done.

        Returns:
            The rows that go on, None where all do, and the hypotheses of these that do, with W as small as may be.
        """
        prefixes = torch.cat([_at(self.prefixes, choice.parents), choice.tokens.unsqueeze(-1)], -1)
        exists = choice.scores > -torch.inf
        ends = exists & ((choice.tokens == self.eos) | (self.step == self.greatest - 1).unsqueeze(1))
        self._end(choice.scores.masked_fill(~ends | (self.step < self.least).unsqueeze(1), -torch.inf), prefixes)
        goes_on = exists & ~ends
        done = self._no_longer_improves() | self._decided(choice.scores.masked_fill(~goes_on, -torch.inf).amax(1))
        counts = goes_on.sum(1).masked_fill_(done, 0).tolist()
        if min(counts) < choice.scores.size(1):
            order = goes_on.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, : max(counts)]
            choice = choice._replace(scores=choice.scores.masked_fill(~goes_on, -torch.inf)).pick(order)
            prefixes = _at(prefixes, order)
        self.tokens, self.scores, self.prefixes = choice.tokens, choice.scores, prefixes
        self.step += 1
        return self._let_go(counts, choice)

    def _end(self, scores: Tensor, prefixes: Tensor) -> None:
        """Keep the best of those that ended before and now; scores (B, W), -inf where one does not end."""
        best = scores.amax(1, keepdim=True)
        self.best_ended_at = torch.cat([self.best_ended_at, best], 1)
        if not bool((best > -torch.inf).any()):
            return
        missing = prefixes.size(2) - self.ended_prefixes.size(2)
        before = F.pad(self.ended_prefixes, (0, missing), value=self.eos)
        normalised = scores / prefixes.size(2) ** self.options.length_penalty
        self.ended, index = torch.cat([self.ended, normalised], 1).topk(self.ended.size(1))
        self.ended_prefixes = _at(torch.cat([before, prefixes], 1), index)

    def _no_longer_improves(self) -> Tensor:
        """Whether the best that ended in each of three steps lies far below the best of all, (B,).

        The steps are those that ESPnet looks at, 2, 3 and 4 before this one.
        """
        last = self.step - 1
        if self.options.maxlenratio or last < _END_STEPS:
            return torch.zeros_like(self.rows, dtype=torch.bool)
        at = self.best_ended_at[:, last - _END_STEPS : last]
        best = self.best_ended_at.amax(1, keepdim=True)
        return ((at > -torch.inf) & (at - best < _END_MARGIN)).all(1)

    def _decided(self, best: Tensor) -> Tensor:
        """Whether nothing that goes on, of scores `best` (B,) at most, can come among the n-best any more, (B,).

        Log probabilities are at most 0, so that a hypothesis only loses as it grows, but for the penalty, which may be
        a bonus. ESPnet searches on here; what it finds is the same (Huang et al. 2017, "When to finish?").
        """
        options, left = self.options, (self.greatest - self.step - 1).clamp(min=0)
        reachable = best + max(options.penalty, 0.0) * left
        if options.length_penalty:
            length = torch.where(reachable < 0, self.greatest, self.step + 2)
            reachable = reachable / length**options.length_penalty
        return self.ended[:, -1] >= reachable

    def _let_go(self, counts: list[int], choice: Choice) -> tuple[Tensor | None, Choice]:
        done = [row for row, count in enumerate(counts) if not count]
        if not done:
            return None, choice
        for row, score, prefix in zip(
            self.rows[done].tolist(), self.ended[done].tolist(), self.ended_prefixes[done].tolist(), strict=True
        ):
            ended = zip(prefix, score, strict=True)
            self.found[row] = [Hypothesis(self._tokens(p), s) for p, s in ended if s > -torch.inf]
        kept = torch.tensor([row for row, count in enumerate(counts) if count], device=self.rows.device).long()
        for name in ("least", "greatest", "rows", "tokens", "prefixes", "scores", "ended", "ended_prefixes"):
            setattr(self, name, getattr(self, name)[kept])
        self.best_ended_at = self.best_ended_at[kept]
        return kept, Choice(*(x[kept] for x in choice))

    def _tokens(self, prefix: list[int]) -> list[int]:
        return prefix[: prefix.index(self.eos)] if self.eos in prefix else prefix


def _at(prefixes: Tensor, index: Tensor) -> Tensor:
    """prefixes (B, W, L), index (B, W') -> (B, W', L)."""
    return prefixes.gather(1, index.unsqueeze(-1).expand(-1, -1, prefixes.size(-1)))
