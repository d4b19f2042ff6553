"""Transcribe recordings: files of any length, rate and common format, directories, a list, or - for standard input.

Long recordings are split at pauses, unless --no_segmentation is given; silence gives no text. Without --output_dir the
transcript of one recording is printed as it is; of several recordings, one line each: the file, a tab, the text. A
recording that cannot be read is reported and skipped, without effect on the others; the exit code is then 2, or 1 if no
recording could be transcribed. --stream transcribes live audio.
"""

import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import Arguments, adder
from espnet_diverse.bin.options.cluster_option import add_cluster, workers
from espnet_diverse.bin.options.input_paths import FILE, TABLE
from espnet_diverse.bin.use.transcribe_stream import (
    SEGMENTATION,
    STREAM_FORMATS,
    StreamOptions,
    check_stream_options,
    run_stream,
)
from espnet_diverse.decoding.options import SAME_LANGUAGE_TASKS, SPEECH_SEARCHES
from espnet_diverse.errors import ConfigError, DataError, UserError
from espnet_diverse.option_checks import choice, flag, listed, number, path
from espnet_diverse.transcription.formats import FORMATS
from espnet_diverse.transcription.segmentation_options import SegmentationOptions

if TYPE_CHECKING:
    from espnet_diverse.decoding.options import SearchOptions
    from espnet_diverse.inference import Recognizer
    from espnet_diverse.transcription.inputs import Recording
    from espnet_diverse.transcription.transcript import Transcript

log = logging.getLogger(__name__)

TASKS = ("asr", "st", "s2t", "s2t_ctc")
OPENS_PACKED_MODELS = True
_MANY = ("txt", "trn")  # formats in which several recordings can be printed
_OF_TURNS = ("json", "srt", "vtt", "all")  # formats with labels of speakers
_OF_WORDS = ("tsv", *_OF_TURNS)  # formats that the times of words change


class OutputOptions(Arguments):
    """Options of the output."""

    GROUP = "output"

    output_dir: Path | None = path(None, metavar="DIR", help="directory for one file per recording and format")
    output_format: str = choice(*FORMATS, "all", default="txt", help="json contains everything")
    word_timestamps: bool = flag(help="times of words in json, shorter cues in srt and vtt, and exact ones in tsv")
    turns: Path | None = path(
        None,
        parse=FILE,
        metavar="FILE.rttm",
        help="turns of speakers, by the names of recordings: labels in json, srt and vtt; with --word_timestamps "
        "segments are split where the speaker changes",
    )
    max_line_width: int | None = number(
        None, kind=int, metavar="N", help="columns of a line in srt and vtt", shown="one line per cue"
    )

    @property
    def formats(self) -> list[str]:
        """Formats of the files."""
        return list(FORMATS) if self.output_format == "all" else [self.output_format]


class Whole(Arguments):
    """The option that recordings are kept whole."""

    GROUP = "segmentation"

    no_segmentation: bool = flag(
        help="split no recording; recordings above 20 s are decoded by greedy CTC, at any length if the attention of "
        "the encoder has linear cost (window, luna and others) or a memory"
    )


class CommandOptions(OutputOptions, Whole, StreamOptions):
    sources: Sequence[str] = listed(
        (),
        nargs="*",
        positional=True,
        metavar="FILE|DIR|-",
        help="recordings; for a directory all files, also in subdirectories",
    )
    list: Path | None = path(
        None,
        parse=TABLE,
        metavar="FILE",
        help="a Kaldi wav.scp, or a table of path, language and domain separated by tabs; its first line may name the "
        "columns (path language target_language domain, or as for `prepare table`); paths in a table are relative to "
        "it, those in a wav.scp or from standard input (-) to the working directory",
    )
    channels: str = choice(
        *("mean", "each", "speakers"),
        help="mean: channels are averaged; each: a transcript for each channel; speakers: one transcript of a call "
        "with a speaker in each channel, who is named in json, srt and vtt (default: %(default)s); `decode` reads the "
        "channel in the fifth column of segments",
        shown="",
    )
    task: str | None = choice(*TASKS, none=True, help="required task of the model", shown="any")
    cluster: str = ""
    debug: bool = False


add_arguments = adder(
    *(shared.Model, CommandOptions, shared.add_conditions, OutputOptions),
    partial(shared.add_search_options, searches=SPEECH_SEARCHES),
    *(shared.FusionFiles, shared.Device, shared.Computing, add_cluster),
    *(partial(shared.add_segmentation, names=SEGMENTATION), Whole, StreamOptions),
)


def run(options: CommandOptions) -> int:
    """Transcribe; return 2 if a recording could not be read, raise an error if none could."""
    from espnet_diverse.transcription.formats import SUBTITLES
    from espnet_diverse.transcription.inputs import find_recordings

    check_stream_options(options)
    if options.stream:
        _check_stream(options)
        return run_stream(options, options.sources[0], options.output_format)
    form, output_dir = options.output_format, options.output_dir
    for option, formats in {"word_timestamps": _OF_WORDS, "turns": _OF_TURNS}.items():
        if getattr(options, option) and form not in formats:
            has = f"--{option} changes nothing in --output_format {form}"
            raise ConfigError(f"{has}; give one of {' '.join(formats)}, or leave it out")
    width = options.max_line_width
    if width is not None and (width < 1 or form not in (*SUBTITLES, "all")):
        allowed = f"is for --output_format {' '.join(SUBTITLES)} all, and 1 or more"
        raise ConfigError(f"--max_line_width {width}: {allowed}; correct it, or leave it out")
    recordings = find_recordings(options.sources, options.list, options.channels == "each")
    if options.channels == "speakers":
        _check_speakers(recordings, options)
    if output_dir is None and (form == "all" or form not in _MANY and recordings[1:]):
        many = f" of {len(recordings)} recordings" if recordings[1:] else ""
        raise ConfigError(f"--output_format {form}{many} needs --output_dir, the directory to write to")
    searching = options.searching()
    segmentation = replace(options.segmentation, whole=options.no_segmentation)
    if options.channels == "speakers" and segmentation.vad == "auto" and not segmentation.whole:
        from espnet_diverse.transcription.vad import silero_is_installed

        # A short recording stays whole with "auto", so that its speakers would not be in the order of time.
        segmentation = replace(segmentation, vad="silero" if silero_is_installed() else "energy")
    if output_dir is not None:
        _check_outputs(recordings, options)
        _make_folder(output_dir)
        (output_dir / "failures.json").unlink(missing_ok=True)
    load = partial(_load, options, searching, segmentation)
    if not options.cluster:
        return transcribe(load(), recordings, options)
    from espnet_diverse.transcription.on_cluster import ClusterRecognizer

    if any(recording.path == "-" for recording in recordings):
        raise ConfigError("- is the standard input of this machine, which workers of --cluster cannot read; give files")
    model = [options.model_dir] if options.model_dir.is_file() else shared.model_inputs(options)
    with workers(options, load, [*model, *shared.fusion_inputs(options)], model=True) as pool:
        return transcribe(ClusterRecognizer(pool), recordings, options)


def _check_speakers(recordings: Sequence["Recording"], options: CommandOptions) -> None:
    from espnet_diverse.transcription.inputs import by_channel

    if options.output_format not in _OF_TURNS:
        has = f"--channels speakers changes nothing in --output_format {options.output_format}"
        raise ConfigError(f"{has}; give one of {' '.join(_OF_TURNS)}, or --channels each")
    if options.turns:
        raise ConfigError("--channels speakers and --turns both name speakers; leave one out")
    for recording in recordings:
        by_channel(recording)  # refuses standard input


def _check_stream(options: CommandOptions) -> None:
    if options.list is not None or len(options.sources) != 1:
        source = "--list" if options.list is not None else f"{len(options.sources)} sources"
        raise ConfigError(f"--stream with {source} is not possible; give one file, FIFO, or - for standard input")
    if options.output_format not in STREAM_FORMATS:
        raise ConfigError(
            f"--output_format {options.output_format} needs the end; with --stream give {' or '.join(STREAM_FORMATS)}"
        )
    refused = {
        "--output_dir": options.output_dir is not None,
        "--word_timestamps": options.word_timestamps,
        "--turns": options.turns is not None,
        "--max_line_width": options.max_line_width is not None,
        "--no_segmentation": options.no_segmentation,
        "--compile": options.compile,
        f"--channels {options.channels}": options.channels != "mean",
        "--cluster": bool(options.cluster),
        f"--precision {options.precision}": options.precision != "float32",
        f"--task {options.task}": options.task not in (None, "asr"),
    }
    if option := next((name for name, is_set in refused.items() if is_set), None):
        raise ConfigError(f"{option} is not possible with --stream; leave it out")


def _load(options: CommandOptions, searching: "SearchOptions", segmentation: SegmentationOptions) -> "Recognizer":
    from espnet_diverse.inference import Recognizer  # takes seconds

    how = {**options.how, "options": searching, "fusion": shared.fusion(options)}
    return Recognizer(*options.model, segmentation=segmentation, **how)


def _paths(recording: "Recording", options: CommandOptions) -> list[Path]:
    """The files of a recording in the output directory."""
    return [options.output_dir / f"{recording.name}.{format}" for format in options.formats]


def _check_outputs(recordings: Sequence["Recording"], options: CommandOptions) -> None:
    """Refuse to write over a recording or the list of recordings."""
    from espnet_diverse.data.output_paths import check_outputs
    from espnet_diverse.transcription.inputs import files_of

    outputs = [path for recording in recordings for path in _paths(recording, options)]
    listed = [options.list] if options.list is not None else []
    check_outputs([*outputs, options.output_dir / "failures.json"], [*files_of(recordings), *listed])


def _make_folder(folder: Path) -> None:
    """Make the output directory, and check that it can be written to before the work begins."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(f"--output_dir {folder}: cannot be written to ({error.strerror}); give another") from error


def transcribe(recognizer: "Recognizer", recordings: Sequence["Recording"], options: CommandOptions) -> int:
    """Transcribe recordings with a loaded model.

    Args:
        recognizer: The loaded model.
        recordings: The recordings.
        options: Options of this command.

    Returns:
        The exit code.

    Raises:
        ConfigError: The model does not have the required task.
        DataError: The model does not know a language or domain, or no recording could be transcribed.
    """
    from espnet_diverse.data.rttm import speaker_of
    from espnet_diverse.transcription.inputs import turns_of

    _check(recognizer, options)
    turns = turns_of(options.turns, recordings) if options.turns else {}
    failures: list[tuple[str, str]] = []
    named = Counter(recording.shown for recording in recordings)
    for recording, result in _results(recognizer, recordings, options):
        shown = recording.shown
        if isinstance(result, Exception):
            # Ids of a list may share a file.
            key = shown if named[shown] == 1 else recording.name
            failures.append((key, _reason(shown, result, options.debug)))
            if recordings[1:]:
                print(f"espnet-diverse transcribe: skipped {failures[-1][1]}", file=sys.stderr, flush=True)
            _report_earlier(recording, options)
        else:
            _report_language(shown, result)
            _report_silence(shown, recording, result, options)
            _report_invented(shown, result)
            if speaker_turns := turns.get(recording.name):
                result = result.with_speakers(partial(speaker_of, speaker_turns))
            _output(recording, result, options, alone=len(recordings) == 1)
    return _finish(failures, len(recordings), options.output_dir)


def _check(recognizer: "Recognizer", options: CommandOptions) -> None:
    from espnet_diverse.decoding.condition_ids import completed

    task = recognizer.search.task
    if options.task not in (None, task):
        its = f"{options.model_dir} is a model of task {task}"
        raise ConfigError(f"--task {options.task}: {its}; give another model or task")
    completed(recognizer.search.conditions, options.conditions, same_language=task in SAME_LANGUAGE_TASKS)


def _results(
    recognizer: "Recognizer", recordings: Sequence["Recording"], options: CommandOptions
) -> Iterator[tuple["Recording", "Transcript | Exception"]]:
    from espnet_diverse.inference import Request
    from espnet_diverse.transcription.audio_progress import AudioProgress
    from espnet_diverse.transcription.inputs import by_channel

    apart = options.channels == "speakers"
    parts = [by_channel(recording) if apart else [recording] for recording in recordings]
    with closing(AudioProgress([part.path for several in parts for part in several])) as progress:
        requests = [
            Request(
                part.path,
                conditions={**options.conditions, **part.conditions},
                on_progress=partial(progress.update, index),
                channel=part.channel,
            )
            for index, part in enumerate(chain.from_iterable(parts))
        ]
        results = enumerate(recognizer.transcribe_all(requests, options.word_timestamps))
        for recording, several in zip(recordings, parts, strict=True):
            pairs = []
            for part, (index, result) in zip(several, islice(results, len(several)), strict=True):
                progress.finish(index)
                pairs.append((part, result))
            yield recording, _joined(pairs)


def _joined(parts: Sequence[tuple["Recording", "Transcript | Exception"]]) -> "Transcript | Exception":
    """The result of a recording: of the only part, or of its channels with a speaker each."""
    from espnet_diverse.transcription.transcript import Transcript

    if len(parts) == 1:
        return parts[0][1]
    channels = []
    for part, result in parts:
        if isinstance(result, Exception):
            return result
        _report_language(part.shown, result)
        channels.append(result)
    return Transcript.of_channels(channels)


def _reason(shown: str, error: Exception, debug: bool) -> str:
    """The reason of a failure in one line that names the recording; a bug is logged with its traceback."""
    from espnet_diverse.transcription.inputs import printable

    if debug or not isinstance(error, UserError | OSError):
        log.error("transcribing %s failed", shown, exc_info=error)
    reason = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    reason = printable(" ".join(reason.split()))
    return reason if reason.startswith(shown) else f"{shown}: {reason}"


def _report_earlier(recording: "Recording", options: CommandOptions) -> None:
    """Report existing transcripts of a recording that failed; they may be the user's own, so they stay."""
    for file in _paths(recording, options) if options.output_dir is not None else ():
        if file.exists():
            print(f"espnet-diverse transcribe: {file} existed before, and stays", file=sys.stderr, flush=True)


def _report_language(shown: str, transcript: "Transcript") -> None:
    if transcript.language_probabilities:
        language, probability = next(iter(transcript.language_probabilities.items()))
        print(f"{shown}: identified language {language} ({probability:.0%})", file=sys.stderr, flush=True)


def _report_silence(shown: str, recording: "Recording", transcript: "Transcript", options: CommandOptions) -> None:
    if transcript.segments:
        return
    if options.no_segmentation or options.segmentation.vad == "none":  # where silence is a segment without text
        message = "too short for the model, no text"
    elif recording.channels_cancel():
        message = "no speech found; its channels cancel in their mean; give one of them"
    else:
        message = "no speech found; --vad none decodes all of it"
    print(f"{shown}: {message}", file=sys.stderr, flush=True)


def _report_invented(shown: str, transcript: "Transcript") -> None:
    invented = [segment for segment in transcript.segments if segment.may_be_invented]
    if invented:
        where = f"{invented[0].start:.1f} to {invented[0].end:.1f} s" + ", and others" * (len(invented) > 1)
        message = f"{len(invented)} of {len(transcript.segments)} segments may be invented, {where}"
        print(f"{shown}: {message}: CTC supports less than a quarter of the text", file=sys.stderr, flush=True)


def _output(recording: "Recording", transcript: "Transcript", options: CommandOptions, alone: bool) -> None:
    """Write or print a transcript."""
    from espnet_diverse.transcription.formats import write_transcript, written

    if options.output_dir is not None:
        write_transcript(transcript, recording.name, options.formats, options.output_dir, options.max_line_width)
    elif alone or options.output_format != "txt":
        text = written(transcript, recording.name, options.output_format, options.max_line_width)
        print(text, end="", flush=True)
    else:
        print(recording.shown, " ".join(transcript.text.split()), sep="\t", flush=True)


def _finish(failures: Sequence[tuple[str, str]], count: int, output_dir: Path | None) -> int:
    from espnet_diverse.decoding.directory.results import write_json

    if output_dir is not None and failures:
        write_json(output_dir / "failures.json", dict(failures))
    if len(failures) == count:
        first = failures[0][1]
        raise DataError(first if count == 1 else f"none of {count} recordings could be transcribed; first {first}")
    return 2 if failures else 0
