"""Compare the cost of a training step in which heads repel each other with that of a plain one, in one process.

    python benchmarks/repulsion.py                       # --size 12x6/256/2048: a larger model
    python benchmarks/repulsion.py --size model/mt_mini --utterances 64 --time 17    # translation

Prints a Markdown table of ratios to softmax attention without repulsion. "disagreement" is the loss of heads whose
outputs are alike, the baseline of the repulsive-attention paper. The step is that of training_step.py, or of
text_step.py; measuring.py describes how time is measured.
"""

import argparse
from collections.abc import Callable
from functools import partial

import measuring
import results
import text_step
import torch
import training_step
from torch import nn

from espnet_diverse.registration import fast_start

METHODS = ("svgd", "spos")
OF_TEXT, VOCABULARY = "model/mt_mini", 4000
CPU = torch.device("cpu")


def main(argv: list[str] | None = None) -> None:
    """Measure and print the table."""
    args = _arguments(argv)
    fast_start()
    conditions = measuring.conditions(f"ratios of medians of {args.repeats} rounds", CPU)
    print(*conditions, sep="\n", flush=True)
    measured = measuring.compare(_calls(args.size, args.utterances, args.time), args.repeats, CPU, memory=False)
    row = results.Row("A training step", f"{args.size}: {args.utterances}, {args.time}", measured)
    results.finish(args, conditions, results.show([row], memory=False))


def _calls(size: str, batch: int, time: int) -> dict[str, Callable[[], None]]:
    from espnet_diverse.training.repulsion import Repulsion
    from espnet_diverse.training.repulsion_options import RepulsionOptions

    def build(*fragments: str) -> tuple[nn.Module, torch.optim.Optimizer]:
        if size == OF_TEXT:
            return text_step.build(size, ",".join(fragments), VOCABULARY)
        return training_step.build(list(fragments), training_step.SIZES[size])

    data = text_step.batch_of(batch, time, VOCABULARY) if size == OF_TEXT else training_step.batch_of(batch, time)
    calls = {"plain": training_step.step_of(*build("attention/softmax"), data, CPU, torch.float32)}
    for method in METHODS:
        model, optimizer = build("attention/softmax")
        repel = partial(Repulsion(model, RepulsionOptions(method, num_data=29000)), 0)
        calls[method] = training_step.step_of(model, optimizer, data, CPU, torch.float32, repel)
    regularised = build("attention/softmax", "losses/disagreement")
    return calls | {"disagreement": training_step.step_of(*regularised, data, CPU, torch.float32)}


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = [*training_step.SIZES, OF_TEXT]
    parser.add_argument("--size", choices=sizes, default=sizes[0], help="model of speech, or of translation")
    parser.add_argument("--utterances", type=int, default=8, help="utterances or sentences of a batch")
    parser.add_argument("--time", type=int, default=250, help="longest one, in frames after subsampling, or in tokens")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of which the median is taken")
    results.add_arguments(parser)
    return results.parsed(parser, argv)


if __name__ == "__main__":
    main()
