"""ESPnet's dataset over tables that are not in memory, and its batches from any position of an epoch.

ESPnet keeps every row of every table as Python objects of half a kilobyte, and each data worker soon has a copy of its
own. Here an utterance is identified by its row number, and its rows are read from the tables when it is needed.
"""

from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
from espnet2.fileio.sound_scp import SoundScpReader
from espnet2.iterators.sequence_iter_factory import SequenceIterFactory
from espnet2.samplers.abs_sampler import AbsSampler
from espnet2.train.dataset import AdapterForSoundScpReader, ESPnetDataset
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from espnet_diverse.data.packed_table import PackedTable
from espnet_diverse.data.tables import pack_table
from espnet_diverse.training.data.seeds import seed_row
from espnet_diverse.training.kept_features import KIND, KeptFeatures


class RowDataset(ESPnetDataset):
    """The utterances of some tables; items are rows of the first shape file.

    Args:
        ids: Id of each row.
        files: ESPnet's path, name and type of each kind of data.
        options: Other arguments of ESPnet's dataset.
    """

    def __init__(self, ids: PackedTable, files: Collection[tuple[str, str, str]], **options):
        super().__init__(files, **options)
        self.ids = ids

    @classmethod
    def of(cls, args: Namespace, iter_options, ids: PackedTable) -> "RowDataset":
        """The dataset of ESPnet's training command; `iter_options` come from its `build_iter_options`."""
        return cls(
            ids,
            iter_options.data_path_and_name_and_type,
            float_dtype=args.train_dtype,
            preprocess=iter_options.preprocess_fn,
            max_cache_size=iter_options.max_cache_size,
            max_cache_fd=iter_options.max_cache_fd,
            allow_multi_rates=iter_options.allow_multi_rates,
        )

    def _build_loader(self, path: str, loader_type: str, keys_to_load: set | None) -> Mapping[str, Any]:
        if loader_type == "text":
            return pack_table(Path(path))
        if loader_type == KIND:
            return KeptFeatures(Path(path))
        if loader_type == "sound":
            recordings = _Recordings(path, self.float_dtype)
            return AdapterForSoundScpReader(recordings, allow_multi_rates=self.allow_multi_rates)
        if loader_type == "kaldi_ark" and not self.max_cache_fd:
            return AdapterForSoundScpReader(_Arks(path), allow_multi_rates=self.allow_multi_rates)
        return super()._build_loader(path, loader_type, keys_to_load)

    def __getitem__(self, uid: int | str) -> tuple[str, dict[str, NDArray]]:
        return super().__getitem__(uid if isinstance(uid, str) else self.ids.key(int(uid)))

    def __getitems__(self, batch: "SeededRows") -> list[tuple[str, dict[str, NDArray]]]:
        """The utterances of a batch; each is read, and augmented, with its own seed."""
        return [batch.seeded(position, self) for position in range(len(batch.rows))]


class _Recordings(SoundScpReader):
    """ESPnet's reader of audio files, whose table is not in memory."""

    def __init__(self, path: str, dtype: str):
        self.fname, self.dtype, self.data = path, dtype, pack_table(Path(path), "wav.scp")
        self.always_2d, self.multi_columns, self.concat_axis = False, False, 1


class _Arks(Mapping[str, Any]):
    """The arrays that a table of entries of arks names."""

    def __init__(self, path: str):
        self.table = pack_table(Path(path), "feats.scp")

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __getitem__(self, utterance: str) -> Any:
        return kaldiio.load_mat(self.table[utterance])


class RowBatches(AbsSampler):
    """Batches of row numbers, which ESPnet's factory of iterators shuffles.

    Args:
        batches: Rows of each batch.
        name: Their name in the log.
    """

    def __init__(self, batches: list[NDArray[np.int32]], name: str):
        self.batches, self.name = batches, name

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return iter(self.batches)

    def __repr__(self) -> str:
        return self.name

    def generate(self, seed: int) -> list[NDArray[np.int32]]:
        """The batches, in a list that may be shuffled."""
        return list(self.batches)


@dataclass(frozen=True)
class SeededRows:
    """A batch of rows, and its place, which the seeds of the rows depend on.

    Attributes:
        rows: The rows of this process.
        seed: Seed of the training.
        epoch: Number of the epoch.
        batch: Number of batches of the epoch before this one.
        shard: Rank of this process and number of processes, of which each has its share of every batch.
    """

    rows: Sequence[int]
    seed: int
    epoch: int
    batch: int
    shard: tuple[int, int]

    def seeded(self, position: int, dataset: RowDataset) -> tuple[str, dict[str, NDArray]]:
        """Read the row at a position of `rows` from a dataset."""
        rank, count = self.shard
        seed_row(self.seed, self.epoch, self.batch, rank + count * position)
        return dataset[self.rows[position]]


class SeededBatches:
    """The batches of an epoch from one of them on, as `SeededRows`.

    Args:
        batches: Rows of each batch.
        seed: Seed of the training.
        epoch: Number of the epoch.
        shard: Rank of this process and number of processes.
        start: Number of the first batch.
    """

    def __init__(self, batches: Sequence[Sequence[int]], seed: int, epoch: int, shard: tuple[int, int], start: int = 0):
        self.batches, self.seed, self.epoch, self.shard, self.start = batches, seed, epoch, shard, start

    def __len__(self) -> int:
        return len(self.batches) - self.start

    def __iter__(self) -> Iterator[SeededRows]:
        for number in range(self.start, len(self.batches)):
            yield SeededRows(self.batches[number], self.seed, self.epoch, number, self.shard)

    def digest(self) -> int:
        """A number of at most 63 bits for the rows of all batches; its sum over processes does not depend on their
        number. The order of the rows within a batch does not count."""
        return sum(_digest(self.batches[start : start + 1000], start) for start in range(0, len(self.batches), 1000))


def _digest(batches: Sequence[Sequence[int]], start: int) -> int:
    """The part of the digest of some batches, of which the first is number `start`."""
    rows = np.concatenate([np.asarray(batch, np.uint64) for batch in batches])
    numbers = np.repeat(np.arange(start, start + len(batches), dtype=np.uint64), [len(batch) for batch in batches])
    with np.errstate(over="ignore"):  # the finalizer of SplitMix64, Steele et al. 2014
        mixed = numbers * np.uint64(0x9E3779B97F4A7C15) + rows
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return int((mixed >> np.uint64(33)).sum())


class RowLoader(DataLoader):
    """PyTorch's loader of the batches of an epoch; it can begin at any of them."""

    batch_sampler: SeededBatches

    def starting_at(self, number: int) -> "RowLoader":
        """Return a loader of the batches from `number` on, which does not read earlier ones."""
        sampler = self.batch_sampler
        return RowLoader(
            dataset=self.dataset,
            batch_sampler=SeededBatches(sampler.batches, sampler.seed, sampler.epoch, sampler.shard, number),
            num_workers=self.num_workers,
            collate_fn=self.collate_fn,
            pin_memory=self.pin_memory,
        )


class RowIterFactory(SequenceIterFactory):
    """ESPnet's factory of loaders, whose rows have their own seeds.

    Args:
        shard: Rank of this process and number of processes.
        options: Arguments of ESPnet's factory.
    """

    def __init__(self, shard: tuple[int, int] = (0, 1), **options):
        super().__init__(**options)
        self.shard = shard

    def build_iter(self, epoch: int, shuffle: bool | None = None) -> RowLoader:
        """The loader of an epoch, with the batches that ESPnet's factory gives."""
        batches = super().build_iter(epoch, shuffle).batch_sampler
        return RowLoader(
            dataset=self.dataset,
            batch_sampler=SeededBatches(batches, self.seed, epoch, self.shard),
            num_workers=self.num_workers,
            collate_fn=self.collate_fn,
            pin_memory=self.pin_memory,
        )
