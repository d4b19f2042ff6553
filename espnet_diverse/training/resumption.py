"""What a run that is continued must have in common with what it was: data, vocabularies and statistics.

A run keeps digests of its data in data.json. That of a table of audio covers the ids and the sizes of the files, not
their paths, so that a corpus may be moved; that of any other table covers its content. Vocabularies and statistics are
compared with the copies that the run has.
"""

import json
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path

import numpy as np

from espnet_diverse.audio.ark import file_size
from espnet_diverse.data.atomic_files import write_text
from espnet_diverse.data.tables import read_table
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.option_checks import with_present_names
from espnet_diverse.stage_cache import digest
from espnet_diverse.training.config import Config, differences, load
from espnet_diverse.training.run_data import Tokens
from espnet_diverse.vocabulary import Vocabulary

ALLOWED = ("data", "statistics")
"""What may change if that is allowed; with another vocabulary the weights would not fit."""

_FILE = "data.json"
_OTHER = {"data": "other data", "vocabulary": "another vocabulary", "statistics": "other statistics"}


def is_resumed(config: Config, output_dir: Path) -> bool:
    """Whether training continues a run in `output_dir`."""
    return (output_dir / "checkpoint.pth").exists() and bool(config.get("resume", True))


def changed_settings(config: Config, output_dir: Path) -> list[str]:
    """Differences between `config` and the configuration of the run that is continued."""
    before = output_dir / "train.yaml"
    return differences(with_present_names(load(before), str(before)), config) if before.exists() else []


def digests(config: Config) -> dict[str, str]:
    """SHA-256 digests of the tables that a run reads, by phase and name of the table, such as train/text.

    Args:
        config: The configuration with the paths of the data filled in.
    """
    found = {}
    for phase in ("train", "valid"):
        for file, _, kind in config[f"{phase}_data_path_and_name_and_type"]:
            path = Path(file)
            audio = kind != "text"
            found[f"{phase}/{path.name}"] = sha256(_sizes(path).encode()).hexdigest() if audio else str(digest(path))
    return found


def check_unchanged(
    output_dir: Path,
    tables: dict[str, str],
    tokens: Tokens,
    statistics: Path | None,
    allowed: Collection[str] = (),
) -> None:
    """Check that a run is continued with its own data, vocabularies and statistics; nothing is written.

    Args:
        output_dir: Directory of the run. What it has no copy or digest of is not compared.
        tables: `digests` of the data.
        tokens: The vocabularies.
        statistics: File with the statistics of the features, or None for text.
        allowed: What may differ, of `ALLOWED`.

    Raises:
        ConfigError: `allowed` has another name.
        DataError: Something differs, or the digests of the run are damaged; the message names it.
    """
    for name in allowed:
        if name not in ALLOWED:
            raise ConfigError(f"--allow_changed {name}: unknown; known: {' '.join(ALLOWED)}")
    known = _saved_digests(output_dir / _FILE)
    differing = {
        "data": [name for name, digest in tables.items() if known.get(name, digest) != digest],
        "vocabulary": _other_vocabularies(output_dir, tokens),
        "statistics": [str(statistics)] if statistics and _differ(statistics, output_dir / statistics.name) else [],
    }
    for what, which in differing.items():
        if which and what not in allowed:
            here = f"{output_dir}: was trained with {_OTHER[what]} than {' '.join(which)}"
            go_on = f", or --allow_changed {what} to go on with these" if what in ALLOWED else ""
            raise DataError(f"{here}; give another --output_dir for a separate run{go_on}")


def _saved_digests(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        saved = None
    if not isinstance(saved, dict):
        raise DataError(
            f"{path}: is damaged, so the data of the run cannot be compared; delete it to go on without that, "
            "or give another --output_dir"
        )
    return saved


def save_digests(tables: dict[str, str], output_dir: Path) -> None:
    """Keep the digests of the data in the directory of a run."""
    write_text(output_dir / _FILE, json.dumps(tables, indent=1) + "\n")


def _sizes(table: Path) -> str:
    return "".join(f"{utterance} {file_size(path)}\n" for utterance, path in read_table(table).items())


def _other_vocabularies(output_dir: Path, tokens: Tokens) -> list[str]:
    """Folders of the vocabularies that the run has a different copy of."""
    copies = tokens.moved(output_dir).folders
    there = {name: Vocabulary.load(copy) for name, copy in copies.items() if (copy / "tokens.yaml").is_file()}
    new = tokens.vocabularies
    differ = [name for name, old in there.items() if (old.tokens, old.model) != (new[name].tokens, new[name].model)]
    return [str(tokens.folders[name]) for name in differ]


def _differ(path: Path, copy: Path) -> bool:
    """Whether statistics differ by more than the order in which they were summed explains."""
    if not copy.is_file():
        return False
    with np.load(path) as new, np.load(copy) as old:
        same_names = set(new.files) == set(old.files)
        return not same_names or any(
            new[name].shape != old[name].shape or not np.allclose(new[name], old[name], rtol=1e-4) for name in new.files
        )
