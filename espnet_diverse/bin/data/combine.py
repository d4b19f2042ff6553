"""Combine data directories into one; `DOMAIN=DIR` also writes the domain of the utterances of DIR to utt2domain.

Ids and audio do not change. An id that occurs in two directories is an error, and so is an optional table (src_text,
utt2lang, utt2tgtlang, utt2domain, segments) that only some of the directories have.
"""

import argparse
from pathlib import Path

from espnet_diverse.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `espnet-diverse combine`."""
    parser.add_argument("parts", nargs="+", metavar="[DOMAIN=]DIR", help="data directories, from `prepare`")
    parser.add_argument("--output_dir", type=Path, required=True, help="combined data directory to write")
    parser.add_argument(
        "--fill",
        action="append",
        default=[],
        metavar="TABLE=NAME",
        help="value for the utterances of directories without TABLE, such as utt2lang=zh; can be repeated",
    )


def inputs(args: argparse.Namespace) -> list[Path]:
    """The data directories."""
    from espnet_diverse.data.writing.combining import parse_part

    return [parse_part(word).path for word in args.parts]


def outputs(args: argparse.Namespace) -> list[Path]:
    """One table of the combined directory, which is written all at once."""
    return [args.output_dir / "text"]


def run(args: argparse.Namespace) -> int:
    """Combine the directories and print a summary."""
    from espnet_diverse.data.writing.combining import parse_part, write_combined

    fill = dict(word.partition("=")[::2] for word in args.fill)
    if not all(fill.values()) or len(fill) < len(args.fill):
        raise ConfigError(f"--fill {' '.join(args.fill)}: must be TABLE=NAME, such as utt2lang=zh, each table once")
    combined = write_combined([parse_part(word) for word in args.parts], args.output_dir, fill)
    names = [f"{len(set(table.values()))} in {name}" for name, table in sorted(combined.conditions.items())]
    counts = f"{len(combined.text)} utterances of {len(args.parts)} directories"
    speakers = [] if combined.is_text else [f"{len(set(combined.utt2spk.values()))} speakers"]
    print(f"{args.output_dir}: {', '.join([counts, *speakers, *names])}")
    return 0
