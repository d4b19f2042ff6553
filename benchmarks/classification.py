"""Compare a training step of the sentence classifier whose heads are kept apart with a plain one, in one process.

    python benchmarks/classification.py                  # --units 300 --heads 30: the size of Lin et al. 2017

Prints a Markdown table of ratios to the plain step. "frobenius" is the loss of pooling weights that are alike; "svgd",
"spos" and "sgld" change the gradients of the heads. The batch has sentences of equal length; measuring.py describes how
time is measured.
"""

import argparse
from collections.abc import Callable
from functools import partial

import measuring
import results
import torch
import training_step
from torch import Tensor

from espnet_diverse.registration import fast_start

METHODS = ("svgd", "spos", "sgld")
CHARACTERS, CLASSES = 100, ["de", "en", "es", "fr"]
CPU = torch.device("cpu")


def main(argv: list[str] | None = None) -> None:
    """Measure and print the table."""
    args = _arguments(argv)
    fast_start()
    conditions = measuring.conditions(f"ratios of medians of {args.repeats} rounds", CPU)
    print(*conditions, sep="\n", flush=True)
    measured = measuring.compare(_calls(args), args.repeats, CPU, memory=False)
    row = results.Row("A training step", f"{args.units}, {args.heads}: {args.sentences}, {args.time}", measured)
    results.finish(args, conditions, results.show([row], column="units, heads: B, T", memory=False))


def _calls(args: argparse.Namespace) -> dict[str, Callable[[], None]]:
    from espnet_diverse.training.repulsion import Repulsion
    from espnet_diverse.training.repulsion_options import RepulsionOptions

    data = _batch(args.sentences, args.time)
    calls = {}
    for name in ("plain", "frobenius", *METHODS):
        model, optimizer = _build(args, frobenius=0.1 if name == "frobenius" else 0.0)
        options = RepulsionOptions(name, num_data=200) if name in METHODS else None
        repel = partial(Repulsion(model, options), 0) if options else lambda: None
        calls[name] = training_step.step_of(model, optimizer, data, CPU, torch.float32, repel)
    return calls


def _build(args: argparse.Namespace, frobenius: float):
    from espnet_diverse.nets.classification.sentence_classifier import SelfAttentiveClassifier
    from espnet_diverse.nets.models import DiverseClassificationModel

    torch.manual_seed(0)
    size = {"embed_dim": args.units, "hidden_size": args.units, "pooling_width": args.units, "heads": args.heads}
    classes = {"by": "lang", "conditions": {"lang": CLASSES}, "linear_units": 2 * args.units}
    net = SelfAttentiveClassifier(CHARACTERS, **classes, **size, frobenius=frobenius)
    model = DiverseClassificationModel(net, balance_interval=0)
    return model, torch.optim.Adam(model.parameters())


def _batch(sentences: int, time: int) -> dict[str, Tensor]:
    torch.manual_seed(0)
    return {
        "text": torch.randint(2, CHARACTERS - 1, (sentences, time)),
        "text_lengths": torch.full((sentences,), time),
        "lang": torch.randint(len(CLASSES), (sentences, 1)),
    }


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=64, help="width of embeddings, keys and each direction")
    parser.add_argument("--heads", type=int, default=10, help="heads of the pooling")
    parser.add_argument("--sentences", type=int, default=16, help="sentences of a batch")
    parser.add_argument("--time", type=int, default=36, help="characters of a sentence")
    parser.add_argument("--repeats", type=int, default=31, help="rounds of which the median is taken")
    results.add_arguments(parser)
    return results.parsed(parser, argv)


if __name__ == "__main__":
    main()
