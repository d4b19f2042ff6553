"""Batches of all types, as arrays of row numbers: ESPnet's types without an object for each utterance, and `tokens`.

ESPnet's samplers hold the id and the shape of every utterance as Python objects, some 700 bytes each. Here a batch is
an array of row numbers of the first shape file, in 4 bytes each, and the batches are the same as ESPnet's:

    unsorted   batch_size utterances in the order of the file
    sorted     batch_size utterances of similar length
    folded     batch_size / (1 + floor(longest length / fold length)) utterances
    length     utterances * sum of the lengths of their longest <= batch_bins
    numel      as length, each length times the width of its data

`tokens` is an addition for text. Sentences are sorted by the length of the target, then of the source, so that the
sentences of a batch have similar lengths. A batch has as many sentences as this allows:

    sentences * max(longest target, longest source) <= batch_bins

where the begin or end of the sentence counts as a token. ESPnet's types sort by the target alone and limit the sum of
both sides.
"""

from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.data.packed_table import PackedTable
from espnet_diverse.data.tables import pack_table
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.option_checks import Options, choice, must_be

TYPES = ("unsorted", "sorted", "folded", "length", "numel", "tokens")
Batches = list[NDArray[np.int32]]
_BLOCK = 1 << 16


class Shapes(NamedTuple):
    """The shapes of one kind of data, such as speech.

    Attributes:
        lengths: Length of each utterance, (N,) int64.
        width: Product of the other dimensions, 1 if there is none; None if they are not the same for all utterances.
    """

    lengths: NDArray[np.int64]
    width: int | None

    @classmethod
    def parsed(cls, shapes: Iterable[str]) -> "Shapes":
        """Read shapes such as "120,80"."""
        trailing: set[str] = set()

        def lengths() -> Iterator[int]:
            for shape in shapes:
                length, _, dims = shape.partition(",")
                trailing.add(dims)
                yield int(length)

        values = np.fromiter(lengths(), np.int64)
        sizes = [int(size) for size in "".join(trailing).split(",") if size] if len(trailing) == 1 else None
        return cls(values, None if sizes is None else int(np.prod(sizes, dtype=np.int64)))


@dataclass(frozen=True)
class BatchOptions(Options):
    """Options of batches, named as in ESPnet.

    Attributes:
        type: One of `TYPES`.
        batch_size: Number of utterances, of the types unsorted, sorted and folded.
        batch_bins: See above, of the types length, numel and tokens.
        fold_lengths: A length for each kind of data, of the type folded.
        min_batch_size: Least number of utterances, of the types with batches of several sizes.
        sort_in_batch, sort_batch: "ascending" or "descending".
        drop_last: Whether to leave out the last batch, which is not full, if there are others.

    Raises:
        ConfigError: A value is not allowed.
    """

    type: str = choice(*TYPES, required=True, key="batch_type")
    batch_size: int = 20
    batch_bins: int = 1_000_000
    fold_lengths: Sequence[int] = ()
    min_batch_size: int = 1
    sort_in_batch: str = choice("descending", "ascending")
    sort_batch: str = choice("descending", "ascending")
    drop_last: bool = False

    @classmethod
    def of(cls, args: Namespace, sizes: Any = None, processes: int = 1) -> "BatchOptions":
        """The options in arguments of ESPnet's training command.

        Args:
            args: The arguments.
            sizes: What has `batch_type`, `batch_size` and `batch_bins`, if they are not those of training.
            processes: Number of processes that share a batch.
        """
        sizes = sizes or args
        return cls(
            type=sizes.batch_type,
            batch_size=sizes.batch_size,
            batch_bins=sizes.batch_bins,
            fold_lengths=args.fold_length,
            min_batch_size=max(processes, args.min_batch_size),  # ESPnet forgets the option with several processes
            sort_in_batch=args.sort_in_batch,
            sort_batch=args.sort_batch,
            drop_last=args.drop_last_iter,
        )

    def __post_init__(self):
        super().__post_init__()
        name = "batch_size" if self.type in ("unsorted", "sorted", "folded") else "batch_bins"
        if getattr(self, name) < 1:
            raise must_be(name, "at least 1", getattr(self, name))


def read_shapes(files: Sequence[str]) -> tuple[PackedTable, list[Shapes]]:
    """Read shape files; all of them have the rows of the first, whose ids are returned.

    Raises:
        DataError: A file is missing or faulty, or has other ids than the first.
    """
    tables = [pack_table(Path(file)) for file in files]
    for file, table in zip(files[1:], tables[1:], strict=True):
        if len(table) != len(tables[0]) or any(one != other for one, other in zip(table, tables[0], strict=True)):
            raise DataError(f"{file}: has other utterances than {files[0]}; run espnet-diverse stats again")
    return tables[0], [Shapes.parsed(table.values()) for table in tables]


def make_batches(shapes: Sequence[Shapes], options: BatchOptions) -> Batches:
    """Divide utterances into batches.

    Args:
        shapes: Shapes of each kind of data, the one that is sorted by first.
        options: The type of batches, and its options.

    Returns:
        Row numbers of the utterances of each batch.

    Raises:
        ConfigError: There is not one fold length for each kind of data.
        DataError: The type is numel, and other dimensions than the length differ.
    """
    count, lengths = len(shapes[0].lengths), shapes[0].lengths
    descending = options.sort_in_batch == "descending"
    if options.type == "tokens":
        return _token_batches(shapes, options)
    if options.type in ("unsorted", "sorted"):
        order = np.arange(count, dtype=np.int32)
        if options.type == "sorted":
            order = _sorted_rows(-lengths if descending else lengths)
        number = max(count // options.batch_size, 1)
        edges = [i * options.batch_size if options.drop_last else i * count // number for i in range(number + 1)]
        batches = [order[start:end] for start, end in zip(edges, edges[1:], strict=False)]
        turned = options.type == "sorted" and options.sort_in_batch != options.sort_batch
        return batches[::-1] if turned else batches
    order = _sorted_rows(lengths)
    sizes = _folded_sizes(shapes, order, options) if options.type == "folded" else _sizes(shapes, order, options)
    ends = np.cumsum(sizes)
    batches = [order[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    batches = [batch[::-1] for batch in batches] if descending else batches
    return batches[::-1] if options.sort_batch == "descending" else batches


def _sorted_rows(*lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    """Rows sorted by the first of several lengths, then by the next; equal ones stay in their order."""
    return np.lexsort(lengths[::-1]).astype(np.int32)


def _folded_sizes(shapes: Sequence[Shapes], order: NDArray[np.int32], options: BatchOptions) -> list[int]:
    folds = options.fold_lengths
    if len(folds) != len(shapes):
        raise ConfigError(f"fold_length has {len(folds)} values for {len(shapes)} kinds of data; give one for each")
    sizes: list[int] = []
    start = 0
    while start < len(order):
        factor = max(int(kind.lengths[order[start]] / fold) for kind, fold in zip(shapes, folds, strict=True))
        size = max(options.min_batch_size, int(options.batch_size / (1 + factor)))
        if options.drop_last and sizes and start + size > len(order):
            break
        sizes.append(min(len(order) - start, size))
        start += size
    return _redistributed(sizes, options.min_batch_size)


def _sizes(shapes: Sequence[Shapes], order: NDArray[np.int32], options: BatchOptions) -> list[int]:
    """Sizes of the batches of the types length and numel: a batch ends with the utterance that makes it full."""
    costs = np.zeros(len(order), np.int64)
    for kind in shapes:
        if options.type == "numel" and kind.width is None:
            raise DataError("batch_type numel needs data of one width, and widths differ; give batch_type length")
        costs += kind.lengths * (kind.width or 1 if options.type == "numel" else 1)
    sizes: list[int] = []
    size, bins, least = 0, options.batch_bins, options.min_batch_size
    for cost in _in_blocks(costs, order):
        size += 1
        if size * cost > bins and size >= least:
            sizes.append(size)
            size = 0
    if size and not (options.drop_last and sizes):
        sizes.append(size)
    return _redistributed(sizes, least)


def _redistributed(sizes: list[int], least: int) -> list[int]:
    """Return sizes with a last batch that is too small spread over others, from the end on."""
    if len(sizes) > 1 and sizes[-1] < least:
        for i in range(sizes.pop()):
            sizes[-(i % len(sizes)) - 1] += 1
    return sizes


def _token_batches(shapes: Sequence[Shapes], options: BatchOptions) -> Batches:
    order = _sorted_rows(*(kind.lengths for kind in shapes))
    longest_side = np.max([kind.lengths for kind in shapes], axis=0) + 1
    edges = [0]
    size, longest, bins, least = 0, 0, options.batch_bins, options.min_batch_size
    for row, length in enumerate(_in_blocks(longest_side, order)):
        longer = max(longest, length)
        if size >= least and (size + 1) * longer > bins:
            edges.append(row)
            size, longer = 0, length
        size += 1
        longest = longer
    if len(edges) > 1 and size < least:
        edges[-1] = len(order)
    elif len(edges) == 1 or not options.drop_last:
        edges.append(len(order))
    return [order[start:end] for start, end in zip(edges, edges[1:], strict=False)]


def _in_blocks(values: NDArray[np.int64], order: NDArray[np.int32]) -> Iterator[int]:
    """Values in an order, as Python's integers, which are faster one by one."""
    for start in range(0, len(order), _BLOCK):
        yield from values[order[start : start + _BLOCK]].tolist()
