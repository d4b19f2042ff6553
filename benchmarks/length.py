"""Measure time and memory of a speech encoder against the length of the audio, in one process.

    python benchmarks/length.py --seconds 10 60 300              # 12 layers of width 256, ESPnet's beside ours
    python benchmarks/length.py --seconds 600 1800 3600 --cores window luna cdt --own_process --plot hour.png
    python benchmarks/length.py --encoder diverse_conformer --cores window softmax --plot length.png

One utterance of random features, 100 frames a second, in evaluation. "cdt", "xl" and "compressive" are softmax with
that memory and its defaults. All encoders have the same size, and ours compute
the subsampling convolutions of long inputs in chunks. Encoders whose time grows with the square of the length are left
out above `--quadratic_limit`. measuring.py describes how time and memory are measured; the memory is that of a pass,
without the weights. With `--own_process`, a process of its own builds each encoder and its input and makes one pass:
the memory is that by which its resident set has grown since its libraries were loaded, with the weights and the input.

A last table has the power of the length that time grows with, 1 for linear growth, and the line that fits memory best,
with the greatest deviation from it. Both are fitted by least squares to the lengths from `FITTED_FROM` seconds on.
"""

import argparse
import re
import time
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from multiprocessing import get_context
from pathlib import Path

import measuring
import numpy as np
import results
import torch
from torch import Tensor, nn

from espnet_diverse.attention import known_cores
from espnet_diverse.progress import progress
from espnet_diverse.registration import fast_start

FEATURES, RATE = 80, 100
MEMORIES = ("cdt", "xl", "compressive")
LINEAR = ("window", "bigbird", "lambda_attention", "random_features", "luna", *MEMORIES)
FITTED_FROM = 60
"""Shortest length of the fits, in seconds: below, chunks are not full."""
Lengths = dict[int, dict[str, measuring.Measured]]
"""Measurements of each encoder by seconds of audio."""


def main(argv: list[str] | None = None) -> None:
    """Measure, print the tables, and write --output and --plot."""
    args = _arguments(argv)
    fast_start()
    device = torch.device(args.device)
    rounds = "one pass each" if args.own_process else f"medians of {args.repeats} rounds"
    model = f"{args.encoder}, {args.layers} layers, width {args.width}"
    conditions = measuring.conditions(f"{model}; {rounds}", device, args.threads)
    print(*conditions, sep="\n", flush=True)
    measure = _in_own_processes if args.own_process else _in_turns(args, device)
    measured: Lengths = {}
    for seconds in progress(args.seconds, "benchmark", len(args.seconds), "length"):
        names = [name for name in args.cores if _measured(name, seconds, args)]
        found = measure(names, seconds, args) if names else {}
        if fitted := {name: one for name, one in found.items() if one.seconds}:  # without those for which memory is
            measured[seconds] = fitted  # too small
    for title, cell in TABLES.items():
        print(f"\n**{title}**\n", *_table(measured, args.cores, cell), sep="\n")
    print("\n**Growth with the length**\n", *_growth(measured, args.cores), sep="\n")
    results.finish(args, conditions, [results.Row(model, f"{seconds} s", row) for seconds, row in measured.items()])
    if args.plot:
        _plot(measured, args.cores, args.plot)


def encoder(name: str, args: argparse.Namespace) -> nn.Module:
    """Build an encoder: ESPnet's own for the name "espnet", else ours with this core, or softmax and this memory."""
    from espnet_diverse.nets import ENCODERS  # here, so that `--help` does not wait for it

    ours = ENCODERS[args.encoder]
    size = {"output_size": args.width, "attention_heads": args.heads, "num_blocks": args.layers}
    if args.encoder != "diverse_transformer":
        size["rel_pos_type"] = "latest"
    size["linear_units"] = args.units
    torch.manual_seed(0)
    if name == "espnet":
        theirs = next(kind for kind in ours.__mro__ if kind.__module__.startswith("espnet2."))
        sdpa = {"use_sdpa": True} if "use_sdpa" in signature(theirs).parameters else {}
        return theirs(FEATURES, **size, **sdpa)
    if name in MEMORIES:
        return ours(FEATURES, memory={"kind": name}, **size)
    return ours(FEATURES, attention={"core": name}, **size)


def _in_turns(args: argparse.Namespace, device: torch.device) -> Callable[..., dict[str, measuring.Measured]]:
    """Return a function that measures encoders at one length, in turns."""
    encoders = {name: encoder(name, args).to(device).eval() for name in args.cores}

    def measure(names: list[str], seconds: int, args: argparse.Namespace) -> dict[str, measuring.Measured]:
        x = torch.randn(1, RATE * seconds, FEATURES, device=device)
        return measuring.compare({name: _call(encoders[name], x) for name in names}, args.repeats, device)

    return measure


def _in_own_processes(names: list[str], seconds: int, args: argparse.Namespace) -> dict[str, measuring.Measured]:
    """Measure one pass of each encoder at one length, each in a process of its own."""
    measured = {}
    for name in names:
        with get_context("spawn").Pool(1) as pool:
            measured[name] = pool.apply(_pass, (name, seconds, args))
    return measured


def _pass(name: str, seconds: int, args: argparse.Namespace) -> measuring.Measured:
    """Build an encoder and its input, make one pass, and return its CPU time and the growth of this process."""
    fast_start()
    torch.set_num_threads(args.threads)
    import_module("espnet_diverse.nets")
    before = _resident("VmRSS")
    call = _call(encoder(name, args).eval(), torch.randn(1, RATE * seconds, FEATURES))
    start = time.process_time()
    call()
    return measuring.Measured([time.process_time() - start], _resident("VmHWM") - before)


def _resident(entry: str) -> int:
    """Resident set of this process in bytes: VmRSS is its size now, VmHWM its greatest size so far."""
    found = re.search(rf"{entry}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found, "Linux writes this"
    return 1024 * int(found[1])


def _call(net: nn.Module, x: Tensor) -> Callable[[], None]:
    lengths = torch.tensor([x.size(1)], device=x.device)

    def call() -> None:
        with torch.inference_mode():
            net(x, lengths)

    return call


def _measured(name: str, seconds: int, args: argparse.Namespace) -> bool:
    return name in LINEAR or seconds <= args.quadratic_limit


TABLES: dict[str, Callable[[measuring.Measured], float]] = {
    "Seconds of computation": lambda one: one.cost,
    "Peak memory, MB": lambda one: one.peak / 1e6,
}


def _table(measured: Lengths, names: list[str], cell: Callable[[measuring.Measured], float]) -> list[str]:
    lines = [f"| seconds of audio | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for seconds, row in measured.items():
        cells = [f"{cell(row[name]):.3g}" if name in row else "" for name in names]
        lines.append(f"| {' | '.join([str(seconds), *cells])} |")
    return lines


def _growth(measured: Lengths, names: list[str]) -> list[str]:
    """The power of the length in time, and the line of memory over length."""
    lines = ["| | power of time | MB at 0 s | MB a minute | greatest deviation |", "|---|---|---|---|---|"]
    for name in names:
        lengths = np.array([seconds for seconds, row in measured.items() if seconds >= FITTED_FROM and name in row])
        if len(lengths) < 2:
            continue
        rows = [measured[seconds][name] for seconds in lengths]
        power = np.polyfit(np.log(lengths), np.log([one.cost for one in rows]), 1)[0]
        peaks = np.array([one.peak / 1e6 for one in rows])
        slope, start = line = np.polyfit(lengths, peaks, 1)
        deviation = np.abs(np.polyval(line, lengths) / peaks - 1).max()
        lines.append(f"| {name} | {power:.2f} | {start:.0f} | {60 * slope:.3g} | {deviation:.1%} |")
    return lines


def _plot(measured: Lengths, names: list[str], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, (title, cell) in zip(figure.subplots(1, 2), TABLES.items(), strict=True):
        for name in names:
            lengths = [seconds for seconds, row in measured.items() if name in row]
            axes.loglog(lengths, [cell(measured[seconds][name]) for seconds in lengths], marker="o", label=name)
        axes.set_xlabel("length of the audio, seconds")
        axes.set_ylabel(title)
        axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = ["espnet", *known_cores(), *MEMORIES]
    encoders = ["diverse_transformer", "diverse_conformer"]
    parser.add_argument("--seconds", type=int, nargs="+", default=[10, 60], help="lengths of the audio (10 60)")
    parser.add_argument("--cores", nargs="+", choices=known, default=["espnet", "softmax", *LINEAR], metavar="CORE")
    parser.add_argument(
        "--encoder", choices=encoders, default=encoders[0], help="encoder around the cores; memories need a transformer"
    )
    parser.add_argument("--layers", type=int, default=12, help="layers of the encoder (12)")
    parser.add_argument("--width", type=int, default=256, help="model width (256)")
    parser.add_argument("--heads", type=int, default=4, help="heads of an attention (4)")
    parser.add_argument("--units", type=int, default=1024, help="width of the feed-forward layers (1024)")
    parser.add_argument("--quadratic_limit", type=int, default=300, metavar="S", help="see above (300 seconds)")
    parser.add_argument("--own_process", action="store_true", help="one pass of each in a process of its own; Linux")
    parser.add_argument("--repeats", type=int, default=3, help="rounds (3)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (1)")
    parser.add_argument("--plot", type=Path, help="draw time and memory against length to this file")
    results.add_arguments(parser, devices=True)
    args = parser.parse_args(argv)
    if args.own_process and args.device != "cpu":
        parser.error("--own_process measures the memory of a process, not that of a GPU; leave out --device")
    results.check_arguments(parser, args)
    return args


if __name__ == "__main__":
    main()
