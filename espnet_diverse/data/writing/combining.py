"""Combination of data directories, as in Kaldi's combine_data.sh, with a domain for each."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from espnet_diverse.conditions import TABLES
from espnet_diverse.data.characters import id_fault
from espnet_diverse.data.checks.validate import find_faults
from espnet_diverse.data.faults import Fault, decisive, refuse
from espnet_diverse.data.files.atomic_files import staged_directory
from espnet_diverse.data.kaldi import DataTables, scan_extra, scan_tables, source_of, write_data_dir
from espnet_diverse.data.output_paths import check_prepared, check_target, check_unread, mark_prepared
from espnet_diverse.data.table_views import Joined, Same
from espnet_diverse.errors import ConfigError, DataError

DOMAINS = "utt2domain"

log = logging.getLogger(__name__)


class Part(NamedTuple):
    """A data directory to combine, and the domain of all its utterances; "" leaves its own utt2domain as it is."""

    domain: str
    path: Path


def parse_part(word: str) -> Part:
    """Parse "[DOMAIN=]DIR"; the text before the first "=" is a domain if it is a valid id (not in "a/b=c")."""
    domain, equals, path = word.partition("=")
    if equals and domain and not id_fault(domain):
        return Part(domain, Path(path))
    return Part("", Path(word))


def combine(parts: Sequence[Part], fill: Mapping[str, str] | None = None) -> DataTables:
    """Read data directories and combine them.

    Ids do not change, so that hypotheses of a part and of the whole have the same ids; ids must therefore differ
    between the directories.

    Args:
        parts: The directories.
        fill: Values by table, such as {"utt2lang": "zh"}, for the utterances of directories without this table; the
            tables are utt2lang, utt2tgtlang and utt2domain.

    Raises:
        ConfigError: `fill` has another table.
        DataError: A directory is faulty or given twice, an utterance is in two of them, only some of them have an
            optional table, or some have features and others audio.
    """
    fill = fill or {}
    for table in fill.keys() - set(TABLES):
        raise ConfigError(f"{table!r} cannot be filled with one value; allowed are {', '.join(TABLES)}")
    sets: dict[Path, DataTables] = {}
    for domain, path in parts:
        tables, faults = scan_tables(path, source_of(path))
        refuse(faults)
        if path.resolve() in map(Path.resolve, sets):
            raise DataError(f"{path}: is given twice; give each data directory once")
        sets[path] = tables
        sets[path].extra = scan_extra(path, sets[path])
        _name(sets[path], {DOMAINS: domain} if domain else {})
        _name(sets[path], {table: name for table, name in fill.items() if not sets[path].conditions.get(table)})
    refuse(_clashes(sets) + _gaps(sets))
    combined = _joined(list(sets.values()))
    features = 0 if source_of(parts[0].path) == "feats.scp" else None
    refuse(decisive(find_faults(combined, read_audio=False, features=features)))
    return combined


def _joined(sets: Sequence[DataTables]) -> DataTables:
    conditions = {name: [data.conditions.get(name, {}) for data in sets] for name in TABLES}
    return DataTables(
        wav_scp=Joined([data.wav_scp for data in sets]),
        text=Joined([data.text for data in sets]),
        utt2spk=Joined([data.utt2spk for data in sets]),
        segments=Joined([data.segments for data in sets]),
        src_text=Joined([data.src_text for data in sets]),
        conditions={name: Joined(tables) for name, tables in conditions.items() if any(tables)},
        extra={name: Joined([data.extra[name] for data in sets]) for name in _in_all(sets)},
    )


def _in_all(sets: Sequence[DataTables]) -> list[str]:
    """The extra tables that all sets have; tables that only some have are left out, as in Kaldi."""
    counts = Counter(name for data in sets for name in data.extra)
    if incomplete := sorted(name for name, count in counts.items() if count < len(sets)):
        log.warning("notice: left out, as only some directories have them: %s", " ".join(incomplete))
    return sorted(counts.keys() - incomplete)


def write_combined(parts: Sequence[Part], output_dir: Path, fill: Mapping[str, str] | None = None) -> DataTables:
    """Write the result of `combine` to `output_dir`, replacing earlier results of ours; audio is not copied.

    Raises:
        DataError: See `combine`; or `output_dir` is one of the parts or was not written by us.
    """
    check_unread(output_dir, [part.path for part in parts])
    check_prepared(output_dir)
    combined = combine(parts, fill)
    check_target({output_dir.name: combined}, output_dir.absolute().parent)
    with staged_directory(output_dir) as staging:
        write_data_dir(combined, staging, source_of(parts[0].path))
        mark_prepared(staging)
    return combined


def _name(data: DataTables, names: Mapping[str, str]) -> None:
    """Set one value for all utterances in each table of `names`."""
    data.conditions = {**data.conditions, **{table: Same(data.by_utterance(), name) for table, name in names.items()}}


def _clashes(sets: Mapping[Path, DataTables]) -> list[Fault]:
    """Utterances that are in two sets, and recordings or speakers with two different values; by set, then by id."""
    paths, faults = list(sets), []
    for (before, _, first), (utterance, _, number) in pairwise(
        _merged([data.by_utterance() for data in sets.values()])
    ):
        if utterance == before:
            reason = f"is also in {paths[first]}; an id may be in one directory only: prepare one of them again"
            faults.append((number, Fault(str(paths[number]), utterance, reason)))
    shared = {"wav.scp"} if any(data.segments for data in sets.values()) else set()
    for name in sorted(shared.union(*(data.extra for data in sets.values()))):
        tables = [data.tables().get(name, {}) for data in sets.values()]
        for (before, other, _), (key, value, number) in pairwise(_merged(tables)):
            if key == before and value != other:
                faults.append((number, Fault(str(paths[number] / name), key, f"is {other} in another directory")))
    return [fault for _, fault in sorted(faults, key=lambda one: one[0])]


def _merged(tables: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Any, int]]:
    """Id, value and number of the table of all rows, sorted by id, then by table."""

    def rows(number: int, table: Mapping[str, Any]) -> Iterator[tuple[str, Any, int]]:
        return ((key, value, number) for key, value in table.items())

    return merge(*(rows(number, table) for number, table in enumerate(tables)), key=itemgetter(0))


def _gaps(sets: Mapping[Path, DataTables]) -> list[Fault]:
    """Directories without an optional table that others have, or with features while others have audio."""
    having = next((path for path in sets if sets[path].wav_scp), None)
    faults = [
        Fault(str(path), None, f"has {source_of(path)}, and {having} has {source_of(having)}; all need the same")
        for path in sorted(sets)
        if having and sets[path].wav_scp and source_of(path) != source_of(having)
    ]
    for table in ("wav.scp", "utt2spk", "segments", "src_text", *TABLES):
        having = [path for path, data in sets.items() if data.tables()[table]]
        todo = f"remove it from all, or add it with --fill {table}=VALUE" if table in TABLES else "all need it or none"
        lacking = sets.keys() - having if having else []
        faults += [Fault(str(path), None, f"has no {table}, which {having[0]} has; {todo}") for path in sorted(lacking)]
    return faults
