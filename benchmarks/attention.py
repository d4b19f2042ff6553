"""Compare the speed and memory of our attention with ESPnet's, in one process.

    python benchmarks/attention.py                       # one attention module, T 50 to 4000
    python benchmarks/attention.py --times --steps       # whole training steps only
    python benchmarks/attention.py --device cuda --dtype bfloat16 --steps

Prints Markdown tables of ratios, ours / ESPnet's: below 1, ours is faster or smaller. measuring.py describes how time
and memory are measured.
"""

import argparse
import json
import os
import platform
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

import measuring
import modules
import torch
import training_step

from espnet_diverse.allocator import IN_TRAINING, keep_freed_memory
from espnet_diverse.progress import progress
from espnet_diverse.registration import fast_start


@dataclass
class Row:
    """One line of a table: heading of the table, case, and measurements of each contestant."""

    table: str
    case: str
    measured: dict[str, measuring.Measured]


def main(argv: list[str] | None = None) -> None:
    """Measure, print the tables, and write all measurements to --output."""
    args = _arguments(argv)
    fast_start()
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.keep_memory and not keep_freed_memory(IN_TRAINING):
        sys.exit("--keep_memory needs glibc, whose malloc can be told to keep what is freed")
    circumstances = _circumstances(args)
    print(*circumstances, sep="\n", flush=True)
    rows = []
    count = len(modules.MODES) * len(args.times) + len(args.steps)
    for row in progress(_compare(args), "benchmark", count, "comparison"):
        if not rows or row.table != rows[-1].table:
            print(f"\n**{row.table}**\n", *_head(row), sep="\n")
        print(_line(row), flush=True)
        rows.append(row)
    if args.output:
        _save(args.output, circumstances, rows)
    if args.compare:
        print("", *_compared(_read(args.compare), rows), sep="\n")


def _compare(args: argparse.Namespace) -> Iterator[Row]:
    device, dtype = torch.device(args.device), getattr(torch, args.dtype)
    for mode in modules.MODES:
        table = f"One attention module, {mode}: width {modules.SIZE}, {modules.HEADS} heads, C {modules.CLUSTERS}"
        for time in args.times:
            batch = max(1, args.tokens // time)
            calls = modules.contestants(mode, batch, time, device, dtype)
            yield Row(table, f"{batch}, {time}", measuring.compare(calls, args.repeats or 15, device))
    table = "A training step: layers of encoder x decoder / width / feed-forward width, T after subsampling"
    for size in args.steps:
        calls = training_step.contestants(size, args.utterances, args.step_time, device, dtype)
        case = f"{size}: {args.utterances}, {args.step_time}"
        yield Row(table, case, measuring.compare(calls, args.repeats or 7, device))


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes, times = list(training_step.SIZES), [50, 200, 400, 1000, 2000, 4000]
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"], help="bfloat16: by autocast")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (1); 0: PyTorch's own choice")
    parser.add_argument("--times", type=_positive, nargs="*", default=times, metavar="T", help="lengths of the input")
    parser.add_argument("--tokens", type=_positive, default=4000, help="tokens in a batch, B times T (4000)")
    parser.add_argument("--steps", nargs="*", choices=sizes, help="measure training steps too; all sizes if none named")
    parser.add_argument("--step_time", type=_positive, default=250, help="T of a step after subsampling by 4 (250)")
    parser.add_argument("--utterances", type=_positive, default=8, help="batch size of a step (8)")
    parser.add_argument(
        "--keep_memory", action="store_true", help="keep freed memory in the process, without page faults (glibc)"
    )
    parser.add_argument("--repeats", type=_positive, help="rounds; 15 for an attention, 7 for a step")
    parser.add_argument("--output", type=Path, help="write every measurement to this JSON file")
    parser.add_argument("--compare", type=Path, help="show the ratios of this JSON file beside those of now")
    args = parser.parse_args(argv)
    if args.compare and not args.compare.is_file():
        parser.error(f"--compare {args.compare}: no such file; --output of an earlier run writes one")
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda is not possible: PyTorch sees no GPU on this machine")
    args.steps = [] if args.steps is None else args.steps or sizes
    return args


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return number


def _circumstances(args: argparse.Namespace) -> list[str]:
    device = torch.device(args.device)
    threads = f"{torch.get_num_threads()} CPU thread(s) of {measuring.cpu_name()}"
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else threads
    versions = ", ".join(f"{package} {version(package)}" for package in ("torch", "espnet", "espnet_diverse"))
    return [
        f"    {shlex.join(['python', *sys.argv])}",
        "",
        f"{date.today()}, {name}, {args.dtype}, {versions}, Python {platform.python_version()}; at the start the load "
        f"of the machine was {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs. "
        f"Ratios ours / ESPnet of medians, {measuring.clock_name(device)}.",
    ]


def _head(row: Row) -> list[str]:
    ours = [name for name in row.measured if name != "espnet"]
    head = ["B, T", "ESPnet ms", *ours, "ESPnet peak MB", *(f"{name} peak" for name in ours)]
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]


def _line(row: Row) -> str:
    espnet = row.measured["espnet"]
    ours = [one for name, one in row.measured.items() if name != "espnet"]
    times = [f"{1000 * espnet.median:.1f}", *(f"{one.median / espnet.median:.2f}" for one in ours)]
    peaks = [f"{espnet.peak / 1e6:.1f}", *(f"{one.peak / espnet.peak:.2f}" for one in ours)]
    return f"| {' | '.join([row.case, *times, *peaks])} |"


def _save(path: Path, circumstances: list[str], rows: list[Row]) -> None:
    partial = path.with_name(f".{path.name}.partial")
    content = {"circumstances": circumstances, "rows": [asdict(row) for row in rows]}
    partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
    partial.replace(path)


def _read(path: Path) -> list[Row]:
    """The rows of a file that `--output` has written."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return [
        Row(row["table"], row["case"], {name: measuring.Measured(**found) for name, found in row["measured"].items()})
        for row in rows
    ]


def _compared(then: list[Row], now: list[Row]) -> list[str]:
    """A table of the ratios of time, then and now, of the cases that were measured both times."""
    before = {(row.table, row.case): row for row in then}
    both = [(before[row.table, row.case], row) for row in now if (row.table, row.case) in before]
    if not both:
        return ["No case of the file was measured now."]
    names = [name for name in both[0][1].measured if name != "espnet"]
    lines = ["**Ratios then and now**", "", f"| B, T | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for old, new in both:
        ratios = [f"{_ratio(old, name)}, {_ratio(new, name)}" for name in names]
        case = f"{new.table.partition(':')[0]}: {new.case}"
        lines.append(f"| {' | '.join([case, *ratios])} |")
    return lines


def _ratio(row: Row, name: str) -> str:
    found = row.measured.get(name)
    return "-" if found is None else f"{found.median / row.measured['espnet'].median:.2f}"


if __name__ == "__main__":
    main()
