"""Combine data directories into one; `DOMAIN=DIR` also writes the domain of the utterances of DIR to utt2domain.

Ids and audio do not change. An id that occurs in two directories is an error, and so is an optional table (src_text,
utt2lang, utt2tgtlang, utt2domain, segments) that only some of the directories have.
"""

from collections.abc import Sequence
from pathlib import Path

from espnet_diverse.bin.options.arguments import Arguments, adder
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import listed, path


class CommandOptions(Arguments):
    parts: Sequence[str] = listed(positional=True, metavar="[DOMAIN=]DIR", help="data directories, from `prepare`")
    output_dir: Path = path(help="combined data directory to write")
    fill: Sequence[str] = listed(
        (),
        nargs="append",
        metavar="TABLE=NAME",
        help="value for the utterances of directories without TABLE, such as utt2lang=zh; can be repeated",
    )


add_arguments = adder(CommandOptions)


def inputs(options: CommandOptions) -> list[Path]:
    """The data directories."""
    from espnet_diverse.data.writing.combining import parse_part

    return [parse_part(word).path for word in options.parts]


def outputs(options: CommandOptions) -> list[Path]:
    """One table of the combined directory, which is written all at once."""
    return [options.output_dir / "text"]


def run(options: CommandOptions) -> int:
    """Combine the directories and print a summary."""
    from espnet_diverse.data.writing.combining import parse_part, write_combined

    fill = dict(word.partition("=")[::2] for word in options.fill)
    if not all(fill.values()) or len(fill) < len(options.fill):
        raise ConfigError(f"--fill {' '.join(options.fill)}: must be TABLE=NAME, such as utt2lang=zh, each table once")
    combined = write_combined([parse_part(word) for word in options.parts], options.output_dir, fill)
    names = [f"{len(set(table.values()))} in {name}" for name, table in sorted(combined.conditions.items())]
    counts = f"{len(combined.text)} utterances of {len(options.parts)} directories"
    speakers = [] if combined.is_text else [f"{len(set(combined.utt2spk.values()))} speakers"]
    print(f"{options.output_dir}: {', '.join([counts, *speakers, *names])}")
    return 0
