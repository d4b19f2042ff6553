"""Make one data directory of several, as Kaldi's combine_data.sh does: corpora of one task, or of several domains."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.conditions import TABLES
from espnet_diverse.data.atomic_files import staged_directory
from espnet_diverse.data.characters import id_fault
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.formatting import check_target
from espnet_diverse.data.kaldi import DataDir, read_data_dir, write_data_dir
from espnet_diverse.data.validate import find_faults
from espnet_diverse.errors import ConfigError, DataError

DOMAINS = "utt2domain"


class Part(NamedTuple):
    """A data directory to be combined; `domain` is that of all its utterances, "" where its own tables say."""

    domain: str
    path: Path


def parse_part(word: str) -> Part:
    """Read "[DOMAIN=]DIR"; what stands before the first "=" is a domain unless it could not be an id ("a/b=c")."""
    domain, equals, path = word.partition("=")
    if equals and domain and not id_fault(domain):
        return Part(domain, Path(path))
    return Part("", Path(word))


def combine(parts: Sequence[Part], fill: Mapping[str, str] | None = None) -> DataDir:
    """Read data directories and make one set of them.

    Ids are kept as they are, so that hypotheses for a part and for the whole are named alike; an id in two of the
    directories is therefore refused.

    Args:
        parts: The directories.
        fill: A name for each of utt2lang, utt2tgtlang or utt2domain that the utterances of a directory without this
            table get, such as {"utt2lang": "zh"}.

    Raises:
        ConfigError: `fill` names another table.
        DataError: a directory is faulty or given twice, an utterance is in two of them, or only some of them have an
            optional table.
    """
    fill = fill or {}
    for table in fill.keys() - set(TABLES):
        raise ConfigError(f"{table!r} cannot be filled with one name for all; allowed are {', '.join(TABLES)}")
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
    refuse(find_faults(combined, read_audio=False))
    return combined


def write_combined(parts: Sequence[Part], output_dir: Path, fill: Mapping[str, str] | None = None) -> DataDir:
    """Write what `combine` makes to `output_dir`, replacing a data directory there; audio stays where it is.

    Raises:
        DataError: what `combine` raises; `output_dir` is one of the parts or no data directory.
    """
    if output_dir.absolute() in [part.path.absolute() for part in parts]:
        raise DataError(f"{output_dir}: is one of the directories to combine; write to another place")
    combined = combine(parts, fill)
    check_target({output_dir.name: combined}, output_dir.absolute().parent)
    with staged_directory(output_dir) as staging:
        write_data_dir(combined, staging)
    return combined


def _name(data: DataDir, names: Mapping[str, str]) -> None:
    """Give all utterances of `data` one name in each table of `names`."""
    for table, name in names.items():
        data.conditions[table] = dict.fromkeys(data.utterances(), name)


def _clashes(sets: Mapping[Path, DataDir]) -> list[Fault]:
    """Utterances that are in two sets, and recordings that are two different files."""
    faults = []
    owner: dict[str, Path] = {}
    wavs: dict[str, str] = {}
    for path, data in sets.items():
        for utterance in data.utterances():
            if utterance in owner:
                what = f"is also in {owner[utterance]}; an id may be in one directory only: prepare one of them anew"
                faults.append(Fault(str(path), utterance, what))
            owner[utterance] = path
        for recording, wav in data.wav_scp.items():
            if data.segments and wavs.get(recording, wav) != wav:
                faults.append(Fault(str(path / "wav.scp"), recording, f"is {wavs[recording]} in another directory"))
            wavs[recording] = wav
    return faults


def _gaps(sets: Mapping[Path, DataDir]) -> list[Fault]:
    """Directories that lack an optional table which others have."""
    faults = []
    for table in ("wav.scp", "segments", "src_text", *TABLES):
        having = [path for path, data in sets.items() if data.tables()[table]]
        todo = f"take it from all, or fill it with --fill {table}=NAME" if table in TABLES else "give all or none one"
        lacking = sets.keys() - having if having else []
        faults += [Fault(str(path), None, f"has no {table}, which {having[0]} has; {todo}") for path in sorted(lacking)]
    return faults
