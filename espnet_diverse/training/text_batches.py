"""Batches of text that are bucketed by length and hold a number of tokens.

`batch_type: tokens` is beside ESPnet's own types. Sentences are sorted by the length of the target and then that of the
source, so that those of a batch are of nearly one length, and a batch takes as many as its longest sentence allows:

    sentences * max(longest target, longest source) <= batch_bins

with the begin or end of sentence as a token. ESPnet's types sort by the target alone; they add up both sides, and
`numel` multiplies each by the size of its vocabulary.
"""

from collections.abc import Iterator, Sequence

from espnet2.fileio.read_text import load_num_sequence_text
from espnet2.samplers import build_batch_sampler as espnet
from espnet2.samplers.abs_sampler import AbsSampler

from espnet_diverse.errors import ConfigError

TYPE = "tokens"


class TokenBatches(AbsSampler):
    """Batches of ids; the order of the batches is that of their lengths, and training shuffles it.

    Args:
        shape_files: ESPnet's shape files, the target first.
        batch_bins: Tokens of a batch on its longer side, padding included.
        min_batch_size: The least number of sentences, whatever their length.
        drop_last: Leave out the last batch, which is not full, where there are others.

    Raises:
        ConfigError: `batch_bins` is less than 1.
    """

    def __init__(self, shape_files: Sequence[str], batch_bins: int, min_batch_size: int = 1, drop_last: bool = False):
        if batch_bins < 1:
            raise ConfigError(f"batch_bins {batch_bins} is not allowed; give a number of tokens, for example 4096")
        self.batch_bins = batch_bins
        sides = [load_num_sequence_text(file, loader_type="csv_int") for file in shape_files]
        lengths = {name: [side[name][0] + 1 for side in sides] for name in sides[0]}
        self.batches: list[tuple[str, ...]] = []
        batch: list[str] = []
        longest = 0
        for name in sorted(lengths, key=lengths.__getitem__):
            longer = max(longest, *lengths[name])
            if len(batch) >= min_batch_size and (len(batch) + 1) * longer > batch_bins:
                self.batches.append(tuple(batch))
                batch, longer = [], max(lengths[name])
            batch.append(name)
            longest = longer
        if len(batch) < min_batch_size and self.batches:
            batch = [*self.batches.pop(), *batch]
        elif drop_last and self.batches:
            return
        self.batches.append(tuple(batch))

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.batches)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(N-batch={len(self)}, batch_bins={self.batch_bins})"


def build_batch_sampler(type: str, shape_files: Sequence[str], **options) -> AbsSampler:
    """In place of ESPnet's `build_batch_sampler`: also of the type "tokens"; `options` are ESPnet's."""
    if type != TYPE:
        return espnet.build_batch_sampler(type=type, shape_files=shape_files, **options)
    return TokenBatches(shape_files, options["batch_bins"], options["min_batch_size"], options["drop_last"])
