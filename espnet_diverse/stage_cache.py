"""Records of finished stages, by which a recipe skips stages that are up to date.

A record is a small JSON file that is written after a stage has succeeded. It contains the arguments of the stage and
the SHA-256 digest of every input at the start of the stage. A stage is up to date while its arguments and inputs are
unchanged and its outputs exist. The file name depends on the outputs: two stages that write the same files share one
record, so each of them runs again after the other has replaced its outputs. Recipes keep the records in `exp/.stamps`.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from espnet_diverse.data.digests import digest
from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.untrusted.whole_files import read_json


class StageRecord:
    """The record of one stage. The constructor reads the inputs, so create it just before the stage runs.

    Args:
        folder: Folder with the records of the recipe.
        stage: Name of the stage.
        arguments: Arguments of the stage.
        inputs: Files and folders that the stage reads; they may be missing.
        outputs: Files and folders that the stage writes.

    Attributes:
        outputs: Paths of the outputs, sorted.
    """

    def __init__(
        self, folder: Path, stage: str, arguments: Sequence[str], inputs: Iterable[Path], outputs: Iterable[Path]
    ):
        self.outputs = sorted(map(str, outputs))
        self._arguments = list(arguments)
        self._inputs = {str(path): digest(path) for path in inputs}
        identity = json.dumps([stage, self.outputs or self._arguments])
        self.path = Path(folder) / f"{stage}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.json"

    def reason(self) -> str | None:
        """The reason why the stage must run; None if it is up to date."""
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

    def finished(self) -> bool:
        """Return whether the stage has finished with these arguments and inputs, whatever else it has read."""
        stored = self._stored() or {"arguments": None, "inputs": {}}
        same = all(stored["inputs"].get(path) == checksum for path, checksum in self._inputs.items())
        return stored["arguments"] == self._arguments and same and self.missing() is None

    def rewritten_input(self, made: Iterable[str]) -> str | None:
        """The first input that equals, contains or lies in one of the paths `made`; None if no input does."""
        paths = [Path(path).absolute() for path in made]
        for name in sorted(self._inputs):
            source = Path(name).absolute()
            if any(source == path or source in path.parents or path in source.parents for path in paths):
                return name
        return None

    def missing(self) -> str | None:
        """The first output that does not exist; None if all exist."""
        return next((path for path in self.outputs if not Path(path).exists()), None)

    def exit_code(self) -> int:
        """Exit code with which the stage finished; 0 if it has not finished."""
        stored = self._stored()
        return stored["exit_code"] if stored else 0

    def clear(self) -> None:
        """Delete the record; called before a stage runs, because a run may be interrupted."""
        self.path.unlink(missing_ok=True)

    def save(self, exit_code: int) -> None:
        """Write the record of a stage that has finished with `exit_code`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {"arguments": self._arguments, "inputs": self._inputs, "exit_code": exit_code}
        write_text(self.path, json.dumps(content, indent=1) + "\n")

    def _stored(self) -> dict | None:
        try:
            stored = read_json(self.path)
        except (FileNotFoundError, ValueError):  # an unreadable record is treated as missing
            return None
        complete = isinstance(stored, dict) and stored.keys() >= {"arguments", "inputs", "exit_code"}
        return stored if complete else None
