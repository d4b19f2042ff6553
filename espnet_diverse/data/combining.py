"""Combination of data directories into one, as Kaldi's combine_data.sh does, with a domain for each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.conditions import TABLES
from espnet_diverse.data.atomic_files import staged_directory
from espnet_diverse.data.characters import id_fault
from espnet_diverse.data.faults import Fault, decisive, refuse
from espnet_diverse.data.formatting import check_target
from espnet_diverse.data.kaldi import DataDir, read_data_dir, write_data_dir
from espnet_diverse.data.validate import find_faults
from espnet_diverse.errors import ConfigError, DataError

DOMAINS = "utt2domain"


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


def combine(parts: Sequence[Part], fill: Mapping[str, str] | None = None) -> DataDir:
    """Read data directories and combine them.

    Ids do not change, so that hypotheses of a part and of the whole have the same ids; they must therefore differ
    between the directories.

    Args:
        parts: The directories.
        fill: Values by table, such as {"utt2lang": "zh"}, for the utterances of directories without this table; the
            tables are utt2lang, utt2tgtlang and utt2domain.

    Raises:
        ConfigError: `fill` has another table.
        DataError: A directory is faulty or given twice, an utterance is in two of them, or only some of them have an
            optional table.
    """
    fill = fill or {}
    for table in fill.keys() - set(TABLES):
        raise ConfigError(f"{table!r} cannot be filled with one value; allowed are {', '.join(TABLES)}")
    sets: dict[Path, DataDir] = {}
    for domain, path in parts:
        if path in sets:
            raise DataError(f"{path}: is given twice; give each data directory once")
        sets[path] = read_data_dir(path)
        _name(sets[path], {DOMAINS: domain} if domain else {})
        _name(sets[path], {table: name for table, name in fill.items() if not sets[path].conditions.get(table)})
    refuse(_clashes(sets) + _gaps(sets))
    combined = DataDir()
    for data in sets.values():
        for name in ("wav_scp", "text", "utt2spk", "segments", "src_text"):
            getattr(combined, name).update(getattr(data, name))
        for name, table in data.conditions.items():
            combined.conditions.setdefault(name, {}).update(table)
    refuse(decisive(find_faults(combined, read_audio=False)))
    return combined


def write_combined(parts: Sequence[Part], output_dir: Path, fill: Mapping[str, str] | None = None) -> DataDir:
    """Write the result of `combine` to `output_dir`, replacing a data directory there; audio is not copied.

    Raises:
        DataError: What `combine` raises, or `output_dir` is one of the parts or is no data directory.
    """
    if output_dir.absolute() in [part.path.absolute() for part in parts]:
        raise DataError(f"{output_dir}: is one of the directories to combine; choose another path")
    combined = combine(parts, fill)
    check_target({output_dir.name: combined}, output_dir.absolute().parent)
    with staged_directory(output_dir) as staging:
        write_data_dir(combined, staging)
    return combined


def _name(data: DataDir, names: Mapping[str, str]) -> None:
    """Set one value for all utterances in each table of `names`."""
    for table, name in names.items():
        data.conditions[table] = dict.fromkeys(data.utterances(), name)


def _clashes(sets: Mapping[Path, DataDir]) -> list[Fault]:
    """Utterances that are in two sets, and recordings with two different files."""
    faults = []
    owner: dict[str, Path] = {}
    wavs: dict[str, str] = {}
    for path, data in sets.items():
        for utterance in data.utterances():
            if utterance in owner:
                what = f"is also in {owner[utterance]}; an id may be in one directory only: prepare one of them again"
                faults.append(Fault(str(path), utterance, what))
            owner[utterance] = path
        for recording, wav in data.wav_scp.items():
            if data.segments and wavs.get(recording, wav) != wav:
                faults.append(Fault(str(path / "wav.scp"), recording, f"is {wavs[recording]} in another directory"))
            wavs[recording] = wav
    return faults


def _gaps(sets: Mapping[Path, DataDir]) -> list[Fault]:
    """Directories without an optional table that others have."""
    faults = []
    for table in ("wav.scp", "utt2spk", "segments", "src_text", *TABLES):
        having = [path for path, data in sets.items() if data.tables()[table]]
        todo = f"remove it from all, or add it with --fill {table}=VALUE" if table in TABLES else "all need it or none"
        lacking = sets.keys() - having if having else []
        faults += [Fault(str(path), None, f"has no {table}, which {having[0]} has; {todo}") for path in sorted(lacking)]
    return faults
