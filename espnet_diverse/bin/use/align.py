"""Find the times of the words and characters of a known text in a recording, by forced alignment.

The model needs CTC over its output text, or heads that align, as Whisper has. The text must be written like the
training text, without unknown characters.
The result is printed, or written to --output.
"""

import argparse
from pathlib import Path

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import add_options
from espnet_diverse.bin.options.input_paths import FILE
from espnet_diverse.option_checks import choice, path
from espnet_diverse.option_checks import text as any_text

FORMATS = ("json", "textgrid", "ctm")


class CommandOptions(shared.Model, shared.Conditions, shared.Device):
    audio: str = any_text(
        positional=True, metavar="AUDIO", help="recording of at most 120 seconds, or - for standard input"
    )
    text: str | None = any_text(None, metavar="WORDS", help="known text")
    text_file: Path | None = path(
        None, parse=FILE, metavar="FILE", help="file with the known text, in one or more lines"
    )
    output: Path | None = path(None, metavar="FILE", help="file to write", shown="standard output")
    output_format: str = choice(
        *FORMATS,
        help="json: words and characters with times and probabilities; textgrid: the same, for Praat; ctm: words",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    shared.add_model(parser)
    add_options(parser, CommandOptions, "audio")
    add_options(parser.add_mutually_exclusive_group(required=True), CommandOptions, "text", "text_file")
    add_options(parser, CommandOptions, "output", "output_format")
    shared.add_conditions(parser)
    add_options(parser, shared.Device)


def run(options: CommandOptions) -> int:
    """Align, and print or write the result."""
    from espnet_diverse.data.faults import refuse
    from espnet_diverse.data.files.atomic_files import write_text
    from espnet_diverse.data.output_paths import check_outputs
    from espnet_diverse.data.tables import scan_lines

    text = options.text
    if options.text_file is not None:
        lines, faults = scan_lines(options.text_file)
        refuse(faults)
        text = " ".join(lines)
    if options.output is not None:
        check_outputs([options.output], [Path(options.audio), *filter(None, [options.text_file])])
        options.output.parent.mkdir(parents=True, exist_ok=True)
    from espnet_diverse.inference import Recognizer  # takes seconds
    from espnet_diverse.transcription.given_text import ALIGNMENT_FORMATS, align_text

    recognizer = Recognizer(*options.model, device=options.device)
    alignment = align_text(recognizer.search, options.audio, text, conditions=options.conditions)
    name = "stdin" if options.audio == "-" else Path(options.audio).stem
    content = ALIGNMENT_FORMATS[options.output_format](alignment, name)
    if options.output is None:
        print(content, end="")
    else:
        write_text(options.output, content)
    return 0
