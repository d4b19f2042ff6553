"""Arguments of commands: declared fields in the help and on the command line, and back in their dataclass."""

import argparse
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from espnet_diverse.bin.options.arguments import add_options, adder, argument, from_args, gathered, part
from espnet_diverse.bin.options.input_paths import FILE
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import (
    OptionError,
    Options,
    assignments,
    choice,
    flag,
    listed,
    number,
    path,
    text,
)


@dataclass(frozen=True)
class Bounds(Options):
    pool: int = number(8, least=1, help="number of heads", shown="8, all")
    seconds: float = number(20.0, above=0, key="max_seconds", help="length")


@dataclass(frozen=True, kw_only=True)
class Everything:
    files: tuple[str, ...] = listed((), nargs="*", positional=True, metavar="FILE", help="files")
    list: Path | None = path(None, parse=FILE, metavar="FILE", help="a list")
    output_dir: Path = path(help="directory")
    metric: tuple[str, ...] = listed(["cer"], also="--metrics", help="metrics (all tasks)")
    pairs: tuple[tuple[str, str], ...] = assignments(metavar="A=B", help="pairs")
    shares: tuple[float, ...] = listed((0.1, 0.2), of=number(0.1), nargs=2, metavar=("DEV", "TEST"), help="shares")
    set: tuple[str, ...] = listed((), nargs="append", help="change; can be repeated")
    mode: str = choice("all", "some", help="how")
    case: str = choice("kept", "lower", bare=True, help="kept or lower")
    name: str | None = text(None, help="a name", shown="that of the file")
    count: int = number(0, least=0, metavar="N", help="samples", shown="")
    fast: bool = flag(help="fast")
    bounds: Bounds = part(Bounds)
    both: str = gathered(lambda args: f"{args.mode} {args.case}")
    debug: bool = False


def parsed(*words):
    parser = argparse.ArgumentParser()
    add_options(parser, Everything)
    add_options(parser.add_argument_group("bounds"), Bounds, letters=True)
    return parser, parser.parse_args([*words, "--output_dir", "out"])


def test_the_arguments_have_the_defaults_and_words_of_the_fields():
    parser, args = parsed()
    assert args == argparse.Namespace(
        **{"files": [], "list": None, "output_dir": Path("out"), "metric": ["cer"], "pairs": [], "shares": (0.1, 0.2)},
        **{"set": [], "mode": "all", "case": "kept", "name": None, "count": 0, "fast": False},
        **{"pool": 8, "max_seconds": 20.0},
    )
    said = " ".join(parser.format_help().split())
    for words in (
        "FILE files",
        "--list FILE a list --output_dir OUTPUT_DIR directory --metric",
        "METRIC [METRIC ...] metrics (all tasks; default: cer) --pairs A=B [A=B ...] pairs --shares DEV TEST shares "
        "(default: 0.1 0.2) --set SET change; can be repeated --mode {all,some} how (default: all) --case CASE kept or "
        "lower (default: kept) --name NAME a name (default: that of the file) --count N samples --fast fast",
        "bounds: --pool N number of heads (default: 8, all) --max_seconds X length (default: 20)",
    ):
        assert words in said
    with pytest.raises(SystemExit):
        parser.parse_args([])  # --output_dir is required


def test_the_arguments_are_read_into_their_dataclass():
    words = ["a", "b", "--metrics", "wer", "ter", "--pairs", "x=1", "y=2", "--shares", ".3", ".4", "--set", "p"]
    _, args = parsed(*words, "--set", "q", "--case", "lower", "--pool", "3", "--list", "l", "--fast")
    options = from_args(Everything, argparse.Namespace(**vars(args), debug=True))
    assert (options.files, options.metric, options.set) == (("a", "b"), ("wer", "ter"), ("p", "q"))
    assert (options.pairs, options.shares) == ((("x", "1"), ("y", "2")), (0.3, 0.4))
    assert options.fast and options.debug
    assert (options.list, options.bounds, options.both) == (Path("l"), Bounds(3), "all lower")
    assert from_args(Everything, parsed()[1]).debug is False
    for pairs in ("x", "x=", "=x", "x=1 x=2"):
        with pytest.raises(ConfigError, match=f"^--pairs {pairs}: must be NAME=VALUE, each name once$"):
            from_args(Everything, parsed("--pairs", *pairs.split())[1])
    assert from_args(Bounds, argparse.Namespace(pool=3, max_seconds=5.0), "pool") == Bounds(3)
    with pytest.raises(OptionError, match="^max_seconds must be above 0, but is -1.0$"):
        from_args(Everything, parsed("--max_seconds", "-1")[1])
    for words, message in (
        (("--count", "-1"), "--count must be at least 0, but is -1"),
        (("--shares", "0.1", "inf"), "--shares must be a finite number, but is inf"),
        (("--shares", "nan", "0.1"), "--shares must be a number, but is nan"),
    ):
        with pytest.raises(OptionError, match=f"^{message}$"):
            from_args(Everything, parsed(*words)[1])


def test_a_command_may_have_other_words_than_a_field():
    pool, _ = fields(Bounds)
    assert argument(pool, text="heads (x)", shown=4)["help"] == "heads (x; default: 4)"
    parser = argparse.ArgumentParser()
    add_options(parser, Everything, "mode", texts={"mode": "which"})
    assert "which (default: all)" in parser.format_help() and "--case" not in parser.format_help()


def test_the_parts_of_a_command_are_added_in_their_order_and_a_group_once():
    @dataclass(frozen=True, kw_only=True)
    class Device:
        GROUP, ABOUT = "device options", "where to compute"
        device: str = text("cpu", help="device")

    @dataclass(frozen=True, kw_only=True)
    class Computing(Device):
        GROUP = Device.GROUP
        compile: bool = flag(help="compile")

    parser = argparse.ArgumentParser(usage="", add_help=False)
    adder(Device, lambda parser: parser.add_argument("--own", help="own"), Computing)(parser)
    said = " ".join(parser.format_help().split())
    assert said.endswith(
        "options: --own OWN own device options: where to compute --device DEVICE device "
        "(default: cpu) --compile compile"
    )
