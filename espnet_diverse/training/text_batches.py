"""Batches of text that are bucketed by length and limited by their number of tokens.

`batch_type: tokens` is an addition to ESPnet's types. Sentences are sorted by the length of the target, then by that of
the source, so that the sentences of a batch have similar lengths. A batch has as many sentences as this allows:

    sentences * max(longest target, longest source) <= batch_bins

where the begin or end of the sentence counts as a token. ESPnet's types sort by the target alone and limit the sum of
both sides; `numel` also multiplies each side by the size of its vocabulary.
"""

from collections.abc import Iterator, Sequence

from espnet2.fileio.read_text import load_num_sequence_text
from espnet2.samplers import build_batch_sampler as espnet
from espnet2.samplers.abs_sampler import AbsSampler

from espnet_diverse.errors import ConfigError

TYPE = "tokens"


class TokenBatches(AbsSampler):
    """Batches of utterance names, ordered by length; training shuffles the batches.

    Args:
        shape_files: ESPnet's shape files, the target first.
        batch_bins: Number of tokens of a batch on its longer side, including padding.
        min_batch_size: Minimum number of sentences in a batch.
        drop_last: Whether to leave out the last batch, which is not full, if there are others.

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
    """Replacement of ESPnet's `build_batch_sampler` that also knows the type "tokens"; `options` are ESPnet's."""
    if type != TYPE:
        return espnet.build_batch_sampler(type=type, shape_files=shape_files, **options)
    return TokenBatches(shape_files, options["batch_bins"], options["min_batch_size"], options["drop_last"])
