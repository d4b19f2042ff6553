"""Records of stages that version 0.2.0 wrote when Python and the commands ran the same command lines."""

import json
from pathlib import Path

from espnet_diverse.data.digests import digest
from references.markdown import ROOT

RECORDS = json.loads((ROOT / "tests" / "golden" / "training_records.json").read_text(encoding="utf-8"))


def finish(folder: str) -> None:
    """Make the working directory what finished stages leave: files, and the records in the folder .stamps of `folder`.

    Files that exist stay as they are; the others are empty.
    """
    own = {name: each for name, each in RECORDS.items() if Path(name).parent == Path(folder, ".stamps")}
    places = {"conf": str(ROOT / "conf"), "root": str(Path.cwd())}
    records = json.loads(_filled(json.dumps(own), places))
    for each in records.values():
        for name in (*each["inputs"], *each["outputs"]):
            path = Path(name)
            path = path / "text" if path.parent == Path("data") else path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    for name, each in records.items():
        inputs = {path: digest(Path(path)) for path in each["inputs"]}
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(json.dumps({"arguments": each["arguments"], "inputs": inputs, "exit_code": 0}))


def _filled(text: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        text = text.replace(f"{{{name}}}", place)
    return text
