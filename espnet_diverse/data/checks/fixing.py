"""A corrected copy of a data directory, and a check for speakers and sentences that two directories share."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from espnet_diverse.conditions import TABLES
from espnet_diverse.data.checks.plausibility import CANCELLED
from espnet_diverse.data.checks.repetitions import in_both
from espnet_diverse.data.faults import ACTIONS, Fault, refuse
from espnet_diverse.data.files.atomic_files import staged_directory
from espnet_diverse.data.kaldi import DataTables, leave_out, scan_extra, scan_tables, source_of, write_data_dir
from espnet_diverse.data.output_paths import check_prepared, check_target, check_unread, mark_prepared
from espnet_diverse.data.table_views import Without, lacking
from espnet_diverse.data.tables import pack_table
from espnet_diverse.errors import DataError, abridged

NOT_PLAIN = "is blank, out of order, or has other than plain single spaces, or decomposed or invisible characters"
"""Fault of a line that `misread_line` finds."""
READ_BY_TRAINING = ("wav.scp", "feats.scp", "text", "src_text", *TABLES)
"""Tables that training reads by ESPnet's reader."""


def write_fixed(
    source: Path, target: Path, faults: Sequence[Fault], actions: Mapping[str, str] = ACTIONS
) -> tuple[int, int]:
    """Write a data directory without dropped utterances, its tables sorted and in plain form.

    Args:
        source: A data directory with audio, features or text.
        target: Directory to write; audio is not copied, and files that are not tables of utterances or speakers are
            left out.
        faults: Result of `find_faults` for `source`.
        actions: Action for each kind of fault.

    Returns:
        Numbers of utterances kept and dropped; dropped.tsv lists the dropped ones with their reasons.

    Raises:
        DataError: A fault must be refused, a fault with the action `drop` is not of an utterance, no utterance is left,
            or `target` is `source` or was not written by us. Nothing is written.
    """
    check_unread(target, [source])
    check_prepared(target)
    dropped = [fault for fault in faults if actions[fault.kind] == "drop"]
    scp = source_of(source)
    data, _ = scan_tables(source, scp)
    refuse([f for f in faults if actions[f.kind] == "refuse"] + [f for f in dropped if not _entry(f, data)])
    data.extra = scan_extra(source, data)
    fixed = leave_out(data, reasons(data, dropped))
    if not fixed.text:
        raise DataError(f"{source}: no utterance is left of {len(data.by_utterance())}; see the list of faults")
    check_target({target.name: fixed}, target.absolute().parent)
    with staged_directory(target) as staging:
        write_data_dir(fixed, staging, scp)
        mark_prepared(staging)
    return len(fixed.text), len(fixed.dropped)


def left_out(source: Path, faults: Sequence[Fault], actions: Mapping[str, str] = ACTIONS) -> str:
    """The utterances that `write_fixed` would leave out of a data directory, as one line; "" if it leaves out none."""
    dropped = [fault for fault in faults if actions[fault.kind] == "drop"]
    if not dropped:
        return ""
    data, _ = scan_tables(source, source_of(source))
    names = [name for name in reasons(data, dropped) if name in data.by_utterance()]
    if not names:
        return ""
    first = "" if all(actions[fault.kind] != "refuse" for fault in faults) else ", once the other faults are fixed"
    return f"leaves out {len(names)} of {len(data.by_utterance())} utterances{first}: {abridged(names, separator=' ')}"


def made_plain(source: Path, faults: Sequence[Fault]) -> str:
    """A text with the first line that `stats` and `train` refuse for its form and `write_fixed` repairs, or ""."""
    if any(fault.kind in ("table", "missing") for fault in faults):
        return ""  # they must be fixed by hand first
    for name in READ_BY_TRAINING:
        file = source / name
        if file.is_file() and (line := misread_line(file)):
            return f"writes plain tables, which stats and train need: {file}:{line}: {NOT_PLAIN}"
    return ""


def misread_line(file: Path) -> int:
    """The first line of a table that ESPnet's reader would read as another entry than ours; 0 if there is none."""
    table = pack_table(file)
    if table.plain and file.suffix != ".scp":  # paths in a .scp may have any white space
        return 0
    ours = ([key, value] if value else [key] for key, value in table.items())
    with file.open(encoding="utf-8") as lines:
        espnet_rows = (line.rstrip().split(maxsplit=1) for line in lines)
        pairs = enumerate(zip_longest(ours, espnet_rows), start=1)
        return next((number for number, (one, other) in pairs if one != other), 0)


def _entry(fault: Fault, data: DataTables) -> str:
    """The id of the utterance or recording with a fault; "" for one of a file or of a line without an id of its own."""
    if isinstance(fault.where, str):
        return fault.entry or fault.where
    tables = (data.text, data.by_utterance(), data.wav_scp)
    return fault.entry if any(fault.entry in table for table in tables) else ""


def reasons(data: DataTables, dropped: Sequence[Fault]) -> dict[str, str]:
    """The reasons why each utterance is dropped.

    Faults of a recording hold for all of its segments; channels that cancel are no fault for a segment of one channel.
    """
    in_recordings = {
        fault.entry or str(fault.where) for fault in dropped if data.segments and fault.file.endswith("wav.scp")
    }
    by_recording: dict[str, list[str]] = {}
    of_a_channel = set()
    for utterance, segment in data.segments.items() if in_recordings else ():
        if segment.recording in in_recordings:
            by_recording.setdefault(segment.recording, []).append(utterance)
            of_a_channel |= set() if segment.channel is None else {utterance}
    by_utterance: dict[str, str] = {}
    for fault in dropped:
        name = fault.entry or str(fault.where)
        of_recording = data.segments and fault.file.endswith("wav.scp")
        for utterance in by_recording.get(name, []) if of_recording else [name]:
            if not (of_recording and utterance in of_a_channel and fault.what.endswith(CANCELLED)):
                by_utterance.setdefault(utterance, fault.reason)
    return by_utterance


def shared(source: Path, other: Path) -> Iterator[Fault]:
    """Speakers and sentences of a data directory that are also in `other`, such as the training set.

    Raises:
        DataError: A table of `other` is faulty.
    """
    data, _ = scan_tables(source, source_of(source))
    trained, faults = scan_tables(other, source_of(other))
    refuse(faults)
    speakers = set(trained.utt2spk.values()) if trained.utt2spk else trained.by_utterance()
    table = "utt2spk" if data.utt2spk else "segments" if data.segments else source_of(source)
    for speaker in sorted(in_both(_speakers(data), speakers)) if not data.is_text else ():
        yield Fault(f"{source}/{table}", speaker, f"this speaker is also in {other}", "shared_speaker")
    texts = in_both(data.text.values(), trained.text.values())
    for utterance, text in data.text.items() if texts else ():
        if text and text in texts:
            yield Fault(f"{source}/text", utterance, f"this sentence is also in {other}: {text[:40]!r}", "shared_text")


def _speakers(data: DataTables) -> Collection[str]:
    """The speakers of the utterances; the utterance itself where utt2spk has no speaker."""
    spoken = data.by_utterance()
    if not data.utt2spk:
        return spoken
    without_utterance = set(lacking(spoken, data.utt2spk))
    without_speaker = lacking(data.utt2spk, spoken)
    return {*Without(data.utt2spk, without_utterance).values(), *without_speaker}
