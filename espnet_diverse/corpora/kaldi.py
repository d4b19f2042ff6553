"""Data directories as Kaldi and ESPnet write them: one, or a folder of several.

    prepare kaldi data                                     data/train, data/dev and data/test
    prepare kaldi data --set_names train=tr dev=cv test=tt the same under other names
    prepare kaldi data/eval --sets test                    one directory, as the set that is named
    prepare kaldi data/all                                 one directory, from which the sets are drawn, as of a table

Tables may be unsorted. Recordings may be files of any format, entries of arks (wav.1.ark:1234) and, with
`selection.allow_pipes`, commands, which `convert` runs without a shell and whose output it writes to files; see
`shared/pipes.py`. Segments are cut. Without utt2spk each utterance has its own speaker. Text is kept as it is. Relative
paths are relative to the current folder, as in Kaldi.

Other tables with a value for utterances or speakers, such as spk2gender, are kept, and grow with speed perturbation.
Tables that describe the features or the length of the audio are left out, because the audio may change; so are files
that are not tables of utterances or speakers, with a notice.
"""

import logging
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from espnet_diverse.audio.ark import ark_entry, is_file
from espnet_diverse.corpora import EVERYTHING, Selection
from espnet_diverse.corpora.shared.converted import converted_folder
from espnet_diverse.corpora.shared.pipes import parse_pipe, run_pipe
from espnet_diverse.corpora.shared.splits import SETS, SPLITS, connected, draw_sets
from espnet_diverse.data.checks.fixing import reasons
from espnet_diverse.data.checks.validate import find_faults
from espnet_diverse.data.faults import Fault, decisive, refuse
from espnet_diverse.data.files.atomic_files import staged_directory
from espnet_diverse.data.kaldi import DataTables, keep_utterances, leave_out, scan_extra, scan_tables, text_files
from espnet_diverse.data.table_views import Joined, Mapped
from espnet_diverse.data.tables import scan_table, write_table
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.progress import progress

OPTIONS = ("allow_pipes", "split_by", "split_shares", "split_seed")
NO_DOWNLOAD = "a data directory has no download; give its path: prepare kaldi DIR"
log = logging.getLogger(__name__)


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataTables]:
    """Read data directories, without an object for each row unless sets are drawn.

    Args:
        corpus_dir: A data directory, or a folder of several.
        selection: Options. Utterances without audio or text and faulty lines are errors unless `on_bad="drop"`.

    Returns:
        The sets train, dev and test, or those selected.

    Raises:
        ConfigError: It is not clear which set a single directory is.
        DataError: A directory is missing or faulty.
    """
    folders = _folders(corpus_dir, selection)
    faults: list[Fault] = []
    sets = {name: _read(folder, selection, faults) for name, folder in folders.items()}
    refuse(faults)
    return sets if "" not in sets else _drawn(sets[""], selection)


def reads(source: Path, selection: Selection = EVERYTHING) -> list[Path]:
    """The data directories that `prepare` reads.

    Raises:
        ConfigError: It is not clear which set a single directory is.
        DataError: A directory is missing.
    """
    return list(_folders(source, selection).values())


def convert(source: Path, target_dir: Path, selection: Selection = EVERYTHING) -> Path:
    """Write the output of commands in wav.scp as files, with copies of the tables, if there are any commands.

    Args:
        source: A data directory, or a folder of several.
        target_dir: Folder of downloads.
        selection: Sets that are not wanted are left out. Commands are run if it allows pipes.

    Returns:
        The copies for `prepare`, or `source` if there are no commands, or they must not be run.

    Raises:
        DataError: A wav.scp is faulty, or a command is not allowed, or fails.
    """
    if not selection.allow_pipes:
        return source
    folders, faults = _folders(source, selection), []
    entries = {name: _entries(folder / "wav.scp", faults) for name, folder in folders.items()}
    commands = {name: {key: value for key, value in entries[name].items() if "|" in value} for name in entries}
    if not any(commands.values()):
        return source
    refuse(faults)
    _check(folders, commands)
    target = converted_folder("kaldi", source, target_dir)
    with ExitStack() as stack:
        for name, folder in folders.items():
            final = target / folder.relative_to(source)
            copy = stack.enter_context(staged_directory(final))  # the files of other sets may be in use
            for table in text_files(folder):
                shutil.copyfile(table, copy / table.name)
            if commands[name]:
                files = _run(commands[name], folder / "wav.scp", copy, final)
                write_table(copy / "wav.scp", entries[name] | files)
    return target


def _folders(source: Path, selection: Selection) -> dict[str, Path]:
    """The data directory of each wanted set; "" stands for a directory from which the sets are drawn."""
    wanted = selection.wanted(SETS)
    if not source.is_dir():
        raise DataError(f"{source}: there is no such data directory; give one, or a folder of several")
    if any((source / table).is_file() for table in ("wav.scp", "text", "feats.scp")):
        if len(wanted) == 1:
            return {wanted[0]: source}
        named = [name for name in SETS if source.absolute().name in (*SPLITS[name], selection.name_of(name))]
        if named:
            raise ConfigError(f"{source}: is one data directory; name its set with --sets {named[0]}")
        return {"": source}
    folders = {}
    for name in wanted:
        names = [selection.name_of(name)] if name in dict(selection.set_names) else SPLITS[name]
        paths = [source / split for split in names if (source / split).is_dir()]
        if not paths:
            available = " ".join(sorted(path.name for path in source.iterdir() if path.is_dir())) or "no folders"
            todo = f"name it with --set_names {name}=NAME, or leave it out with --sets"
            raise DataError(f"{source}: has no data directory {names[0]}, but {available}; {todo}")
        folders[name] = paths[0]
    return folders


def _entries(table: Path, faults: list[Fault]) -> dict[str, str]:
    """The entries of wav.scp, including commands."""
    if not table.is_file():
        return {}
    entries, table_faults = scan_table(table, "commands.scp")  # as wav.scp, in which commands are faults
    faults += table_faults
    return entries


def _check(folders: dict[str, Path], commands: dict[str, dict[str, str]]) -> None:
    """Refuse commands that are not allowed before any command is run; log the programs that will be run."""
    faults, programs = [], Counter()
    for name, entries in commands.items():
        for recording, entry in entries.items():
            try:
                programs.update(Path(words[0]).name for words in parse_pipe(entry))
            except DataError as error:
                faults.append(Fault(str(folders[name] / "wav.scp"), recording, str(error)))
    refuse(faults)
    listed = ", ".join(f"{program} ({count})" for program, count in sorted(programs.items()))
    log.warning("notice: commands of wav.scp are run without a shell: %s", listed)


def _run(commands: dict[str, str], table: Path, folder: Path, final: Path) -> dict[str, str]:
    """Write the output of commands to `folder`, which will become `final`; return the path of each."""
    (folder / "wav").mkdir()
    files, faults = {}, []
    for number, (recording, command) in enumerate(progress(commands.items(), "run pipes", len(commands), "file")):
        file = Path("wav", f"{number:07d}.wav")  # recognised by its content, not by its suffix
        try:
            run_pipe(command, folder / file)
        except DataError as error:
            faults.append(Fault(str(table), recording, str(error)))
        files[recording] = str(final / file)
    refuse(faults)
    return files


def _read(folder: Path, selection: Selection, faults: list[Fault]) -> DataTables:
    if (folder / "feats.scp").is_file() and not (folder / "wav.scp").is_file():
        reason = (
            "has features and no audio; stats, train and decode read feats.scp as it is, for models with input_size"
        )
        faults.append(Fault(str(folder), None, reason))
        return DataTables()
    data, table_faults = scan_tables(folder)
    drop = selection.on_bad == "drop"
    faults += [fault for fault in table_faults if not (drop and fault.entry)]
    data.wav_scp = Mapped(data.wav_scp, lambda path: str(Path(path).absolute()))
    data.extra = scan_extra(folder, data)
    return _complete(data, [fault for fault in table_faults if fault.entry]) if drop else data


def _complete(data: DataTables, faults: Sequence[Fault]) -> DataTables:
    """The utterances that are in all tables, without a fault, and whose audio exists; the others are dropped."""
    tables = {"text": data.text, "utt2spk": data.utt2spk, "src_text": data.src_text, **data.conditions}
    is_text, dropped = data.is_text, reasons(data, faults)
    for utterance in Joined([data.by_utterance(), data.text]):
        segment = data.segments.get(utterance)
        recording = segment.recording if segment else utterance
        path = "" if data.segments and not segment else data.wav_scp.get(recording, "")
        entry = ark_entry(path)
        without = [name for name, table in tables.items() if table and not table.get(utterance)]
        if utterance in dropped:
            continue
        if without:
            dropped[utterance] = f"has no value in {' '.join(without)}"
        elif not is_text and not path:
            dropped[utterance] = "has no audio in wav.scp or segments"
        elif path and not is_file(entry.path if entry else Path(path)):
            dropped[utterance] = f"{path} does not exist"
    return leave_out(data, dropped)


def _drawn(data: DataTables, selection: Selection) -> dict[str, DataTables]:
    """Sets that share no speaker and no recording.

    Raises:
        DataError: A table has a line of an unknown utterance, which would be in no set.
    """
    refuse(decisive(find_faults(data, read_audio=False)))
    utterances = data.utterances()

    def keys(utterance: str) -> list[str]:
        segment = data.segments.get(utterance)
        audio = f"audio {segment.recording if segment else utterance}"
        return [audio] if selection.split_by == "audio" else [audio, f"speaker {data.speaker(utterance)}"]

    groups = connected([keys(utterance) for utterance in utterances])
    drawn = draw_sets(groups, selection, "give a folder with a data directory for each set")
    sets: dict[str, DataTables] = {}
    for name in selection.wanted(SETS):
        selected = {utterance for utterance, group in zip(utterances, groups, strict=True) if drawn[group] == name}
        sets[name] = keep_utterances(data if not sets else replace(data, dropped={}, bad=set()), selected)
    return sets
