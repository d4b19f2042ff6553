"""The share of padding in batches, by type of batches.

Utterances of a batch are padded to the longest one. Of B utterances with lengths T_b, padding is the share

    1 - sum_b T_b / (B max T)  of the frames,    1 - sum_b T_b^2 / (B max T^2)  of the scores of full self-attention
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.scoring.table import markdown_table
from espnet_diverse.training.data.batch_types import TYPES, Batches, BatchOptions, Shapes, make_batches

MUCH = 0.1
"""Share of padded frames above which another type of batches is advised."""


class Padding(NamedTuple):
    """Padding in batches of one type: shares of frames and of attention, by name of each kind of data."""

    batches: int
    utterances: float
    shares: dict[str, tuple[float, float]]


def padding(shapes: Mapping[str, Shapes], options: BatchOptions, types: Sequence[str] = TYPES) -> dict[str, Padding]:
    """Measure the padding of the options' type of batches, which comes first, and of others that suit the data.

    Args:
        shapes: Shapes of each kind of data by name, the one that is sorted by first.
        options: The batches of a training. Batches of other types are about as large on average.
        types: The types to compare.
    """
    kinds = list(shapes.values())
    reference = make_batches(kinds, options)
    number, measured = round(np.mean(_sizes(reference))), {}
    for kind in dict.fromkeys((options.type, *types)):
        batches = reference
        if kind != options.type:
            if kind == "folded" and len(options.fold_lengths) != len(shapes):
                continue
            if kind == "numel" and any(data.width is None for data in kinds):
                continue
            other = replace(options, type=kind, batch_size=number, batch_bins=_bins(number, kinds, kind))
            batches = make_batches(kinds, other)
        shares = {
            name: (_share(batches, data.lengths), _share(batches, data.lengths**2)) for name, data in shapes.items()
        }
        measured[kind] = Padding(len(batches), float(np.mean(_sizes(batches))), shares)
    return measured


def report(padding: Mapping[str, Padding]) -> str:
    """A Markdown table, and advice if padding is a large share of the frames of the first type, which is used."""
    used, first = next(iter(padding.items()))
    header = ["batch_type", "batches", "utterances a batch"]
    header += [f"padding of {name}, {of}" for name in first.shares for of in ("frames", "attention")]
    rows = [
        [kind, f"{result.batches}", f"{result.utterances:.1f}"]
        + [f"{100 * share:.1f} %" for both in result.shares.values() for share in both]
        for kind, result in padding.items()
    ]
    frames = {kind: next(iter(result.shares.values()))[0] for kind, result in padding.items()}
    best = min(frames, key=frames.__getitem__)
    advice = (
        f"{100 * frames[used]:.0f} % of the frames are padding; batch_type: {best} has {100 * frames[best]:.0f} %\n"
    )
    return markdown_table(header, rows) + (advice if frames[used] > MUCH and best != used else "")


def _sizes(batches: Batches) -> NDArray[np.int64]:
    return np.array([len(batch) for batch in batches])


def _bins(number: int, kinds: Sequence[Shapes], kind: str) -> int:
    """Bins of batches of a number of utterances on average: utterances of similar length make a batch."""
    costs = np.array([data.lengths * (data.width if kind == "numel" else 1) for data in kinds])
    return max(1, int(number * np.mean(costs.max(0) + 1 if kind == "tokens" else costs.sum(0))))


def _share(batches: Batches, values: NDArray[np.int64]) -> float:
    """The share of padding, if each utterance is padded to the longest of its batch."""
    sizes, ordered = _sizes(batches), values[np.concatenate(batches)]
    longest = np.maximum.reduceat(ordered, np.cumsum([0, *sizes[:-1]]))
    return 1 - float(ordered.sum() / max(1, (sizes * longest).sum()))
