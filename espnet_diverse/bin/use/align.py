"""Find the times of the words and characters of a known text in a recording, by forced alignment with CTC.

The model needs CTC over its output text; the text must be written like the training text, without unknown characters.
The result is printed, or written to --output.
"""

import argparse
from pathlib import Path

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.input_paths import FILE

FORMATS = ("json", "textgrid", "ctm")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_model(parser)
    parser.add_argument("audio", metavar="AUDIO", help="recording of at most 120 seconds, or - for standard input")
    text = parser.add_mutually_exclusive_group(required=True)
    text.add_argument("--text", metavar="WORDS", help="known text")
    text.add_argument("--text_file", type=FILE, metavar="FILE", help="file with the known text, in one or more lines")
    parser.add_argument("--output", type=Path, metavar="FILE", help="file to write (default: standard output)")
    parser.add_argument(
        "--output_format",
        choices=FORMATS,
        default="json",
        help="json: words and characters with times and probabilities; textgrid: the same, for Praat; ctm: words "
        "(default: json)",
    )
    options.add_conditions(parser)
    options.add_device_options(parser, precision=False)


def run(args: argparse.Namespace) -> int:
    """Align, and print or write the result."""
    from espnet_diverse.data.faults import refuse
    from espnet_diverse.data.files.atomic_files import write_text
    from espnet_diverse.data.output_paths import check_outputs
    from espnet_diverse.data.tables import scan_lines

    text = args.text
    if args.text_file is not None:
        lines, faults = scan_lines(args.text_file)
        refuse(faults)
        text = " ".join(lines)
    if args.output is not None:
        check_outputs([args.output], [Path(args.audio), *filter(None, [args.text_file])])
    from espnet_diverse.inference import Recognizer  # takes seconds
    from espnet_diverse.transcription.given_text import ALIGNMENT_FORMATS, align_text

    recognizer = Recognizer(args.model_dir, args.model_file, device=args.device)
    found = align_text(recognizer.search, args.audio, text, conditions=options.conditions(args))
    content = ALIGNMENT_FORMATS[args.output_format](found, "stdin" if args.audio == "-" else Path(args.audio).stem)
    if args.output is None:
        print(content, end="")
    else:
        write_text(args.output, content)
    return 0
