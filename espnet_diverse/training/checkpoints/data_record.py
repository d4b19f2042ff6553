"""A record of the data of a run, which shows without reading all audio again that a resumed run has the same data.

data.json in the folder of a run contains digests, and the identity of the run (`run_identity.py`). A table of text has
one digest, of its content. A table of audio, such as train/wav.scp, has two: of the ids and the sizes of the files,
and, as "train/wav.scp, audio content", of headers and parts of the content, without paths, so that a corpus may be
moved. train.wav.scp.npz in the same folder has 24 bytes for each file: the time of its last change and a digest. A file
is read again if its size or this time has changed; all files are read if the table has changed, or with `--verify`.
"""

import json
import time
import zipfile
import zlib
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np

from espnet_diverse.audio.ark import ark_entry, file_status, without_frames
from espnet_diverse.data.digests import digest
from espnet_diverse.data.files.atomic_files import staged_file, write_text
from espnet_diverse.data.tables import pack_table
from espnet_diverse.errors import DataError
from espnet_diverse.progress import progress
from espnet_diverse.runs.config import Config
from espnet_diverse.runs.stored import schema
from espnet_diverse.untrusted.whole_files import read_json

FILE = "data.json"
_SAMPLE = 4096  # bytes of a header, and of the middle of a file
_DIGEST = 16  # bytes
_SETTLED = 2_000_000_000  # ns after its last change, within which the clock of a file system may miss a second one


class DataRecord:
    """The data that a run reads, and its record of them.

    Args:
        config: The configuration with the paths of the data filled in.
        output_dir: Directory of the run; None for a new run, which has no record.
        checked: What audio is checked for, such as the sampling rate; a record of another check does not show that the
            audio is sound.
        read_all: Whether all audio is read, including unchanged files.
    """

    def __init__(self, config: Config, output_dir: Path | None, checked: str = "", read_all: bool = False):
        self._texts: dict[str, Path] = {}
        self._tables: dict[str, Path] = {}
        for phase in ("train", "valid"):
            for file, _, kind in config[f"{phase}_data_path_and_name_and_type"]:
                of_kind = self._texts if kind == "text" else self._tables
                of_kind[f"{phase}/{Path(file).name}"] = Path(file)
        self._output_dir, self._checked, self._read_all = output_dir, checked, read_all
        try:
            self._known = saved_digests(output_dir) if output_dir else {}
        except DataError:  # which `check_unchanged` reports if the run is continued
            self._known = {}

    def is_unchanged(self) -> bool:
        """Return whether the data match the record, which was checked, by sizes and times of audio files."""
        if not self._known or self._read_all:
            return False
        try:
            texts = all(self._known.get(name) == value for name, value in self._of_texts.items())
            return texts and not any(audio.stale.any() or audio.checked != self._checked for audio in self._audio)
        except (DataError, OSError):  # checking the data reports what is wrong
            return False

    def digests(self) -> dict[str, str]:
        """Return SHA-256 digests of the tables by phase and name, such as train/text; audio that changed is read."""
        digests = dict(self._of_texts)
        for audio in self._audio:
            audio.read()
            digests |= {audio.name: audio.listed, _content(audio.name): audio.content()}
        return digests

    def save(self, digests: Mapping[str, str], output_dir: Path) -> None:
        """Write the record to the directory of a run, with the result of `digests` and any other entries."""
        for audio in self._audio:
            audio.save(output_dir, self._checked)
        write_text(output_dir / FILE, json.dumps(digests, indent=1) + "\n", durable=True)

    @cached_property
    def _of_texts(self) -> dict[str, str]:
        return {name: str(digest(path)) for name, path in self._texts.items()}

    @cached_property
    def _audio(self) -> "list[_Audio]":
        tables = [_Audio(name, path) for name, path in self._tables.items()]
        for audio in tables:
            if self._output_dir and not self._read_all:
                audio.compare(self._output_dir, self._known)
        return tables


def saved_digests(output_dir: Path) -> dict[str, str]:
    """Return the digests of a run's data, with its identity, or an empty dict if the run has no file of digests.

    Raises:
        DataError: The file is damaged.
    """
    path = output_dir / FILE
    if not path.is_file():
        return {}
    try:
        saved = read_json(path)
        schema.table(schema.name, schema.name)(saved, "")
    except ValueError:
        raise DataError(
            f"{path}: is damaged, so the data of the run cannot be compared; delete it to continue without, "
            "or give another --output_dir"
        ) from None
    return saved


def _content(name: str) -> str:
    """Key of the digest of the audio of a table."""
    return f"{name}, audio content"


class _Audio:
    """The N audio files or entries of arks of a table; when made, it knows sizes and times and has read nothing.

    Args:
        name: Phase and name of the table.
        path: The table.

    Attributes:
        listed: Digest of ids and sizes.
        stale: Whether each file must be read, (N,) bool.
        checked: What the recorded audio was checked for.
    """

    def __init__(self, name: str, path: Path):
        self.name, self.checked = name, ""
        self._path, self._began = path, time.time_ns()
        self._table = str(digest(path))
        self._entries = pack_table(path)
        self._modified = np.zeros(len(self._entries), np.int64)
        hasher = sha256()
        for row, (utterance, file) in enumerate(self._entries.items()):
            size, self._modified[row] = file_status(file)
            hasher.update(f"{utterance} {size}\n".encode())
        self.listed = hasher.hexdigest()
        self.stale = np.ones(len(self._entries), bool)
        self._contents = np.zeros((len(self._entries), _DIGEST), np.uint8)

    def compare(self, output_dir: Path, known: Mapping[str, str]) -> None:
        """Take over the record of a run for files that have not changed, if it is a record of this table."""
        try:
            with np.load(output_dir / self._file) as arrays:
                record = {name: arrays[name] for name in ("modified", "contents", "of")}
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error):
            return  # all is read then, and compared with data.json
        table, listed, checked = (str(value) for value in record["of"])
        fits = record["modified"].shape == self._modified.shape and record["contents"].shape == self._contents.shape
        if not fits or (table, listed) != (self._table, self.listed) or known.get(self.name) != listed:
            return
        if sha256(record["contents"].tobytes()).hexdigest() == known.get(_content(self.name)):
            self._contents, self.checked = record["contents"], checked
            self.stale = record["modified"] != self._modified

    def read(self) -> None:
        """Read the stale files."""
        rows = np.flatnonzero(self.stale)
        if not len(rows):
            return
        every = len(rows) == len(self._entries)
        pairs = self._entries.pairs() if every else map(self._entries.pair, rows)
        for row, (_, file) in zip(rows, progress(pairs, f"digest {self.name}", len(rows), "file"), strict=True):
            path = without_frames(file)
            frames, samples = file.removeprefix(path), _samples(path)
            content = sha256(b"".join([frames.encode(), *samples])).digest()[:_DIGEST]
            self._contents[row] = np.frombuffer(content, np.uint8)

    def content(self) -> str:
        """Return the digest of the digests of all files."""
        return sha256(self._contents.tobytes()).hexdigest()

    def save(self, output_dir: Path, checked: str) -> None:
        """Write the record, unless it exists."""
        if not self.stale.any() and self.checked == checked:
            return
        # A file that has just changed may change again without another time.
        modified = np.where(self._modified > self._began - _SETTLED, -1, self._modified)
        of = np.array([self._table, self.listed, checked])
        with staged_file(output_dir / self._file) as partial:
            np.savez(partial, modified=modified, contents=self._contents, of=of)

    @property
    def _file(self) -> str:
        return f"{self.name.replace('/', '.')}.npz"


def _samples(path: str) -> list[bytes]:
    """Return the beginning of a file or of an entry of an ark, and the middle of a file."""
    entry = ark_entry(path)
    samples = []
    with (entry.path if entry else Path(path)).open("rb", buffering=_SAMPLE) as file:
        for place in [entry.offset] if entry else [0, file.seek(0, 2) // 2]:
            file.seek(place)
            samples.append(file.read(_SAMPLE))
    return samples
