"""Writing of the audio of utterances as training reads it: the part of `formatting.py` in threads or on workers.

`AudioFormat` and its jobs can be pickled; of the tables of a set they hold only the rows that they need.
"""

from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from espnet_diverse.audio.libsndfile import AudioInfo, Powers
from espnet_diverse.audio.reading import AudioFile, open_file
from espnet_diverse.audio.resampling import resample
from espnet_diverse.audio.segments import Segment
from espnet_diverse.audio.writing import ArkWriter, write_audio
from espnet_diverse.data.checks.limits import Limits
from espnet_diverse.data.checks.plausibility import measure, text_findings
from espnet_diverse.data.checks.recording_faults import sound_faults
from espnet_diverse.data.faults import ACTIONS
from espnet_diverse.data.writing.format_options import FormatOptions
from espnet_diverse.errors import DataError, UserError


class Spoken(NamedTuple):
    """An utterance to prepare: its id, speaker and text, and its part of the recording, if not the whole."""

    name: str
    speaker: str
    text: str
    segment: Segment | None


class Job(NamedTuple):
    """Recordings that are prepared one after the other: path and utterances of each, and the name of their ark."""

    ark: str | None
    recordings: list[tuple[str, list[Spoken]]]


class Kept(NamedTuple):
    """An utterance that was written, or whose original file is used."""

    utterance: str
    speaker: str
    path: str
    seconds: float


@dataclass
class Outcome:
    """The result of one source utterance: what was kept, dropped or wrong."""

    source: str
    kept: list[Kept] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    converted: str = ""
    fault: str = ""


def all_lost(job: Job, error: UserError) -> list[Outcome]:
    """The outcomes of a job whose workers were killed."""
    return [Outcome(one.name, fault=str(error)) for _, utterances in job.recordings for one in utterances]


@dataclass(frozen=True)
class AudioFormat:
    """Prepares the audio of a set.

    Attributes:
        options: Options of preparing.
        speeds: Speed factors of the set.
        staging: Directory that is written to.
        final: Its final path.
    """

    options: FormatOptions
    speeds: tuple[float, ...]
    staging: Path
    final: Path

    def __call__(self, job: Job) -> list[Outcome]:
        """Prepare the utterances of a job.

        Raises:
            DataError: The directory to write to is not on this machine.
        """
        if not self.staging.is_dir():  # it was created before; on another machine it would be lost
            raise DataError(f"{self.final}: is not on this machine; write to a folder that all machines share")
        with ArkWriter(self.staging / job.ark) if job.ark else nullcontext() as ark:
            return [outcome for recording in job.recordings for outcome in self._format_recording(*recording, ark)]

    def _format_recording(self, path: str, utterances: list[Spoken], ark: ArkWriter | None) -> list[Outcome]:
        """Prepare the utterances of one recording, opened once: a file that ffmpeg reads is converted as a whole."""
        try:
            with open_file(Path(path), target_rate=self.options.rate) as file:
                file.check_header()
                return [self._format(utterance, file, ark) for utterance in utterances]
        except DataError as error:
            return [Outcome(utterance.name, fault=str(error)) for utterance in utterances]

    def _format(self, utterance: Spoken, file: AudioFile, ark: ArkWriter | None) -> Outcome:
        outcome, info, segment = Outcome(utterance.name), file.info, utterance.segment
        try:
            past = file.fault_of(segment) if segment else None
            if past:  # also where the segment is too long to be kept
                raise DataError(f"{file.name}: {past}")
            seconds = segment.length(info.seconds) if segment else info.seconds
            speeds = [speed for speed in self.speeds if self._fits(speed, seconds / speed, outcome)]
            in_place = info.is_ready(self.options.rate) and segment is None and ark is None
            samples = file.read(segment, powers := Powers()) if speeds else np.zeros(0, np.float32)
            if speeds and (reason := _implausible(utterance, samples, powers, seconds)):
                outcome.dropped.update({prefix(speed) + utterance.name: reason for speed in speeds})
                return outcome
            if in_place and 1.0 in speeds:
                self._keep(utterance, 1.0, seconds, file.path.absolute(), outcome)
            for speed in speeds:
                if not (in_place and speed == 1.0):
                    self._write(utterance, speed, resample(samples, info.rate, speed, self.options.rate), outcome, ark)
            outcome.converted = _conversion(info, self.options.rate) if speeds else ""
        except DataError as error:
            outcome.fault = str(error)
        return outcome

    def _fits(self, speed: float, seconds: float, outcome: Outcome) -> bool:
        """Return whether the length is within the limits; if not, add the utterance to the dropped ones."""
        if self.options.min_seconds <= seconds <= self.options.max_seconds:
            return True
        side, limit = "shorter", self.options.min_seconds
        if seconds > limit:
            side, limit = "longer", self.options.max_seconds
        outcome.dropped[prefix(speed) + outcome.source] = f"{seconds:.3f} s, {side} than {limit:g} s"
        return False

    def _write(
        self, utterance: Spoken, speed: float, samples: np.ndarray, outcome: Outcome, ark: ArkWriter | None
    ) -> None:
        speaker, name = prefix(speed) + utterance.speaker, prefix(speed) + utterance.name
        if ark is not None:
            file = Path(f"{ark.path.name}:{ark.write(name, samples, self.options.rate)}")
        else:
            file = Path("wav", speaker, f"{name}.{self.options.audio_format}")
            (self.staging / file).parent.mkdir(parents=True, exist_ok=True)
            write_audio(self.staging / file, samples, self.options.rate)
        self._keep(utterance, speed, len(samples) / self.options.rate, self.final / file, outcome)

    @staticmethod
    def _keep(utterance: Spoken, speed: float, seconds: float, path: Path, outcome: Outcome) -> None:
        before = prefix(speed)
        outcome.kept.append(Kept(before + utterance.name, before + utterance.speaker, str(path), seconds))


def prefix(speed: float) -> str:
    """The prefix of ids of utterances and speakers at a speed."""
    return "" if speed == 1.0 else f"sp{speed:g}-"


def _implausible(utterance: Spoken, samples: np.ndarray, powers: Powers, seconds: float) -> str:
    """The reason why nothing can be learned from an utterance, such as silence; "" if there is none."""
    findings = [*sound_faults(measure([samples]), powers), *text_findings(utterance.text, seconds, Limits())]
    return next((reason for kind, reason in findings if ACTIONS[kind] == "drop"), "")


def _conversion(info: AudioInfo, rate: int) -> str:
    """The format of a file that is not mono audio at `rate` Hz for libsndfile."""
    if info.converted_from:
        return info.converted_from
    changes = [f"{info.rate} Hz"] if info.rate != rate else []
    return ", ".join(changes + ([f"{info.channels} channels"] if info.channels > 1 else []))
