"""The loss of a batch, and its gradient, computed in two halves: for a batch that does not fit into memory as a whole.

Losses are means over sentences or over tokens, and halves have other numbers of these. A first pass without gradients
therefore counts the tokens and the weight of each half; a second one computes the gradients, which equal the whole
batch's to rounding, unless a sentence depends on the others of its batch, as with batch normalisation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from espnet_diverse.nets.reductions import summed
from espnet_diverse.scope import scope

Output = tuple[Tensor, dict[str, Tensor | None], Tensor]
"""Output of a model of ESPnet: loss (1,), statistics, and weight (1,), which is its number of sentences or tokens"""


class Halvable(nn.Module):
    """A model that computes a batch as a whole or in two halves.

    Args:
        model: The model.
        alone: Whether a single process trains it; several must all call this for their shares of a batch.
    """

    def __init__(self, model: nn.Module, alone: bool = True):
        super().__init__()
        self.model, self.alone = model, alone

    def forward(self, batch: Mapping[str, Any], halved: bool = False) -> Output:
        """Compute loss, statistics and weight.

        Args:
            batch: Arguments of the model.
            halved: Whether its halves are computed one after the other.
        """
        return in_halves(self.model, batch, self.alone) if halved else self.model(**batch)


def in_halves(model: nn.Module, batch: Mapping[str, Any], alone: bool) -> Output:
    """Compute loss, statistics and weight of a batch as `model` would, and its gradients in the same pass.

    Args:
        model: The model.
        batch: Tensors, and lists, with an entry for each of B sentences. A single sentence is one part.
        alone: Whether a single process trains the model; several must all call this for their shares of a batch.

    Returns:
        The loss (1,), whose backward pass takes no memory, as it only hands on the gradients of all parameters.
    """
    parts, counts = _halves(batch), _TokenCounts()
    weights = []
    with torch.no_grad(), scope(token_count=counts):
        for part in parts:
            counts.begin()
            weights.append(model(**part)[2].sum())
    torch.clear_autocast_cache()  # weights that were cast without a gradient
    counts.add_up(alone)
    total = torch.stack(weights).sum()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    losses: list[Tensor] = []
    stats: list[Mapping[str, Tensor | None]] = []
    gradients: list[Tensor | None] = [None] * len(parameters)
    for part, weight in zip(parts, weights, strict=True):
        counts.begin()
        with scope(token_count=counts):
            loss, of_part, _ = model(**part)
        share = (loss * (weight / total)).sum()
        losses.append(share.detach())
        stats.append(of_part)
        with torch.autocast(share.device.type, enabled=False):  # as in any backward pass
            part_gradients = torch.autograd.grad(share, parameters, allow_unused=True)
        del loss, share
        torch.clear_autocast_cache()
        gradients = [_sum(old, new) for old, new in zip(gradients, part_gradients, strict=True)]
    known = {p: gradient for p, gradient in zip(parameters, gradients, strict=True) if gradient is not None}
    loss = _KnownGradients.apply(torch.stack(losses).sum()[None], list(known.values()), *known)
    return loss, _means(stats, weights) | {"loss": loss.detach()}, total[None]


class _KnownGradients(torch.autograd.Function):
    """A loss whose gradients of the parameters are known."""

    @staticmethod
    def forward(ctx, loss: Tensor, gradients: list[Tensor], *_parameters: Tensor) -> Tensor:
        ctx.gradients = gradients
        return loss.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(known * gradient.sum() for known in ctx.gradients)


class _TokenCounts:
    """The tokens of a batch for the losses of its parts: noted in a first pass, and then given out; see `scope`."""

    def __init__(self):
        self._noted: list[list[Tensor]] = []
        self._sums: list[Tensor] | None = None
        self._next = 0

    def begin(self) -> None:
        """Begin the next part."""
        self._noted.append([])
        self._next = 0

    def __call__(self, tokens: Tensor, sentences: int) -> Tensor:
        """Note the numbers of a part, or return its share of the whole batch, (), as `nets.reductions.token_count`."""
        if self._sums is None:
            self._noted[-1].append(torch.stack([tokens.double(), tokens.new_tensor(sentences).double()]))
            return tokens
        all_tokens, all_sentences = self._sums[self._next]
        self._next += 1
        return (sentences * all_tokens / all_sentences).float()

    def add_up(self, alone: bool) -> None:
        """Add up the notes of all parts, in all processes if there are several."""
        sums = [torch.stack(counts).sum(dim=0) for counts in zip(*self._noted, strict=True)]
        self._sums = sums if alone else [summed(total) for total in sums]


def _halves(batch: Mapping[str, Any]) -> list[dict[str, Any]]:
    number = len(next(iter(batch.values())))
    middle = (number + 1) // 2
    slices = [slice(0, middle), slice(middle, None)] if number > 1 else [slice(None)]
    return [_rows(batch, part) for part in slices]


def _rows(batch: Mapping[str, Any], part: slice) -> dict[str, Any]:
    """Rows of a batch, without padding after the longest of them: some models expect none."""
    rows = {key: value[part] for key, value in batch.items()}
    lengths = {key: rows[f"{key}_lengths"] for key in rows if f"{key}_lengths" in rows}
    return rows | {key: rows[key][:, : int(longest.max())] for key, longest in lengths.items()}


def _sum(old: Tensor | None, new: Tensor | None) -> Tensor | None:
    """Sum of two gradients, either of which may be missing; not in place: two parameters may share one tensor."""
    if old is None:
        return new
    return old if new is None else old + new


def _means(stats: Sequence[Mapping[str, Tensor | None]], weights: Sequence[Tensor]) -> dict[str, Tensor | None]:
    """Mean of each statistic over the parts that have it, with the weights of the parts."""
    merged: dict[str, Tensor | None] = {}
    for name in dict.fromkeys(name for part in stats for name in part):
        pairs = zip((part.get(name) for part in stats), weights, strict=True)
        weighted = [(value, weight) for value, weight in pairs if value is not None]
        sums = sum(value * weight for value, weight in weighted), sum(weight for _, weight in weighted)
        merged[name] = sums[0] / sums[1] if weighted else None
    return merged
