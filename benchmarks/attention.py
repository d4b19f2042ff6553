"""Compare the speed and memory of our attention with ESPnet's, in one process.

    python benchmarks/attention.py                       # one attention module, T 50 to 4000
    python benchmarks/attention.py --times --steps       # whole training steps only
    python benchmarks/attention.py --device cuda --dtype bfloat16 --steps

Prints Markdown tables of ratios, ours / ESPnet's: below 1, ours is faster or smaller. measuring.py describes how time
and memory are measured.
"""

import argparse
from collections.abc import Iterator

import measuring
import modules
import results
import torch
import training_step

from espnet_diverse.progress import progress
from espnet_diverse.registration import fast_start

CONTESTANTS = ["espnet", "espnet_default", *modules.CORES]
LOSSES = [name for name in training_step.STEPS if name not in modules.MORE]  # of steps alone
STEPLESS = ["strided", "fixed"]  # attention modules alone
MORE = [*modules.MORE, *LOSSES]


def main(argv: list[str] | None = None) -> None:
    """Measure, print the tables, and write all measurements to --output."""
    args = _arguments(argv)
    fast_start()
    measuring.keep_memory(args)
    device = torch.device(args.device)
    conditions = measuring.conditions("ratios of medians", device, args.threads, args.dtype)
    print(*conditions, sep="\n", flush=True)
    count = len(modules.MODES) * len(args.times) + len(args.steps)
    from espnet_diverse.training.loop.precision import (
        without_cudnn_attention,  # here, so that `--help` does not wait for it
    )

    with without_cudnn_attention():  # as in training
        rows = results.show(progress(_compare(args), "benchmark", count, "comparison"))
    results.finish(args, conditions, rows)


def _compare(args: argparse.Namespace) -> Iterator[results.Row]:
    device, dtype = torch.device(args.device), getattr(torch, args.dtype)
    for mode in modules.MODES:
        table = f"One attention module, {mode}: width {modules.SIZE}, {modules.HEADS} heads, C {modules.CLUSTERS}"
        for time in args.times:
            batch = max(1, args.tokens // time)
            calls = modules.contestants(mode, batch, time, device, dtype)
            calls = {name: calls[name] for name in args.contestants}
            yield results.Row(table, f"{batch}, {time}", measuring.compare(calls, args.repeats or 15, device))
    table = "A training step: layers of encoder x decoder / width / feed-forward width, T after subsampling"
    for size in args.steps:
        calls = training_step.contestants(args.contestants, size, (args.utterances, args.step_time), device, dtype)
        case = f"{size}: {args.utterances}, {args.step_time}"
        yield results.Row(table, case, measuring.compare(calls, args.repeats or 7, device))


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes, times = training_step.SIZES, [50, 200, 400, 1000, 2000, 4000]
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"], help="bfloat16: by autocast")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (1); 0: PyTorch's own choice")
    parser.add_argument("--times", type=_positive, nargs="*", default=times, metavar="T", help="lengths of the input")
    parser.add_argument("--tokens", type=_positive, default=4000, help="tokens in a batch, B times T (4000)")
    parser.add_argument(
        "--steps", nargs="*", choices=sizes, help="measure training steps too; by default both large ones"
    )
    parser.add_argument("--step_time", type=_positive, default=250, help="T of a step after subsampling by 4 (250)")
    parser.add_argument("--utterances", type=_positive, default=8, help="batch size of a step (8)")
    measuring.add_keep_memory(parser)
    parser.add_argument("--repeats", type=_positive, help="rounds; 15 for an attention, 7 for a step")
    parser.add_argument(
        "--contestants",
        nargs="+",
        choices=CONTESTANTS + MORE,
        default=CONTESTANTS,
        help=f"the first is the base (all but {' '.join(MORE)})",
    )
    results.add_arguments(parser, devices=True)
    args = results.parsed(parser, argv)
    args.steps = [] if args.steps is None else args.steps or list(training_step.STANDARD)
    for given, alone, other in ((args.times, LOSSES, "--steps"), (args.steps, STEPLESS, "--times")):
        if given and (wrong := [name for name in args.contestants if name in alone]):
            parser.error(f"--contestants {' '.join(wrong)}: measured by {other} alone")
    return args


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return number


if __name__ == "__main__":
    main()
