"""ESPnet's dataset over tables that are not in memory; an utterance is named by its row.

ESPnet keeps every row of every table as Python objects, half a kilobyte each, of which each data worker soon has a copy
of its own. Here a row is read from its table when its utterance is.
"""

from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
from espnet2.fileio.sound_scp import SoundScpReader
from espnet2.samplers.abs_sampler import AbsSampler
from espnet2.train.dataset import AdapterForSoundScpReader, ESPnetDataset
from numpy.typing import NDArray

from espnet_diverse.data.packed_table import PackedTable
from espnet_diverse.data.tables import pack_table


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
        """The dataset of ESPnet's training command; `iter_options` are those of its `build_iter_options`."""
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
        if loader_type == "sound":
            recordings = _Recordings(path, self.float_dtype)
            return AdapterForSoundScpReader(recordings, allow_multi_rates=self.allow_multi_rates)
        if loader_type == "kaldi_ark" and not self.max_cache_fd:
            return AdapterForSoundScpReader(_Arks(path), allow_multi_rates=self.allow_multi_rates)
        return super()._build_loader(path, loader_type, keys_to_load)

    def __getitem__(self, uid: int | str) -> tuple[str, dict[str, NDArray]]:
        return super().__getitem__(uid if isinstance(uid, str) else self.ids.key(int(uid)))


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
        name: What the log says of them.
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
