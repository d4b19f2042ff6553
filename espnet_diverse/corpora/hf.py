"""A dataset of Hugging Face, by its name or in a folder, read through the library datasets (extra hf).

    prepare hf google/fleurs:de_de     a dataset of the Hub and one of its configurations; the library keeps a cache
    prepare hf DIR                     a folder of `save_to_disk`, or one of parquet files

A folder of audio with metadata.csv or metadata.jsonl needs no library: that file is a table.

`convert` writes the recordings in a dataset as files, and a table of its columns, which `table` then reads: columns,
other names, options and errors are the same as for a table. Splits of the dataset become the column split; a dataset
with a single split has none, so that its sets are drawn. Utterances are named by split and number, unless
`selection.columns` names a column of ids. No code of a dataset is run: releases of the library from 4.0 on have none.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from espnet_diverse.corpora import EVERYTHING, Selection, table
from espnet_diverse.corpora.shared.columns import COLUMNS
from espnet_diverse.corpora.shared.converted import converted_folder
from espnet_diverse.corpora.shared.splits import set_of
from espnet_diverse.data.characters import safe_name
from espnet_diverse.data.files.atomic_files import staged_directory, write_parts
from espnet_diverse.errors import DataError, optional_package
from espnet_diverse.progress import progress

SETS = table.SETS
OPTIONS = tuple(name for name in table.OPTIONS if name != "audio_dir")
NO_DOWNLOAD = "hf has no dataset of its own; give its name or folder: prepare hf NAME_OR_DIR"
TABLE = "table.jsonl"

_DAMAGED = (OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError)
"""Errors of the library; the last three come from a folder of `save_to_disk` with a damaged state.json."""

prepare = table.prepare


def convert(source: Path, target_dir: Path, selection: Selection = EVERYTHING) -> Path:
    """Write the recordings of a dataset and its table to a folder in `target_dir`.

    Args:
        source: Folder of a dataset, or a dataset's name on the Hub, with ":" and a configuration if it has several.
        target_dir: Folder of downloads.
        selection: Sets that are not wanted are left out; recordings of them from an earlier call stay.

    Returns:
        The table, for `prepare`.

    Raises:
        ConfigError: The library is not installed.
        DataError: The dataset does not exist, or has no split for the wanted sets.
    """
    splits = _load(optional_package("datasets", "prepare hf", "hf"), source)
    wanted = selection.wanted(SETS)
    several = len(splits) > 1
    if several and selection.sets:
        names = " ".join(splits)
        splits = {split: dataset for split, dataset in splits.items() if set_of(split, selection) in wanted}
        if not splits:
            todo = f"name a split with --set_names {wanted[0]}=NAME"
            raise DataError(f"{source}: none of its splits, {names}, is {' or '.join(wanted)}; {todo}")
    folder = converted_folder("hf", source, target_dir)
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folders = {split: stack.enter_context(staged_directory(folder / safe_name(split))) for split in splits}
        rows = (
            row | ({"split": split} if several else {})
            for split, dataset in splits.items()
            for row in table_rows(dataset, split, folders[split], selection)
        )
        write_parts(folder / TABLE, (json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return folder / TABLE


def table_rows(
    dataset: Any, split: str, folder: Path, selection: Selection = EVERYTHING
) -> Iterator[dict[str, object]]:
    """The rows of a split: values that are text or numbers, names of classes instead of their numbers, and audio.

    Args:
        dataset: Mappings by column, and `features` by column; audio is {"path", "bytes"}.
        split: Its name.
        folder: Existing folder, to which recordings without a file are written. It will be the folder `split` next to
            the table.
        selection: `columns` may name a column of ids; by default ids are left out, as ids of datasets may repeat.
    """
    named = dict(selection.columns)
    unread = {name for name in dataset.features if name.lower() in ("id", *COLUMNS["id"]) and name != named.get("id")}
    for number, values in enumerate(progress(dataset, f"read {split}", len(dataset), "recording")):
        place = Path(safe_name(split), f"{number:07d}")
        row: dict[str, object] = {} if "id" in named else {"id": "-".join(place.parts)}
        for name, feature in dataset.features.items():
            value = None if name in unread else values[name]
            if isinstance(value, Mapping) and {"path", "bytes"} <= value.keys():
                row[name] = _audio(value, place, folder, name)
            elif hasattr(feature, "int2str"):
                if value is not None and value >= 0:  # -1 is "no label"
                    row[name] = feature.int2str(value)
            elif isinstance(value, str | int | float):
                row[name] = value
        yield row


def _audio(value: Mapping[str, Any], place: Path, folder: Path, column: str) -> str:
    """Path of a recording: its own, or `place` with its suffix if it is written to `folder`."""
    path = value["path"] or ""
    if value["bytes"] is None:
        return str(Path(path).absolute()) if path else ""
    file = place.with_suffix(Path(path).suffix or ".wav")  # audio is recognised by its content, not by its suffix
    if (folder / file.name).exists():
        file = file.with_stem(f"{file.stem}-{safe_name(column)}")
    (folder / file.name).write_bytes(value["bytes"])
    return str(file)


def _load(datasets: ModuleType, source: Path) -> dict[str, Any]:
    """The splits of a dataset by name, their audio undecoded."""
    try:
        if any((source / name).is_file() for name in ("dataset_dict.json", "state.json")):
            loaded = datasets.load_from_disk(str(source))
        elif source.is_dir():
            loaded = datasets.load_dataset(str(source.absolute()))
        else:
            name, _, configuration = str(source).partition(":")
            loaded = datasets.load_dataset(name, configuration or None)
    except _DAMAGED + (datasets.exceptions.DatasetsError,) as error:
        cause = error.__cause__ or error
        reason = " ".join((repr(cause) if isinstance(cause, LookupError) else str(cause)).split())
        todo = "give a folder, or NAME or NAME:CONFIGURATION of the Hub, which needs a network the first time"
        raise DataError(f"{source}: the library datasets cannot load it ({reason}); {todo}") from error
    splits = dict(loaded) if isinstance(loaded, dict) else {"all": loaded}
    return {name: _undecoded(datasets, dataset) for name, dataset in splits.items()}


def _undecoded(datasets: ModuleType, dataset: Any) -> Any:
    for name, feature in dataset.features.items():
        if isinstance(feature, datasets.Audio):
            dataset = dataset.cast_column(name, datasets.Audio(decode=False))
    return dataset
