"""Results of benchmarks: Markdown tables of ratios, JSON files, and the ratios of an earlier file beside those of now.

A row compares contestants in one case; the first of them is the base, to whose cost the others are related. A
contestant that ran out of memory, or a ratio to one that did, is shown as "-".
"""

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from measuring import Measured


@dataclass
class Row:
    """One line of a table.

    Attributes:
        table: Heading of the table.
        case: What was measured, such as batch size and length.
        measured: Measurements of each contestant; the first is the base.
    """

    table: str
    case: str
    measured: dict[str, Measured]

    def ratio(self, name: str) -> str:
        """Cost of a contestant in relation to that of the base."""
        return over(self.measured[name].cost, self._base.cost) if name in self.measured else "-"

    def head(self, column: str, memory: bool) -> list[str]:
        """Heads of the columns: the case, milliseconds of the base, ratios of the others; the same for memory."""
        base, *others = self.measured
        peaks = [f"{base} peak MB", *(f"{name} peak" for name in others)]
        return [column, f"{base} ms", *others, *(peaks if memory else [])]

    def cells(self, memory: bool) -> list[str]:
        """The cells below `head`."""
        others = list(self.measured)[1:]
        times = [f"{1000 * self._base.cost:.1f}", *map(self.ratio, others)]
        peaks = [f"{self._base.peak / 1e6:.1f}", *(over(self.measured[name].peak, self._base.peak) for name in others)]
        return [self.case, *times, *(peaks if memory else [])]

    @property
    def _base(self) -> Measured:
        return next(iter(self.measured.values()))


def show(rows: Iterable[Row], column: str = "B, T", memory: bool = True) -> list[Row]:
    """Print rows as they come, as Markdown tables under their headings, and return them.

    Args:
        rows: The rows; those of a table come one after another.
        column: Head of the column of the cases.
        memory: Whether the tables show peak memory.
    """
    shown: list[Row] = []
    for row in rows:
        if not shown or row.table != shown[-1].table:
            print(f"\n**{row.table}**\n", *_table_head(row.head(column, memory)), sep="\n")
        print(_line(row.cells(memory)), flush=True)
        shown.append(row)
    return shown


def add_arguments(parser: argparse.ArgumentParser, devices: bool = False) -> None:
    """Declare `--output` and `--compare`, and `--device` for a benchmark that runs on `devices` besides the CPU."""
    if devices:
        parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--output", type=Path, metavar="FILE", help="write every measurement to this JSON file")
    parser.add_argument(
        "--compare", type=Path, metavar="FILE", help="show the ratios of this JSON file beside those of now"
    )


def parsed(parser: argparse.ArgumentParser, argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line, and check it by `check_arguments`."""
    args = parser.parse_args(argv)
    check_arguments(parser, args)
    return args


def check_arguments(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse a `--compare` that is no file and a `--device` that is not there, before anything is measured."""
    if args.compare and not args.compare.is_file():
        parser.error(f"--compare {args.compare}: no such file; --output of an earlier run writes one")
    if getattr(args, "device", "cpu") == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda is not possible: PyTorch sees no GPU on this machine")


def finish(args: argparse.Namespace, conditions: list[str], rows: list[Row]) -> None:
    """Write the rows to `--output`, and print their ratios beside those of `--compare`."""
    if args.output:
        write(args.output, conditions, rows)
    if args.compare:
        print("", *compared(read(args.compare), rows), sep="\n")


def write(path: Path, conditions: list[str], rows: list[Row]) -> None:
    """Write a JSON file; it appears completely or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    content = {"conditions": conditions, "rows": [asdict(row) for row in rows]}
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def read(path: Path) -> list[Row]:
    """The rows of a file that `write` has written."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return [
        Row(row["table"], row["case"], {name: Measured(**found) for name, found in row["measured"].items()})
        for row in rows
    ]


def compared(then: list[Row], now: list[Row]) -> list[str]:
    """A table of the ratios of time, then and now, of the cases that were measured both times."""
    before = {(row.table, row.case): row for row in then}
    both = [(before[row.table, row.case], row) for row in now if (row.table, row.case) in before]
    if not both:
        return ["No case of the file was measured now."]
    names = list(dict.fromkeys(name for _, row in both for name in list(row.measured)[1:]))
    lines = ["**Ratios then and now**", "", *_table_head(["case", *names])]
    for old, new in both:
        ratios = [f"{old.ratio(name)}, {new.ratio(name)}" for name in names]
        lines.append(_line([f"{new.table.partition(':')[0]}: {new.case}", *ratios]))
    return lines


def over(part: float, whole: float) -> str:
    """The ratio of two costs; "-" where one of them was not measured."""
    return f"{part / whole:.2f}" if part and whole else "-"


def check_memory(measured: dict[str, Measured], remedy: str) -> None:
    """End the program, where a contestant ran out of memory and the rest means nothing without it."""
    if lacking := [name for name, one in measured.items() if not one.seconds]:
        raise SystemExit(f"the memory of the GPU is too small for {', '.join(lacking)}; give {remedy}")


def _table_head(cells: list[str]) -> list[str]:
    return [_line(cells), "|---" * len(cells) + "|"]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
