"""Write sets of a corpus as training reads them: one mono wav or flac file for each utterance, or arks of flac.

A file that already has this form is not copied; wav.scp names the original. Sets of text alone are written as they are.
Other tables are kept with their utterances or speakers. Rows are written as soon as a recording is done and are not
kept in memory. Utterances outside the limits on length are dropped, each with its reason in dropped.tsv; audio that
cannot be used (missing, truncated, NaN) and tables that do not agree are an error, or the utterances are dropped with
`on_bad`, up to a share. Either all sets are written or none.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, islice, pairwise
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.audio.segments import Segment
from espnet_diverse.data.checks.fixing import reasons
from espnet_diverse.data.checks.validate import find_faults
from espnet_diverse.data.faults import Fault, decisive, refuse
from espnet_diverse.data.files.atomic_files import staged_directory
from espnet_diverse.data.kaldi import DataTables, leave_out, write_data_dir
from espnet_diverse.data.output_paths import check_prepared, check_target, mark_prepared
from espnet_diverse.data.packed_table import spool
from espnet_diverse.data.table_views import Mapped, items_in_order
from espnet_diverse.data.threads import Workers, map_in_parallel
from espnet_diverse.data.writing.format_audio import AudioFormat, Job, Spoken, all_lost
from espnet_diverse.data.writing.format_options import FEW, FormatOptions
from espnet_diverse.errors import ConfigError, DataError

TRAINING_SET = "train"
_ARKS_AHEAD = 2  # for each thread: an ark is many recordings


@dataclass
class Summary:
    """Counts of one prepared set.

    Attributes:
        utterances: Number of utterances kept, including their speed-perturbed copies.
        seconds: Total length of these utterances in seconds; 0 for text alone.
        speakers: Number of speakers, including the speed-perturbed ones; 0 for text alone.
        dropped: Number of utterances dropped.
        bad: Number of those among them that have a fault.
        converted: Number of utterances by the original form of their converted audio, such as "8000 Hz, 2 channels".
    """

    utterances: int = 0
    seconds: float = 0.0
    speakers: int = 0
    dropped: int = 0
    bad: int = 0
    converted: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        if not self.speakers:
            return f"{self.utterances} sentences"
        return f"{self.utterances} utterances, {self.seconds / 3600:.2f} hours, {self.speakers} speakers"

    def share(self) -> str:
        """The share of dropped utterances, and how many of them have faults."""
        return f"{self.dropped / (self.utterances + self.dropped):.2%}, {self.bad} with faults"


def format_data(
    sets: Mapping[str, DataTables], output_dir: Path, options: FormatOptions | None = None, nj: int | Workers = 4
) -> dict[str, Summary]:
    """Prepare each set and write it to `output_dir/<name>`, replacing the result of an earlier call.

    Args:
        sets: Sets of a corpus by name.
        output_dir: Parent of the directories to write; relative paths are made absolute.
        options: Options of preparing; by default `FormatOptions()`.
        nj: Number of threads that read and write audio, or workers that do so.

    Returns:
        Counts of each set.

    Raises:
        ConfigError: Speed factors are given for sets of text alone.
        DataError: Tables or audio are faulty, or a directory of that name was not written by this function. The error
            holds every fault, and nothing is written.
    """
    options = options or FormatOptions()
    output_dir = output_dir.absolute()
    if options.speeds != (1.0,) and any(data.is_text for data in sets.values()):
        raise ConfigError("speed factors are for audio, and these sets are text alone; omit --speed_perturb")
    check_target(sets, output_dir)
    for name in sets:
        check_prepared(output_dir / name)
    sets = without_faults(sets, options)
    summaries: dict[str, Summary] = {}
    faults: list[Fault] = []
    try:
        with ExitStack() as stack:
            for name, data in sets.items():
                staging = stack.enter_context(staged_directory(output_dir / name))
                if data.is_text:
                    summaries[name] = Summary(len(data.text), dropped=len(data.dropped), bad=len(data.bad))
                    _write(data, staging)
                    continue
                speeds = options.speeds if name == TRAINING_SET else (1.0,)
                audio_format = AudioFormat(options, speeds, staging, output_dir / name)
                prepared, summaries[name], audio_faults = _format_set(name, data, audio_format, nj)
                faults += audio_faults
                if not prepared.wav_scp and not audio_faults:
                    faults.append(Fault(name, None, _all_dropped(prepared.dropped)))
                _write(prepared, staging)
            refuse(faults)
    except OSError as error:
        raise DataError(f"{output_dir}: cannot be written ({error}); free space or choose another path") from error
    return summaries


def without_faults(sets: Mapping[str, DataTables], options: FormatOptions) -> dict[str, DataTables]:
    """The sets without the utterances that have faults in their tables.

    Raises:
        DataError: There are faults, which `options.on_bad` does not allow, or more of them than `options.max_bad`.
    """
    usable, refused = {}, []
    for name, data in sets.items():
        faults = decisive(_placed(fault, name) for fault in find_faults(data, read_audio=False))
        if data.dropped and not data.text:
            faults = [Fault(name, None, _all_dropped(data.dropped))]
        of_rows = [fault for fault in faults if fault.entry and options.on_bad == "drop"]
        refused += [fault for fault in faults if fault not in of_rows]
        usable[name] = leave_out(data, reasons(data, of_rows)) if of_rows else data
    refuse(refused)
    for name, data in usable.items():
        refuse_many_bad(name, data, options.max_bad)
    return usable


def _placed(fault: Fault, name: str) -> Fault:
    """A fault of a table of the set `name`."""
    return replace(fault, file=f"{name}/{fault.file}", entry=fault.where if isinstance(fault.where, str) else "")


def refuse_many_bad(
    name: str, data: DataTables, max_bad: float, more: Collection[str] = (), dropped: Mapping[str, str] | None = None
) -> None:
    """Check the share of utterances of a set that are left out because of faults.

    Args:
        name: Name of the set.
        data: Its tables, without the utterances with faults in them.
        max_bad: Maximum share; `FEW` utterances may always be left out.
        more: Utterances in these tables that will be left out, too.
        dropped: Why utterances are left out; by default as in `data`.

    Raises:
        DataError: There are more; the message has numbers and one of the utterances.
    """
    count, total = len(data.bad) + len(more), len(data.by_utterance()) + len(data.dropped)
    if count > max(FEW, max_bad * total):
        first = min([*data.bad, *more])
        reason = f"at least {count} of {total} utterances ({count / total:.2%}) have faults, such as {first}"
        todo = f"at most {max_bad:.2%} are left out: get the corpus again, or allow more with --max_bad"
        raise DataError(f"{name}: {reason}: {(dropped or data.dropped)[first]}; {todo}")


def _write(data: DataTables, staging: Path) -> None:
    write_data_dir(data, staging)
    mark_prepared(staging)


def _all_dropped(dropped: Mapping[str, str]) -> str:
    utterance, reason = next(iter(sorted(dropped.items())), ("", "none is there"))
    return f"no utterance is left; all {len(dropped)} are dropped, the first is {utterance}: {reason}"


class _Kept(NamedTuple):
    """An utterance that is kept: its source utterance, its speaker, and the path of its audio."""

    source: str
    speaker: str
    path: str

    @classmethod
    def parse(cls, row: str) -> "_Kept":
        """Read "source speaker path"; the path may have spaces."""
        return cls(*row.split(" ", 2))


def _format_set(
    name: str, data: DataTables, audio_format: AudioFormat, nj: int | Workers
) -> tuple[DataTables, Summary, list[Fault]]:
    """Prepare every utterance; return the prepared set, its counts, and the faults of its audio."""
    summary, dropped, faults, bad = Summary(), dict(data.dropped), [], []
    ahead = {"ahead": _ARKS_AHEAD} if audio_format.options.audio_format == "ark" else {}
    outcomes = map_in_parallel(audio_format, _Jobs(data, audio_format.options), nj, f"format {name}", all_lost, **ahead)

    def rows() -> Iterator[tuple[str, str]]:
        for outcome in chain.from_iterable(outcomes):
            if outcome.fault and audio_format.options.on_bad == "drop":
                dropped[outcome.source] = outcome.fault
                bad.append(outcome.source)
                refuse_many_bad(name, data, audio_format.options.max_bad, bad, dropped)
                continue
            if outcome.fault:
                faults.append(Fault(name, outcome.source, outcome.fault, entry=outcome.source))
            for entry in outcome.kept:
                summary.seconds += entry.seconds
                yield entry.utterance, " ".join(_Kept(outcome.source, entry.speaker, entry.path))
            dropped.update(outcome.dropped)
            if outcome.converted:
                summary.converted[outcome.converted] += 1

    scratch = audio_format.staging / ".rows"
    packed, twice = spool(scratch, rows())
    faults.sort(key=lambda fault: str(fault.where))
    reason = "another utterance has this id; rename it, or leave speed-perturbed copies out of the corpus"
    faults += [Fault(name, utterance, reason) for utterance in twice]
    prepared = _prepared(data, Mapped(packed, _Kept.parse), dropped, scratch)
    summary.utterances, summary.speakers = len(packed), len(prepared.spk2utt())
    summary.dropped, summary.bad = len(dropped), len(data.bad) + len(bad)
    return prepared, summary, faults


def _prepared(data: DataTables, entries: Mapping[str, _Kept], dropped: Mapping[str, str], scratch: Path) -> DataTables:
    """The tables of the kept utterances of the set `data`; the file `scratch` is written and deleted."""

    def of_source(table: Mapping[str, str]) -> Mapping[str, str]:
        return Mapped(entries, lambda one: table[one.source])

    def other(table: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        before = ""
        for utterance, one in entries.items():
            if (value := table.get(one.source)) is not None:
                yield utterance, value
            if one.speaker not in (before, utterance) and (value := table.get(data.speaker(one.source))) is not None:
                yield one.speaker, value
            before = one.speaker

    return DataTables(
        wav_scp=Mapped(entries, lambda one: one.path),
        text=of_source(data.text),
        utt2spk=Mapped(entries, lambda one: one.speaker),
        src_text=of_source(data.src_text) if data.src_text else {},
        conditions={name: of_source(table) for name, table in data.conditions.items()},
        dropped=dropped,
        extra={name: spool(scratch, other(table))[0] for name, table in data.extra.items()},
    )


@dataclass(frozen=True)
class _Jobs:
    """A job for each recording, or for the recordings of each ark; made as they are read."""

    data: DataTables
    options: FormatOptions

    def __len__(self) -> int:
        count = len(self.data.wav_scp)
        return min(self.options.shards, count) if self.options.audio_format == "ark" else count

    def __iter__(self) -> Iterator[Job]:
        recordings = _recordings(self.data)
        if self.options.audio_format != "ark":
            yield from (Job(None, [recording]) for recording in recordings)
            return
        bounds = [number * len(self.data.wav_scp) // len(self) for number in range(len(self) + 1)]
        for number, (start, end) in enumerate(pairwise(bounds), start=1):
            yield Job(f"wav.{number}.ark", list(islice(recordings, end - start)))


def _recordings(data: DataTables) -> Iterator[tuple[str, list[Spoken]]]:
    """Path and utterances of each recording, in the order of its first utterance."""

    def spoken(utterance: str, segment: Segment | None = None) -> Spoken:
        return Spoken(utterance, data.speaker(utterance), data.text[utterance], segment)

    if not data.segments:
        yield from ((path, [spoken(recording)]) for recording, path in items_in_order(data.wav_scp))
        return
    for recording, segments in _by_recording(data):
        yield data.wav_scp[recording], [spoken(*row) for row in segments]


def _by_recording(data: DataTables) -> Iterable[tuple[str, Iterable[tuple[str, Segment]]]]:
    """The segments of each recording; held in memory where segments of several recordings are mixed."""
    rows = items_in_order(data.segments)

    def recordings() -> Iterator[tuple[str, Iterable[tuple[str, Segment]]]]:
        return groupby(rows, key=lambda row: row[1].recording)

    if sum(1 for _ in recordings()) == len(data.wav_scp):
        return recordings()
    mixed: dict[str, list[tuple[str, Segment]]] = {}
    for utterance, segment in rows:
        mixed.setdefault(segment.recording, []).append((utterance, segment))
    return mixed.items()
