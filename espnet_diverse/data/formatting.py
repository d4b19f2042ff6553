"""Write sets of a corpus as training reads them: one mono wav or flac file for each utterance, or arks of flac.

A file that already is one is not copied; wav.scp names it in its place. Sets of text alone are written as they are.
Tables of other names go with their utterances or speakers.
Utterances outside the limits on length are dropped, each with its reason in dropped.tsv; audio that cannot be used
(missing, truncated, NaN) is an error, and so are tables that do not agree. Either all sets are written or none.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path

from espnet_diverse.data.atomic_files import staged_directory
from espnet_diverse.data.faults import Fault, decisive, refuse
from espnet_diverse.data.format_audio import AudioFormat, Job, Kept, Spoken, all_lost
from espnet_diverse.data.format_options import FormatOptions
from espnet_diverse.data.kaldi import DataDir, DataTables, write_data_dir
from espnet_diverse.data.tables import entry_faults
from espnet_diverse.data.threads import Workers, map_in_parallel
from espnet_diverse.data.validate import find_faults
from espnet_diverse.errors import ConfigError, DataError

TRAINING_SET = "train"


@dataclass
class Summary:
    """Counts of one prepared set.

    Attributes:
        utterances: Number of utterances kept, including their speed-perturbed copies.
        seconds: Total length of these utterances in seconds; 0 for text alone.
        speakers: Number of speakers, including the speed-perturbed ones; 0 for text alone.
        dropped: Number of utterances dropped.
        converted: Number of utterances by what their audio was converted from, such as "8000 Hz, 2 channels".
    """

    utterances: int = 0
    seconds: float = 0.0
    speakers: int = 0
    dropped: int = 0
    converted: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        if not self.speakers:
            return f"{self.utterances} sentences"
        return f"{self.utterances} utterances, {self.seconds / 3600:.2f} hours, {self.speakers} speakers"


def format_data(
    sets: Mapping[str, DataDir], output_dir: Path, options: FormatOptions | None = None, nj: int | Workers = 4
) -> dict[str, Summary]:
    """Prepare each set and write it to `output_dir/<name>`, replacing a data directory of that name.

    Args:
        sets: Sets of a corpus by name.
        output_dir: Parent of the directories to write; relative paths are made absolute.
        options: Options of preparing; the defaults where not given.
        nj: Number of threads that read and write audio, or workers that do it.

    Returns:
        Counts of each set.

    Raises:
        ConfigError: Speed factors are given for sets of text alone.
        DataError: Tables or audio are faulty. The error holds every fault, and nothing is written.
    """
    options = options or FormatOptions()
    output_dir = output_dir.absolute()
    if options.speeds != (1.0,) and any(data.is_text for data in sets.values()):
        raise ConfigError("speed factors are for audio, and these sets are text alone; omit --speed_perturb")
    check_target(sets, output_dir)
    tables = {name: find_faults(data, read_audio=False) for name, data in sets.items()}
    refuse(decisive(replace(fault, file=f"{name}/{fault.file}") for name in tables for fault in tables[name]))
    summaries: dict[str, Summary] = {}
    faults: list[Fault] = []
    try:
        with ExitStack() as stack:
            for name, data in sets.items():
                staging = stack.enter_context(staged_directory(output_dir / name))
                if data.is_text:
                    summaries[name] = Summary(len(data.text), dropped=len(data.dropped))
                    write_data_dir(data, staging)
                    continue
                speeds = options.speeds if name == TRAINING_SET else (1.0,)
                audio_format = AudioFormat(options, speeds, staging, output_dir / name)
                prepared, summaries[name], found = _format_set(name, data, audio_format, nj)
                faults += found
                if not prepared.wav_scp and not found:
                    faults.append(Fault(name, None, _all_dropped(prepared.dropped)))
                write_data_dir(prepared, staging)
            refuse(faults)
    except OSError as error:
        raise DataError(f"{output_dir}: cannot be written ({error}); free space or choose another path") from error
    return summaries


def _all_dropped(dropped: Mapping[str, str]) -> str:
    utterance, reason = next(iter(sorted(dropped.items())), ("", "none is there"))
    return f"no utterance is left; all {len(dropped)} are dropped, the first is {utterance}: {reason}"


def check_target(sets: Mapping[str, DataTables], output_dir: Path) -> None:
    """Refuse to replace a directory that is no data directory, or that contains the audio to read."""
    refuse([Fault("output directory", None, what) for what in entry_faults("wav.scp", "", str(output_dir))])
    for name, data in sets.items():
        target = output_dir / name
        tables = [target / table for table in ("wav.scp", "text")]
        if target.is_dir() and any(target.iterdir()) and not any(table.is_file() for table in tables):
            raise DataError(f"{target}: exists and is no data directory; move it away or choose another path")
        for recording, path in data.wav_scp.items():
            if Path(path).absolute().is_relative_to(target):
                raise DataError(
                    f"{target}: would be replaced, but contains the audio of {recording}; choose another path"
                )


def _format_set(
    name: str, data: DataDir, audio_format: AudioFormat, nj: int | Workers
) -> tuple[DataDir, Summary, list[Fault]]:
    """Prepare every utterance; return the prepared set, its counts, and the faults of its audio."""
    prepared, summary, faults = DataDir(dropped=dict(data.dropped)), Summary(), []
    found = map_in_parallel(audio_format, _jobs(data, audio_format.options), nj, f"format {name}", all_lost)
    for outcome in sorted(chain.from_iterable(found), key=lambda outcome: outcome.source):
        if outcome.fault:
            faults.append(Fault(name, outcome.source, outcome.fault))
        for kept in outcome.kept:
            if kept.utterance in prepared.wav_scp:
                what = "another utterance has this id; rename it, or leave speed-perturbed copies out of the corpus"
                faults.append(Fault(name, kept.utterance, what))
            _add(prepared, kept, outcome.source, data)
            summary.seconds += kept.seconds
        prepared.dropped.update(outcome.dropped)
        if outcome.converted:
            summary.converted[outcome.converted] += 1
    summary.utterances, summary.dropped = len(prepared.wav_scp), len(prepared.dropped)
    summary.speakers = len(set(prepared.utt2spk.values()))
    return prepared, summary, faults


def _add(prepared: DataDir, kept: Kept, source: str, data: DataDir) -> None:
    """Add the rows of an utterance of the set `data` to the tables of the prepared one."""
    prepared.wav_scp[kept.utterance] = kept.path
    prepared.text[kept.utterance] = data.text[source]
    prepared.utt2spk[kept.utterance] = kept.speaker
    if data.src_text:
        prepared.src_text[kept.utterance] = data.src_text[source]
    for name, table in data.conditions.items():
        prepared.conditions.setdefault(name, {})[kept.utterance] = table[source]
    for name, table in data.extra.items():
        for key, new in ((source, kept.utterance), (data.speaker(source), kept.speaker)):
            if key in table:
                prepared.extra.setdefault(name, {})[new] = table[key]


def _jobs(data: DataDir, options: FormatOptions) -> list[Job]:
    """Each recording by itself, or the recordings of each ark."""
    spoken: dict[str, list[Spoken]] = {}
    for name in data.utterances():
        segment = data.segments.get(name)
        utterance = Spoken(name, data.speaker(name), data.text[name], segment)
        spoken.setdefault(segment.recording if segment else name, []).append(utterance)
    recordings = [(data.wav_scp[name], utterances) for name, utterances in spoken.items()]
    if options.audio_format != "ark":
        return [Job(None, [recording]) for recording in recordings]
    count = max(1, min(options.shards, len(recordings)))
    bounds = [number * len(recordings) // count for number in range(count + 1)]
    parts = enumerate(pairwise(bounds), start=1)
    return [Job(f"wav.{number}.ark", recordings[start:end]) for number, (start, end) in parts]
