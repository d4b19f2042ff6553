"""Compare training steps of text translation with each attention, and with R-Drop, in one process.

    python benchmarks/text_step.py                       # model/mt_mini
    python benchmarks/text_step.py --model model/mt_base # larger, and slow

Prints the number of floating-point operations of a forward pass in evaluation, and a Markdown table of ratios to a step
with `softmax` in all layers. A step consists of the operations of our trainer for a batch: forward with label-smoothed
cross-entropy and all losses and statistics of the attention modules, backward, gradient clipping, Adam. Sentences are
random tokens, of 0.85 `--time` to `--time` tokens on both sides; those of Multi30k have 17. measuring.py describes how
time is measured.
"""

import argparse

import measuring
import results
import torch
from modules import half_way
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count
from training_step import step_of

from espnet_diverse.registration import fast_start

CONTESTANTS = {"softmax": "attention/softmax", "sma": "attention/sma,losses/sma_text"}
CONTESTANTS["sdma"] = "attention/sdma,losses/sdma_text_half"
CONTESTANTS |= {"best_text": "attention/best_text", "r_drop": "attention/softmax,losses/r_drop"}
CPU = torch.device("cpu")


def main(argv: list[str] | None = None) -> None:
    """Measure and print the table."""
    args = _arguments(argv)
    fast_start()
    measuring.keep_memory(args)
    conditions = measuring.conditions(f"ratios of medians of {args.repeats} rounds", CPU)
    print(*conditions, sep="\n", flush=True)
    models = {name: build(args.model, fragments, args.vocabulary) for name, fragments in CONTESTANTS.items()}
    data = batch_of(args.sentences, args.time, args.vocabulary)
    giga = {name: f"{operations(model, data) / 1e9:.2f}" for name, (model, _) in models.items()}
    print("\nGFLOP of a forward pass:", ", ".join(f"{name} {count}" for name, count in giga.items()), flush=True)
    calls = {name: step_of(*built, data, CPU, torch.float32) for name, built in models.items()}
    measured = measuring.compare(calls, args.repeats, CPU, memory=False)
    row = results.Row("A training step of text translation", f"{args.model}: {args.sentences}, {args.time}", measured)
    results.finish(args, conditions, results.show([row], "model: B, T", memory=False))


def build(model: str, attention: str, vocabulary: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model of translation with one attention everywhere, gamma at 0.5, and its optimizer."""
    from espnet_diverse.attention import set_updates_of_run
    from espnet_diverse.runs.config import merge
    from espnet_diverse.training.loop.tasks import TASKS

    task = TASKS["mt"]
    parser = task.get_parser()
    parser.set_defaults(**merge([model, *attention.split(","), "update/adam_inverse_sqrt_10k"]))
    args = parser.parse_args([])
    args.token_list = args.src_token_list = [f"token{i}" for i in range(vocabulary)]
    torch.manual_seed(0)
    built = task.build_model(args)
    half_way(built)
    set_updates_of_run(built, 10_000)  # of schedules that are a share of a run
    return built, task.build_optimizers(args, built)[0]


def batch_of(sentences: int, time: int, vocabulary: int) -> dict[str, Tensor]:
    """Sentences of 0.85 `time` to `time` random tokens on both sides."""
    torch.manual_seed(0)
    lengths = torch.linspace(time, 0.85 * time, sentences).round().long()
    padding = torch.arange(time) >= lengths.unsqueeze(1)
    sides = (torch.randint(2, vocabulary - 1, (sentences, time)).masked_fill(padding, -1) for _ in range(2))
    target, source = sides
    return {"text": target, "text_lengths": lengths, "src_text": source, "src_text_lengths": lengths}


@torch.no_grad()
def operations(model: nn.Module, data: dict[str, Tensor]) -> int:
    """Floating-point operations of matrix products and attention in a forward pass of evaluation."""
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    fused = {attention: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v)}  # the counter lacks that of a CPU
    model.eval()
    with FlopCounterMode(display=False, custom_mapping=fused) as counter:
        model(**data)
    model.train()
    return counter.get_total_flops()


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="model/mt_mini", help="fragment of the model (model/mt_mini)")
    parser.add_argument("--sentences", type=int, default=80, help="sentences of a batch (80)")
    parser.add_argument("--time", type=int, default=18, help="tokens of the longest sentence (18)")
    parser.add_argument("--vocabulary", type=int, default=6000, help="number of tokens on either side (6000)")
    parser.add_argument("--repeats", type=int, default=11, help="rounds (11)")
    measuring.add_keep_memory(parser)
    results.add_arguments(parser)
    return results.parsed(parser, argv)


if __name__ == "__main__":
    main()
