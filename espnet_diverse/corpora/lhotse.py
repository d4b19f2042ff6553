"""Manifests of lhotse, read through the library (extra lhotse).

    prepare lhotse DIR          [<name>_]{recordings,supervisions}[_<split>].jsonl[.gz], or else [<name>_]cuts...
    prepare lhotse FILE         one file of supervisions, with the file of its recordings next to it, or of cuts

Each supervision becomes a row of a table with audio, text, speaker, language, start and end, and domain, translation
and target_language of its custom fields, which `table` then reads: options and errors are the same as for a table. The
splits in the file names become the column split; if there is only one, the sets are drawn.

A recording is one file, as it is on disk: commands and other sources, augmentation, cuts that are mixed or padded, and
supervisions of one of several channels are faults. `espnet-diverse export lhotse` writes such manifests.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from espnet_diverse.corpora import EVERYTHING, Selection, table
from espnet_diverse.corpora.shared.table_files import Row, Table
from espnet_diverse.data.faults import Fault
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import DataError, optional_package

SETS = table.SETS
OPTIONS = tuple(name for name in table.OPTIONS if name != "audio_dir")
NO_DOWNLOAD = "lhotse has no corpus of its own; give its manifests: prepare lhotse DIR"
CUSTOM = ("domain", "translation", "target_language")
_NAME = re.compile(
    r"(?!\.)(?P<before>(?:.*_)?)(?P<kind>supervisions|cuts)(?:_(?P<split>.+?))?(?P<suffix>\.jsonl(?:\.gz)?)"
)


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read manifests.

    Args:
        corpus_dir: A folder of manifests, or a file of supervisions or cuts.
        selection: Options, as for a table.

    Returns:
        The sets train, dev and test, or those selected.

    Raises:
        ConfigError: The library is not installed.
        DataError: A manifest is missing or faulty; the message names supervision and value.
    """
    source = corpus_dir.absolute()
    files = sorted(source.iterdir()) if source.is_dir() else [source]
    manifests = [(path, name) for path in files if (name := _NAME.fullmatch(path.name))]
    if any(name["kind"] == "supervisions" for _, name in manifests):  # cuts next to them are made from them
        manifests = [(path, name) for path, name in manifests if name["kind"] == "supervisions"]
    if not manifests:
        wanted = "supervisions_train.jsonl.gz and recordings_train.jsonl.gz, or cuts_train.jsonl.gz"
        raise DataError(f"{source}: there are no manifests of lhotse; the names are such as {wanted}")
    library = optional_package("lhotse", "prepare lhotse", "lhotse")
    rows = Table(source)
    for path, name in manifests:
        split = {"split": name["split"]} if name["split"] and len(manifests) > 1 else {}
        items = _load(library, path)
        if recordings := beside(path):
            add_supervisions(rows, items, _by_id(rows, *recordings, _load(library, *recordings)), split)
        else:
            add_cuts(rows, items, split)
    rows.columns = list(dict.fromkeys(column for row in rows.rows for column in row.values))
    return table.read_sets(rows, selection)


def beside(source: Path) -> list[Path]:
    """Files that are read with a source: for a file of supervisions, the file of their recordings."""
    name = _NAME.fullmatch(source.name)
    named = name is not None and name["kind"] == "supervisions"
    return [source.with_name(source.name.replace("supervisions", "recordings"))] if named else []


def add_supervisions(
    rows: Table,
    supervisions: Iterable[Any],
    recordings: Mapping[str, Any],
    split: Mapping[str, str],
    offset: float = 0.0,
) -> None:
    """Add a row for each supervision, or a fault.

    Args:
        rows: The table.
        supervisions: Supervisions of lhotse.
        recordings: Recordings of lhotse by id.
        split: {"split": name}, or empty.
        offset: Start of the cut that the supervisions belong to, in seconds of its recording.
    """
    for supervision in supervisions:
        try:
            recording = recordings.get(supervision.recording_id)
            reason = _unreadable(recording, supervision)
            values = {} if reason else _values(recording, supervision, offset)
        except (TypeError, AttributeError, OverflowError) as error:  # lhotse checks no types when it reads
            reason = f"it or its recording has a value of a wrong kind ({error}); write the manifest again"
        if reason:
            rows.faults.append(Fault(str(rows.path), str(supervision.id), reason))
        else:
            rows.rows.append(Row(supervision.id, values | split))


def _values(recording: Any, supervision: Any, offset: float) -> dict[str, object]:
    """The values of a supervision by column, for the columns that it has."""
    start, end = offset + supervision.start, offset + supervision.start + supervision.duration
    full_recording = start < 0.001 and abs(end - recording.duration) < 0.001
    values = {
        "id": supervision.id,
        "audio": str(Path(recording.sources[0].source).absolute()),
        "text": supervision.text,
        "speaker": supervision.speaker,
        "language": supervision.language,
        "start": None if full_recording else round(start, 6),
        "end": None if full_recording else round(end, 6),
        **{name: (supervision.custom or {}).get(name) for name in CUSTOM},
    }
    return {name: value for name, value in values.items() if value is not None or name in ("audio", "text")}


def add_cuts(rows: Table, cuts: Iterable[Any], split: Mapping[str, str]) -> None:
    """Add a row for each supervision of each cut, or a fault."""
    for cut in cuts:
        recording = getattr(cut, "recording", None)
        if recording is None:
            reason = f"is a {type(cut).__name__} without a recording; only cuts of one recording are read"
            rows.faults.append(Fault(str(rows.path), cut.id, reason))
        else:
            add_supervisions(rows, cut.supervisions, {recording.id: recording}, split, cut.start)


def _by_id(rows: Table, path: Path, recordings: Iterable[Any]) -> dict[str, Any]:
    """Recordings by id; faults are added for impossible ids, and for ids of two different recordings."""
    by_id: dict[str, Any] = {}
    for recording in recordings:
        if not isinstance(recording.id, str | int):
            reason = "is no id of a recording; write the manifest again"
        elif by_id.setdefault(recording.id, recording) != recording:
            reason = "two recordings that differ have this id; write the manifest again"
        else:
            continue
        rows.faults.append(Fault(str(path), str(recording.id), reason))
    return by_id


def _unreadable(recording: Any, supervision: Any) -> str:
    """The reason why the recording of a supervision cannot be read, or ""."""
    if recording is None:
        return f"its recording {supervision.recording_id!r} is not in the manifest of recordings; add it"
    kinds = [source.type for source in recording.sources]
    if kinds != ["file"]:
        return f"its recording {recording.id!r} has the sources {', '.join(kinds)}; only one file is read: save it"
    if recording.transforms:
        return f"its recording {recording.id!r} is augmented; only recordings as they are on disk are read: save it"
    channels = supervision.channel if isinstance(supervision.channel, list) else [supervision.channel]
    if len(channels) < len(recording.sources[0].channels):
        return f"is of one channel of its recording {recording.id!r}, which has several; save that channel as a file"
    return ""


def _load(library: ModuleType, path: Path) -> list[Any]:
    """The items of a manifest."""
    if not path.is_file():
        raise DataError(f"{path}: there is no such manifest; supervisions need their recordings' manifest next to them")
    try:
        return list(library.load_manifest(path))
    except (ValueError, KeyError, TypeError, AttributeError, OSError, EOFError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: lhotse cannot read it ({type(error).__name__}: {reason}); write it again") from error
