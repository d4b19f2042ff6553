"""CTC prefix probabilities of a batch of utterances, all hypotheses and all candidates at once.

Watanabe et al. 2017, "Hybrid CTC/attention architecture for end-to-end speech recognition", Algorithm 2, in logarithms.
Let x_t(c) be the log probability of label c at frame t, and r_t(h) the log probability of all paths of frames 0 ... t
that collapse to the labels h, separately for paths that end in h's last label (n) and in a blank (b). Then

    phi_t(h, c) = r_t^b(h) where c is h's last label, else log(exp r_t^n(h) + exp r_t^b(h))
    r_t^n(h c) = x_t(c) + log(exp r_{t-1}^n(h c) + exp phi_{t-1}(h, c))
    r_t^b(h c) = x_t(blank) + log(exp r_{t-1}^n(h c) + exp r_{t-1}^b(h c))
    psi(h c) = log sum_t exp(phi_{t-1}(h, c) + x_t(c)),    psi(h eos) = log(exp r_T^n(h) + exp r_T^b(h))

phi_{-1} is 0 for the empty h, otherwise log 0. Candidates need only psi, which has no recursion. The recursions, which
only surviving hypotheses need, are linear in probabilities and have a closed form: with X_t = x_0(c) + ... + x_t(c),

    r_t^n(h c) = X_t + log sum_{s <= t} exp(phi_{s-1}(h, c) - X_{s-1})

and likewise r^b. X becomes very negative and few terms dominate these sums, so they are computed in float64.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

IMPOSSIBLE = -1e10
"""Log score of events with probability 0; finite, as in ESPnet, so that all hypotheses can be ranked."""


_LEAST = -87.0
"""Logarithm of about the smallest number that float32 has with full precision."""


class Paths(NamedTuple):
    """Log probabilities of the paths of W hypotheses of each of B utterances.

    Attributes:
        r: Paths up to each frame that collapse to the hypothesis (B, W, T); r^n and r^b together.
        r_b: The paths among them that end in a blank (B, W, T).
        last: Last label of the hypotheses (B, W).
        empty: Whether the hypotheses have no label.
    """

    r: Tensor
    r_b: Tensor
    last: Tensor
    empty: bool = False

    def of(self, parents: Tensor) -> "Paths":
        """Paths of the hypotheses `parents` (B, K)."""
        rows = parents.unsqueeze(-1).expand(-1, -1, self.r.size(-1))
        return Paths(self.r.gather(1, rows), self.r_b.gather(1, rows), self.last.gather(1, parents), self.empty)


class CTCPrefixScorer:
    """CTC scores of W hypotheses of each of B utterances.

    Args:
        log_probs: Log probabilities of labels (B, T, V), label 0 the blank.
        lengths: Frames of each utterance (B,).
        eos: Index of <sos/eos>.
    """

    def __init__(self, log_probs: Tensor, lengths: Tensor, eos: int):
        batch, time, _ = log_probs.shape
        self.eos = eos
        #: Log probabilities of all utterances (B * V, T), contiguous per label; `first` is the offset of an utterance.
        self.labels = log_probs.transpose(1, 2).reshape(-1, time)
        self.first = torch.arange(0, len(self.labels), len(self.labels) // batch, device=lengths.device).view(-1, 1, 1)
        self.probabilities: Tensor | None = None  # (B, T, V), computed when all labels are scored
        padding = torch.arange(time, device=lengths.device) >= lengths.unsqueeze(1)
        self.padding = padding.unsqueeze(1) if padding.is_cuda or bool(padding.any()) else None  # (B, 1, T)
        self.ends = (lengths - 1).view(-1, 1, 1)
        self.blank = log_probs[..., 0].double().cumsum(1).unsqueeze(1)  # (B, 1, T)
        self.before = _shifted(self.blank, 0.0)
        self.paths = Paths(self.blank, self.blank, lengths.new_full((batch, 1), eos), empty=True)
        self.psi = self.blank.new_zeros(batch, 1)

    def score(self, candidates: Tensor | None) -> Tensor:
        """Compute log p(candidate | hypothesis) in float64; blank has the score `IMPOSSIBLE`.

        Args:
            candidates: Labels (B, W, K) that can follow each hypothesis, including <eos>; None scores all V labels.

        Returns:
            Scores (B, W, K).
        """
        paths = self.paths
        end = paths.r.gather(2, self.ends.expand(-1, paths.r.size(1), 1)).clamp(min=IMPOSSIBLE)
        if candidates is None:
            psi = self._prefix_of_all(self._phi(paths.r, paths.empty))
            psi = psi.scatter(-1, paths.last.unsqueeze(-1), self._again(paths))
            psi[..., self.eos : self.eos + 1], psi[..., 0] = end, IMPOSSIBLE
        else:
            psi = self._prefixes(paths, candidates).masked_fill(candidates == 0, IMPOSSIBLE)
            psi = torch.where(candidates == self.eos, end, psi)
        return psi - self.psi.unsqueeze(-1)

    def extend(self, parents: Tensor, tokens: Tensor, scores: Tensor) -> None:
        """Replace the hypotheses by their extensions.

        Args:
            parents: Index of the hypothesis that each extends (B, W).
            tokens: Label that is appended (B, W).
            scores: Score of that label, from `score` (B, W).
        """
        self.paths = self._extended(self.paths.of(parents), tokens)
        self.psi = self.psi.gather(1, parents) + scores

    def keep(self, rows: Tensor) -> None:
        """Keep only the utterances `rows`."""
        for name in ("first", "ends", "blank", "before", "psi"):
            setattr(self, name, getattr(self, name)[rows])
        self.paths = Paths(*(x[rows] for x in self.paths[:3]), self.paths.empty)
        self.padding = None if self.padding is None else self.padding[rows]
        self.probabilities = None if self.probabilities is None else self.probabilities[rows]

    def _extended(self, paths: Paths, labels: Tensor) -> Paths:
        """Paths of hypotheses that are longer by labels (B, W)."""
        repeated = (labels == paths.last).unsqueeze(-1)
        phi = self._phi(torch.where(repeated, paths.r_b, paths.r), paths.empty)
        along = self._label_rows(labels.unsqueeze(-1)).squeeze(2).cumsum(-1, dtype=torch.float64)  # X
        r_n = along + (phi - _shifted(along, 0.0)).logcumsumexp(-1)
        r_b = self.blank + (_shifted(r_n, -torch.inf) - self.before).logcumsumexp(-1)
        return Paths(torch.logaddexp(r_n, r_b), r_b, labels)

    def _phi(self, r: Tensor, empty: bool) -> Tensor:
        """phi_{t-1} for each t, log 0 at padding frames: (B, W, T) -> (B, W, T)."""
        phi = _shifted(r, 0.0 if empty else -torch.inf)
        return phi if self.padding is None else phi.masked_fill_(self.padding, -torch.inf)

    def _again(self, paths: Paths) -> Tensor:
        """psi of the last label repeated (B, W, 1)."""
        return self._prefix(self._phi(paths.r_b, paths.empty), paths.last.unsqueeze(-1))

    def _prefixes(self, paths: Paths, labels: Tensor) -> Tensor:
        """psi of labels (B, W, K) after the hypotheses."""
        psi = self._prefix(self._phi(paths.r, paths.empty), labels)
        return torch.where(labels == paths.last.unsqueeze(-1), self._again(paths), psi)

    def _prefix(self, phi: Tensor, candidates: Tensor) -> Tensor:
        """psi of candidates (B, W, K)."""
        top = phi.amax(-1, keepdim=True).clamp(min=IMPOSSIBLE)
        terms = (phi - top).float().unsqueeze(2) + self._label_rows(candidates)
        return (_logsumexp(terms) + top).clamp(min=IMPOSSIBLE)

    def _prefix_of_all(self, phi: Tensor) -> Tensor:
        """psi of all labels (B, W, V); the sum over frames is a matrix product."""
        top = phi.amax(-1, keepdim=True).clamp(min=IMPOSSIBLE)
        if self.probabilities is None:
            count = len(self.labels) // len(self.first)  # in the first step, with all utterances
            self.probabilities = self.labels.view(-1, count, phi.size(-1)).transpose(1, 2).double().exp()
        return (torch.matmul((phi - top).exp(), self.probabilities).log() + top).clamp(min=IMPOSSIBLE)

    def _label_rows(self, labels: Tensor) -> Tensor:
        """Log probabilities of labels (B, W, K) at all frames, (B, W, K, T)."""
        rows = self.labels.index_select(0, (labels + self.first).flatten())
        return rows.view(*labels.shape, rows.size(-1))


class SpelledPrefixScorer(CTCPrefixScorer):
    """CTC scores of tokens that are sequences of labels, such as bytes.

    Args:
        log_probs, lengths, eos: As of `CTCPrefixScorer`; eos is the index of the token.
        spelled: Function of tokens (...) and of L, None if it is not known, that returns their labels (..., L) and the
            numbers of these (...).
    """

    def __init__(
        self,
        log_probs: Tensor,
        lengths: Tensor,
        eos: int,
        spelled: Callable[[Tensor, int | None], tuple[Tensor, Tensor]],
    ):
        super().__init__(log_probs, lengths, eos)
        self.spelled, self.most = spelled, 1  # labels of the longest candidate
        self.paths = self.paths._replace(last=torch.zeros_like(self.paths.last))  # no label is repeated at first

    def score(self, candidates: Tensor | None) -> Tensor:
        """See `CTCPrefixScorer.score`; a token without labels has the score `IMPOSSIBLE`."""
        assert candidates is not None  # the search has a decoder
        width, count = candidates.shape[1:]
        labels, counts = self.spelled(candidates, None)
        self.most = labels.size(-1)
        psi = self._prefixes(self.paths, labels[..., 0]).masked_fill(counts == 0, IMPOSSIBLE)
        paths = self.paths.of(torch.arange(width * count, device=candidates.device).expand(len(labels), -1) // count)
        labels = labels.flatten(1, 2)
        for place in range(1, labels.size(-1)):
            paths = self._extended(paths, labels[..., place - 1])
            longer = self._prefixes(paths, labels[..., place, None]).view_as(psi)
            psi = torch.where(counts > place, longer, psi)
        end = self.paths.r.gather(2, self.ends.expand(-1, width, 1)).clamp(min=IMPOSSIBLE)
        return torch.where(candidates == self.eos, end, psi) - self.psi.unsqueeze(-1)

    def extend(self, parents: Tensor, tokens: Tensor, scores: Tensor) -> None:
        """See `CTCPrefixScorer.extend`."""
        labels, counts = self.spelled(tokens, self.most)  # which were candidates
        paths = self.paths.of(parents)
        for place in range(labels.size(-1)):
            longer, valid = self._extended(paths, labels[..., place]), counts > place
            pairs = zip(longer[:2], paths[:2], strict=True)
            both = (torch.where(valid.unsqueeze(-1), new, old) for new, old in pairs)
            paths = Paths(*both, torch.where(valid, longer.last, paths.last))
        self.paths, self.psi = paths, self.psi.gather(1, parents) + scores


def _logsumexp(x: Tensor) -> Tensor:
    """`x.logsumexp(-1)` of float32, which overwrites x. Values that vanish next to the largest are not computed.

    Most frames are far from the one where a label belongs. The exponentials there are denormal numbers or 0, which
    take many times as long as others.
    """
    top = x.amax(-1, keepdim=True).clamp(min=IMPOSSIBLE)
    return x.sub_(top).clamp_(min=_LEAST).exp_().sum(-1).log_() + top.squeeze(-1)


def _shifted(x: Tensor, first: float) -> Tensor:
    """`first`, then x without its last frame: (..., T) -> (..., T)."""
    return torch.constant_pad_nd(x[..., :-1], (1, 0), first)
