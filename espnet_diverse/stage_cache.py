"""Stamps: how a recipe knows that a stage has finished and need not run again.

A stamp is a small JSON file, written only after its stage has succeeded. It holds the stage's arguments and the
SHA-256 digest of every input as it was when the stage began. A stage is up to date while its arguments and inputs are
the same and its outputs are there. Its name comes from the outputs: two stages that write the same files share one
stamp, so neither takes the other's result for its own.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from espnet_diverse.data.atomic_files import write_text


class Stamp:
    """The stamp of one stage; made just before the stage runs, because that is when its inputs are read.

    Args:
        folder: Where the stamps of the recipe lie.
        stage: Name of the stage.
        arguments: What the stage is asked to do.
        inputs: Files and folders that it reads; they may be missing.
        outputs: Files and folders that it makes.
    """

    def __init__(
        self, folder: Path, stage: str, arguments: Sequence[str], inputs: Iterable[Path], outputs: Iterable[Path]
    ):
        self._outputs = sorted(map(str, outputs))
        self._arguments = list(arguments)
        self._inputs = {str(path): digest(path) for path in inputs}
        identity = json.dumps([stage, self._outputs or self._arguments])
        self.path = Path(folder) / f"{stage}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.json"

    def reason(self) -> str | None:
        """Why the stage must run, or None where it is up to date."""
        stored = self._stored()
        if stored is None:
            return "not finished before"
        if stored["arguments"] != self._arguments:
            return "its arguments changed"
        for path in sorted(self._inputs.keys() | stored["inputs"].keys()):
            if self._inputs.get(path) != stored["inputs"].get(path):
                return f"{path} changed"
        missing = self.missing()
        return f"{missing} is missing" if missing else None

    def missing(self) -> str | None:
        """The first output that is not there, or None."""
        return next((path for path in self._outputs if not Path(path).exists()), None)

    def exit_code(self) -> int:
        """Exit code with which the stage finished, 0 where it did not."""
        stored = self._stored()
        return stored["exit_code"] if stored else 0

    def clear(self) -> None:
        """Forget the last run; called before a new one, which may be interrupted half-way through its outputs."""
        self.path.unlink(missing_ok=True)

    def save(self, exit_code: int) -> None:
        """Note that the stage has finished."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {"arguments": self._arguments, "inputs": self._inputs, "exit_code": exit_code}
        write_text(self.path, json.dumps(content, indent=1) + "\n")

    def _stored(self) -> dict | None:
        try:
            stored = json.loads(self.path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # an unreadable stamp proves nothing
            return None
        complete = isinstance(stored, dict) and stored.keys() >= {"arguments", "inputs", "exit_code"}
        return stored if complete else None


def is_data_directory(path: Path) -> bool:
    """Whether `path` is a Kaldi data directory, of speech or of text alone."""
    return (path / "wav.scp").is_file() or (path / "text").is_file()


def digest(path: Path) -> str | None:
    """SHA-256 of what lies at `path`; None where nothing does.

    Of a file its content; of a Kaldi data directory the content of its tables and the sizes of its audio files; of any
    other folder, which may be a large corpus, the names, sizes and times of the files in it.
    """
    hasher = hashlib.sha256()
    if path.is_file():
        _add_content(hasher, path)
    elif is_data_directory(path):
        for table in sorted(path.iterdir()):
            if table.is_file() and not table.name.startswith("."):
                hasher.update(os.fsencode(f"{table.name}\0"))
                _add_content(hasher, table)
        for line in _lines(path / "wav.scp"):
            hasher.update(f"{_size(Path(line.partition(' ')[2]))}\n".encode())
    elif path.is_dir():
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            status = file.stat()
            hasher.update(os.fsencode(f"{file.relative_to(path)}\0{status.st_size} {status.st_mtime_ns}\n"))
    else:
        return None
    return hasher.hexdigest()


def _add_content(hasher: "hashlib._Hash", path: Path) -> None:
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            hasher.update(block)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="surrogateescape").split("\n") if path.is_file() else []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
