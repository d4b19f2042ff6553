"""Write sets of a corpus as training reads them: one mono wav or flac file for each utterance, or arks of flac.

A file that already is one is not copied; wav.scp names it in its place. Sets of text alone are written as they are.
Tables of other names go with their utterances or speakers.
Utterances outside the limits on length are dropped, each with its reason in dropped.tsv; audio that cannot be used
(missing, truncated, NaN) is an error, and so are tables that do not agree. Either all sets are written or none.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from espnet_diverse.audio.libsndfile import AudioInfo
from espnet_diverse.audio.reading import AudioFile, open_file
from espnet_diverse.audio.resampling import resample
from espnet_diverse.audio.segments import segment_fault
from espnet_diverse.audio.writing import ArkWriter, write_audio
from espnet_diverse.data.atomic_files import staged_directory
from espnet_diverse.data.faults import ACTIONS, Fault, decisive, refuse
from espnet_diverse.data.format_options import FormatOptions
from espnet_diverse.data.kaldi import DataDir, write_data_dir
from espnet_diverse.data.plausibility import Limits, measure, sound_findings, text_findings
from espnet_diverse.data.tables import entry_faults
from espnet_diverse.data.threads import map_in_threads
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


class _Kept(NamedTuple):
    utterance: str
    speaker: str
    path: str
    seconds: float


class _Job(NamedTuple):
    """Recordings that one thread prepares, each with its utterances, and the name of their ark, if any."""

    ark: str | None
    recordings: list[tuple[str, list[str]]]


@dataclass
class _Outcome:
    """The result of one source utterance."""

    source: str
    kept: list[_Kept] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    converted: str = ""
    fault: str = ""


def format_data(
    sets: Mapping[str, DataDir], output_dir: Path, options: FormatOptions | None = None, nj: int = 4
) -> dict[str, Summary]:
    """Prepare each set and write it to `output_dir/<name>`, replacing a data directory of that name.

    Args:
        sets: Sets of a corpus by name.
        output_dir: Parent of the directories to write; relative paths are made absolute.
        options: Options of preparing; the defaults where not given.
        nj: Number of threads that read and write audio.

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
                formatter = _Formatter(data, options, speeds, staging, output_dir / name)
                prepared, summaries[name], found = formatter.run(nj, name)
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


def check_target(sets: Mapping[str, DataDir], output_dir: Path) -> None:
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


class _Formatter:
    """Prepares one set: reads the corpus and writes to `staging`, which is later renamed to `final`."""

    def __init__(self, data: DataDir, options: FormatOptions, speeds: tuple[float, ...], staging: Path, final: Path):
        self.data = data
        self.options = options
        self.speeds = speeds
        self.staging = staging
        self.final = final

    def run(self, nj: int, name: str) -> tuple[DataDir, Summary, list[Fault]]:
        """Prepare every utterance; return the prepared set, its counts, and the faults of its audio."""
        prepared, summary, faults = DataDir(dropped=dict(self.data.dropped)), Summary(), []
        recordings: dict[str, list[str]] = {}
        for utterance in self.data.utterances():
            segment = self.data.segments.get(utterance)
            recordings.setdefault(segment.recording if segment else utterance, []).append(utterance)
        jobs = self._jobs(list(recordings.items()))
        found = map_in_threads(self._format_job, jobs, nj, f"format {name}")
        for outcome in sorted(chain.from_iterable(found), key=lambda outcome: outcome.source):
            if outcome.fault:
                faults.append(Fault(name, outcome.source, outcome.fault))
            for kept in outcome.kept:
                if kept.utterance in prepared.wav_scp:
                    what = "another utterance has this id; rename it, or leave speed-perturbed copies out of the corpus"
                    faults.append(Fault(name, kept.utterance, what))
                self._add(prepared, kept, outcome.source)
                summary.seconds += kept.seconds
            prepared.dropped.update(outcome.dropped)
            if outcome.converted:
                summary.converted[outcome.converted] += 1
        summary.utterances, summary.dropped = len(prepared.wav_scp), len(prepared.dropped)
        summary.speakers = len(set(prepared.utt2spk.values()))
        return prepared, summary, faults

    def _add(self, prepared: DataDir, kept: _Kept, source: str) -> None:
        prepared.wav_scp[kept.utterance] = kept.path
        prepared.text[kept.utterance] = self.data.text[source]
        prepared.utt2spk[kept.utterance] = kept.speaker
        if self.data.src_text:
            prepared.src_text[kept.utterance] = self.data.src_text[source]
        for name, table in self.data.conditions.items():
            prepared.conditions.setdefault(name, {})[kept.utterance] = table[source]
        for name, table in self.data.extra.items():
            for key, new in ((source, kept.utterance), (self.data.speaker(source), kept.speaker)):
                if key in table:
                    prepared.extra.setdefault(name, {})[new] = table[key]

    def _jobs(self, recordings: list[tuple[str, list[str]]]) -> list[_Job]:
        """Each recording by itself, or the recordings of each ark."""
        if self.options.audio_format != "ark":
            return [_Job(None, [recording]) for recording in recordings]
        count = max(1, min(self.options.shards, len(recordings)))
        bounds = [number * len(recordings) // count for number in range(count + 1)]
        parts = enumerate(pairwise(bounds), start=1)
        return [_Job(f"wav.{number}.ark", recordings[start:end]) for number, (start, end) in parts]

    def _format_job(self, job: _Job) -> list[_Outcome]:
        with ArkWriter(self.staging / job.ark) if job.ark else nullcontext() as ark:
            return [outcome for recording in job.recordings for outcome in self._format_recording(*recording, ark)]

    def _format_recording(self, name: str, utterances: list[str], ark: ArkWriter | None) -> list[_Outcome]:
        """Prepare the utterances of one recording, which is opened once: what ffmpeg reads is converted as a whole."""
        try:
            with open_file(Path(self.data.wav_scp[name]), target_rate=self.options.rate) as file:
                return [self._format(utterance, file, ark) for utterance in utterances]
        except DataError as error:
            return [_Outcome(utterance, fault=str(error)) for utterance in utterances]

    def _format(self, utterance: str, file: AudioFile, ark: ArkWriter | None) -> _Outcome:
        outcome, info = _Outcome(utterance), file.info
        segment = self.data.segments.get(utterance)
        try:
            past = segment_fault(segment, info.seconds) if segment else None
            if past:  # also where the segment is too long to be kept
                raise DataError(f"{file.name}: {past}")
            seconds = segment.end - segment.start if segment else info.seconds
            speeds = [speed for speed in self.speeds if self._fits(utterance, speed, seconds / speed, outcome)]
            in_place = info.is_ready(self.options.rate) and segment is None and ark is None
            samples = file.read(segment) if speeds else np.zeros(0, np.float32)
            if speeds and (what := self._implausible(utterance, samples, seconds)):
                outcome.dropped.update({_prefix(speed) + utterance: what for speed in speeds})
                return outcome
            if in_place and 1.0 in speeds:
                self._keep(utterance, 1.0, seconds, file.path.absolute(), outcome)
            for speed in speeds:
                if not (in_place and speed == 1.0):
                    self._write(utterance, speed, resample(samples, info.rate, speed, self.options.rate), outcome, ark)
            outcome.converted = _conversion(info, self.options.rate)
        except DataError as error:
            outcome.fault = str(error)
        return outcome

    def _implausible(self, utterance: str, samples: np.ndarray, seconds: float) -> str:
        """Why nothing can be learned from an utterance, such as silence; "" for others."""
        found = [*sound_findings(measure([samples])), *text_findings(self.data.text[utterance], seconds, Limits())]
        return next((what for kind, what in found if ACTIONS[kind] == "drop"), "")

    def _fits(self, utterance: str, speed: float, seconds: float, outcome: _Outcome) -> bool:
        """Whether the length is within the limits; if not, add the utterance to those dropped."""
        if self.options.min_seconds <= seconds <= self.options.max_seconds:
            return True
        side, limit = "shorter", self.options.min_seconds
        if seconds > limit:
            side, limit = "longer", self.options.max_seconds
        outcome.dropped[_prefix(speed) + utterance] = f"{seconds:.3f} s, {side} than {limit:g} s"
        return False

    def _write(
        self, utterance: str, speed: float, samples: np.ndarray, outcome: _Outcome, ark: ArkWriter | None
    ) -> None:
        speaker, name = _prefix(speed) + self.data.speaker(utterance), _prefix(speed) + utterance
        if ark is not None:
            file = Path(f"{ark.path.name}:{ark.write(name, samples, self.options.rate)}")
        else:
            file = Path("wav", speaker, f"{name}.{self.options.audio_format}")
            (self.staging / file).parent.mkdir(parents=True, exist_ok=True)
            write_audio(self.staging / file, samples, self.options.rate)
        self._keep(utterance, speed, len(samples) / self.options.rate, self.final / file, outcome)

    def _keep(self, utterance: str, speed: float, seconds: float, path: Path, outcome: _Outcome) -> None:
        prefix = _prefix(speed)
        outcome.kept.append(_Kept(prefix + utterance, prefix + self.data.speaker(utterance), str(path), seconds))


def _prefix(speed: float) -> str:
    return "" if speed == 1.0 else f"sp{speed:g}-"


def _conversion(info: AudioInfo, rate: int) -> str:
    """What a file is, where it is not mono audio at `rate` Hz that libsndfile reads as it is."""
    if info.converted_from:
        return info.converted_from
    changes = [f"{info.rate} Hz"] if info.rate != rate else []
    return ", ".join(changes + ([f"{info.channels} channels"] if info.channels > 1 else []))
