"""Transcribe recordings: files of any length, rate and common format, folders, a list, or - for standard input.

Long recordings are cut where nobody speaks; silence gives no text. Without --output_dir the transcript of one recording
is printed as it is, and those of several a line each: the file, a tab, the text. A recording that cannot be read is
named and skipped, and changes nothing in the others' results: exit code 2, or 1 if none was left.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.bin import options

if TYPE_CHECKING:
    from espnet_diverse.inference import Recognizer
    from espnet_diverse.transcription.inputs import Recording
    from espnet_diverse.transcription.result import Transcript

TASKS = {"transcribe": "asr", "translate": "st"}
_MANY = ("txt", "trn")  # formats that several recordings can be printed in


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    from espnet_diverse.transcription.formats import FORMATS
    from espnet_diverse.transcription.segmentation_options import VADS

    parser.add_argument("model", type=Path, metavar="MODEL", help="directory of a run, or a packed model")
    parser.add_argument("sources", nargs="*", metavar="FILE|DIR|-", help="what to transcribe; folders with all in them")
    parser.add_argument(
        "--list",
        type=Path,
        metavar="FILE",
        help="a Kaldi wav.scp, or lines of path, language and domain parted by tabs; a first line `path ...` names "
        "the columns: path language target_language domain",
    )
    options.add_conditions(parser)
    parser.add_argument("--task", choices=TASKS, help="what the model must do (default: what it does)")
    out = parser.add_argument_group("output")
    out.add_argument("--output_dir", type=Path, metavar="DIR", help="write here, one file a recording and format")
    out.add_argument(
        "--output_format", choices=[*FORMATS, "all"], default="txt", help="json has everything (default: txt)"
    )
    out.add_argument("--word_timestamps", action="store_true", help="find when each word is said, for json, srt, vtt")
    out.add_argument("--nbest", type=int, default=1, metavar="N", help="texts a segment in json (default: 1)")
    how = parser.add_argument_group("decoding")
    how.add_argument("--model_file", metavar="FILE", help="path or name in MODEL (default: valid.acc.ave.pth)")
    how.add_argument("--beam_size", type=int, default=10, metavar="N", help="hypotheses kept a step (default: 10)")
    how.add_argument("--ctc_weight", type=float, metavar="X", help="share of CTC (default: 0.3; 0 without CTC)")
    how.add_argument("--batch_size", type=int, default=8, metavar="N", help="segments at a time (default: 8)")
    how.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    options.add_precision(how)
    how.add_argument(
        "--vad",
        choices=VADS,
        default="auto",
        help="what finds speech: silero (extra vad), energy, none (cut by length alone), or auto: silero, else energy; "
        "a recording of up to 20 s stays whole (default: auto)",
    )


def run(args: argparse.Namespace) -> int:
    """Transcribe; 2 where a recording was skipped."""
    from espnet_diverse.decoding.options import Options
    from espnet_diverse.errors import ConfigError
    from espnet_diverse.transcription.inputs import find_recordings
    from espnet_diverse.transcription.segmentation_options import SegmentationOptions

    recordings = find_recordings(args.sources, args.list)
    if args.output_dir is None and (args.output_format == "all" or args.output_format not in _MANY and recordings[1:]):
        many = f" of {len(recordings)} recordings" if recordings[1:] else ""
        raise ConfigError(f"--output_format {args.output_format}{many} needs --output_dir, the folder to write to")
    search = Options(beam_size=args.beam_size, ctc_weight=args.ctc_weight, nbest=args.nbest, batch_size=args.batch_size)
    segmentation = SegmentationOptions(vad=args.vad)
    if args.output_dir is not None:
        _make_folder(args.output_dir)
        (args.output_dir / "failures.json").unlink(missing_ok=True)
    logging.basicConfig(format="espnet-diverse transcribe: %(message)s")  # where the program that calls has no other
    from espnet_diverse.inference import Recognizer  # takes seconds

    recognizer = Recognizer(
        args.model,
        args.model_file,
        device=args.device,
        precision=args.precision,
        compile=args.compile,
        segmentation=segmentation,
        options=search,
    )
    return transcribe(recognizer, recordings, args)


def _make_folder(folder: Path) -> None:
    """Make the folder for outputs; where that is not possible it must show before the work, which may take long."""
    from espnet_diverse.errors import ConfigError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(f"--output_dir {folder}: cannot be written to ({error.strerror}); name another") from error


def transcribe(recognizer: "Recognizer", recordings: Sequence["Recording"], args: argparse.Namespace) -> int:
    """Transcribe `recordings` with a loaded model, as the options say; the exit code.

    Raises:
        ConfigError: The model does not do what is wanted.
        DataError: It does not know a language or domain, or no recording could be transcribed.
    """
    from espnet_diverse.transcription.inputs import printable

    given = options.conditions(args)
    _check(recognizer, args, given)
    failures: list[tuple[str, str]] = []
    for recording, result in _results(recognizer, recordings, args, given):
        shown = printable(recording.path)
        if isinstance(result, Exception):
            failures.append((shown, _reason(shown, result, args.debug)))
            if recordings[1:]:
                print(f"espnet-diverse transcribe: skipped {failures[-1][1]}", file=sys.stderr, flush=True)
            for format in _formats(args) if args.output_dir is not None else ():
                (args.output_dir / f"{recording.name}.{format}").unlink(missing_ok=True)  # of an earlier run
        else:
            _report_language(shown, result)
            _hand_out(recording, result, args, alone=len(recordings) == 1)
    return _finish(failures, len(recordings), args.output_dir)


def _check(recognizer: "Recognizer", args: argparse.Namespace, given: Mapping[str, str]) -> None:
    from espnet_diverse.decoding.condition_ids import completed
    from espnet_diverse.errors import ConfigError

    does = recognizer.search.task
    if args.task is not None and TASKS[args.task] != does:
        possible = next(task for task, name in TASKS.items() if name == does)
        raise ConfigError(f"--task {args.task}: {args.model} is a model of {does}, which can only {possible}")
    completed(recognizer.search.conditions, given, same_language=does == "asr")


def _results(
    recognizer: "Recognizer", recordings: Sequence["Recording"], args: argparse.Namespace, given: Mapping[str, str]
) -> Iterator[tuple["Recording", "Transcript | Exception"]]:
    from espnet_diverse.inference import Request
    from espnet_diverse.transcription.audio_progress import AudioProgress

    with closing(AudioProgress([recording.path for recording in recordings])) as progress:
        requests = [
            Request(
                recording.path,
                conditions={**given, **recording.conditions},
                on_progress=partial(progress.update, index),
            )
            for index, recording in enumerate(recordings)
        ]
        results = recognizer.transcribe_all(requests, args.word_timestamps)
        for index, (recording, result) in enumerate(zip(recordings, results, strict=True)):
            progress.finish(index)
            yield recording, result


def _reason(shown: str, error: Exception, debug: bool) -> str:
    """What is wrong with a recording, in one line that names it."""
    from espnet_diverse.errors import UserError
    from espnet_diverse.transcription.inputs import printable

    if debug:
        logging.error("transcribing %s failed", shown, exc_info=error)
    said = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    said = printable(" ".join(said.split()))
    return said if said.startswith(shown) else f"{shown}: {said}"


def _report_language(shown: str, transcript: "Transcript") -> None:
    if transcript.language_probabilities:
        language, probability = next(iter(transcript.language_probabilities.items()))
        print(f"{shown}: language {language} was found ({probability:.0%})", file=sys.stderr, flush=True)


def _formats(args: argparse.Namespace) -> list[str]:
    from espnet_diverse.transcription.formats import FORMATS

    return list(FORMATS) if args.output_format == "all" else [args.output_format]


def _hand_out(recording: "Recording", transcript: "Transcript", args: argparse.Namespace, alone: bool) -> None:
    """Write or print a transcript."""
    from espnet_diverse.transcription.formats import FORMATS, write_transcript
    from espnet_diverse.transcription.inputs import printable

    if args.output_dir is not None:
        write_transcript(transcript, recording.name, _formats(args), args.output_dir)
    elif alone or args.output_format != "txt":
        print(FORMATS[args.output_format](transcript, recording.name), end="", flush=True)
    else:
        print(printable(recording.path), " ".join(transcript.text.split()), sep="\t", flush=True)


def _finish(failures: Sequence[tuple[str, str]], count: int, output_dir: Path | None) -> int:
    from espnet_diverse.decoding.results import write_json
    from espnet_diverse.errors import DataError

    if output_dir is not None:
        write_json(output_dir / "failures.json", dict(failures))
    if len(failures) == count:
        first = failures[0][1]
        raise DataError(first if count == 1 else f"none of {count} recordings could be transcribed; first {first}")
    return 2 if failures else 0
