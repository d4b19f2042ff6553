"""Files of kept features, which `stats` computes with the frozen part of a model and `train` reads instead of audio.

In the directory of statistics, kept_features.json is the record of what they were computed from. In the folder of each
phase, kept_features.bin has the arrays one after another, (T, M) each, and kept_features a line for each utterance: its
id, the place of its first byte, and T. Utterances with the same input, such as a recording with translations into
several languages, share an array.
"""

import json
import logging
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.data.tables import pack_table
from espnet_diverse.errors import DataError
from espnet_diverse.runs.config import Config
from espnet_diverse.untrusted.whole_files import read_json

log = logging.getLogger(__name__)

RECORD, INDEX, KIND = "kept_features.json", "kept_features", "kept_features"
DTYPES = ("float16", "float32")
_ARRAYS = "kept_features.bin"
_OF_TEXT = ("text", "src_text")
_AGAIN = "run espnet-diverse stats again, with keep_features and this configuration"


@dataclass(frozen=True)
class Record:
    """The record of what features were computed from.

    Attributes:
        part: The part of the model, a key of `PARTS`.
        model: Digest of its weights and options.
        dtype: Type of the numbers, of `DTYPES`.
        size: Number of features of a frame, M.
        data: Digests of the tables and the audio, see `DataRecord.digests`.
        sizes: Number of bytes of the arrays of each phase.
    """

    part: str
    model: str
    dtype: str
    size: int
    data: Mapping[str, str]
    sizes: Mapping[str, int]

    def save(self, stats_dir: Path) -> None:
        """Write the record."""
        write_text(stats_dir / RECORD, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, stats_dir: Path) -> "Record":
        """Read the record of a directory of statistics.

        Raises:
            DataError: It has none, or a damaged one, or the arrays are cut off.
        """
        path = stats_dir / RECORD
        if not path.is_file():
            raise DataError(f"{stats_dir}: has no kept features; {_AGAIN}")
        try:
            record = cls(**read_json(path))
            complete = all((stats_dir / phase / _ARRAYS).stat().st_size == size for phase, size in record.sizes.items())
        except (TypeError, ValueError, AttributeError, OSError) as error:
            raise DataError(f"{path}: it or the features are missing or damaged ({error}); {_AGAIN}") from error
        if not complete or record.dtype not in DTYPES or type(record.size) is not int:
            raise DataError(f"{path}: it or the features are damaged; {_AGAIN}")
        return record

    def check_model(self, stats_dir: Path, part: str, digest: str) -> None:
        """Check that the features are of the frozen part of a model.

        Raises:
            DataError: They are of another part, or of other weights or options.
        """
        if self.part != part:
            raise DataError(f"{stats_dir}: has kept features of the {self.part}, and frozen is the {part}; {_AGAIN}")
        if self.model != digest:
            raise DataError(f"{stats_dir}: has kept features of other weights or options of the {part}; {_AGAIN}")


def of_tables(digests: Mapping[str, str]) -> dict[str, str]:
    """The digests of data that features depend on: all but texts."""
    return {name: digest for name, digest in digests.items() if name.partition("/")[2] not in _OF_TEXT}


def copied(former: Path, stats_dir: Path, wanted: Record) -> bool:
    """Copy the features of a former directory of statistics, if they are those of a record; return whether they are."""
    if not (former / RECORD).is_file():
        return False
    try:
        record = Record.load(former)
    except DataError as error:
        log.warning("%s; they are computed again", error)
        return False
    if replace(record, size=wanted.size, sizes=wanted.sizes) != wanted:
        return False
    for phase in record.sizes:
        for name in (INDEX, _ARRAYS):
            shutil.copyfile(former / phase / name, stats_dir / phase / name)
    record.save(stats_dir)
    return True


def with_kept(config: Config, stats_dir: Path, tables: dict[str, str]) -> dict[str, str]:
    """Return digests of the data of a run; if it reads kept features, check that they are of these data.

    Args:
        config: The configuration of the run.
        stats_dir: Directory of the statistics.
        tables: Digests of the data, see `DataRecord.digests`.

    Raises:
        DataError: There are none, or they are of other data, or have numbers of another type.
    """
    if not (dtype := config.get("keep_features")):
        return tables
    record = Record.load(stats_dir)
    if record.dtype != dtype:
        has = f"kept features in {record.dtype}, and keep_features is {dtype}"
        raise DataError(f"{stats_dir}: has {has}; {_AGAIN}")
    if differing := sorted(name for name, value in record.data.items() if tables.get(name) != value):
        raise DataError(f"{stats_dir}: has kept features of other data than {' '.join(differing)}; {_AGAIN}")
    return tables


def read_instead(config: Config, stats_dir: Path) -> None:
    """Let a run read kept features instead of audio, by a change of its filled configuration."""
    for phase in ("train", "valid"):
        key, index = f"{phase}_data_path_and_name_and_type", str((stats_dir / phase / INDEX).absolute())
        config[key] = [
            (index, name, KIND) if name == "speech" else (file, name, kind) for file, name, kind in config[key]
        ]


class Writer:
    """Writes the features of a phase; a context manager, at whose end the index is written.

    Args:
        folder: Folder of the phase.
        dtype: Type of the numbers, of `DTYPES`.

    Attributes:
        size: Number of features of a frame, once there are any.
        bytes: Number of bytes of the arrays so far.
        places: Place of the first byte and number of frames of the arrays so far, by the key of their input.
    """

    def __init__(self, folder: Path, dtype: str):
        self.folder, self.dtype, self.size, self.bytes = folder, dtype, 0, 0
        self.places: dict[bytes, tuple[int, int]] = {}
        self._lines: list[str] = []

    def __enter__(self) -> "Writer":
        self._file = (self.folder / _ARRAYS).open("wb")
        return self

    def __exit__(self, *_) -> None:
        self._file.close()
        (self.folder / INDEX).write_text("".join(sorted(self._lines)), encoding="utf-8", newline="\n")

    def add(self, inputs: Mapping[bytes, str], features: Tensor, lengths: Tensor) -> None:
        """Add the arrays of a batch: features (B, T, M) and their lengths (B,).

        Args:
            inputs: An utterance of each array by the key of its input.
            features, lengths: The arrays.

        Raises:
            DataError: A feature is not finite in this type.
        """
        self.size = features.size(-1)
        for key, array, length in zip(inputs, features.cpu().numpy(), lengths.tolist(), strict=True):
            with np.errstate(over="ignore"):
                values = np.ascontiguousarray(array[:length], self.dtype)
            if not np.isfinite(values).all():
                todo = "check the audio, or set keep_features: float32"
                raise DataError(f"{inputs[key]}: its features are not finite in {self.dtype}; {todo}")
            self.places[key] = self.bytes, length
            self._file.write(values.data)
            self.bytes += values.nbytes

    def name(self, utterance: str, key: bytes) -> None:
        """Give an utterance the array of an input that was added."""
        start, length = self.places[key]
        self._lines.append(f"{utterance} {start},{length}\n")


class KeptFeatures(Mapping[str, NDArray]):
    """The kept features of a phase by utterance, (T, M) each.

    Args:
        index: The file `INDEX` of the phase.
    """

    def __init__(self, index: Path):
        record = Record.load(index.parents[1])
        self._table, self._arrays = pack_table(index), index.with_name(_ARRAYS)
        self._dtype, self._size = record.dtype, record.size

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __getitem__(self, utterance: str) -> NDArray:
        start, length = map(int, self._table[utterance].split(","))
        values = np.fromfile(self._arrays, self._dtype, length * self._size, offset=start)
        return values.reshape(length, self._size)
