"""Compare the cost of head selection with that of plain attention, in one process.

    python benchmarks/head_selection.py                # one attention module, and whole training steps
    python benchmarks/head_selection.py --languages 1  # batches of one language

Prints Markdown tables of ratios to plain attention with H = 4 heads. "all heads" works like the released code: it
computes all P = 8 heads of every sample and then selects. A batch has `--languages` languages, and thus up to as many
different selections. A module computes no statistics, which training does in every tenth batch. measuring.py describes
how time and memory are measured.
"""

import argparse
from collections.abc import Callable, Iterator

import measuring
import modules
import results
import torch
import training_step
from torch import Tensor, nn

from espnet_diverse.attention import MultiHeadAttention, build_attention
from espnet_diverse.attention.selection.head_gather import AllHeads
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.progress import progress
from espnet_diverse.registration import fast_start
from espnet_diverse.scope import scope

POOL = 8
STRATEGIES = ("group", "subset")
CPU = torch.device("cpu")


class _ComputeAll(nn.Module):
    """Wraps an attention with head selection: computes all P heads and then selects."""

    def __init__(self, attention: MultiHeadAttention):
        super().__init__()
        self.attention = attention

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **_) -> Tensor:
        """As in `MultiHeadAttention`: (B, Tq, M), (B, Tk, M) twice, (B, 1 or Tq, Tk) -> (B, Tq, M)."""
        one = self.attention
        q, k, v = AllHeads(POOL).project((one.linear_q, one.linear_k, one.linear_v), (query, key, value))
        heads = nn.functional.scaled_dot_product_attention(q, k, v, None if mask is None else mask.unsqueeze(1))
        chosen = one.selection(len(query))
        picks = chosen.rows(torch.arange(POOL).unsqueeze(-1)).expand(len(query), -1, -1)  # (B, H, 1)
        context = heads.gather(1, picks.unsqueeze(-1).expand(-1, -1, *heads.shape[2:]))
        return one.linear_out(context.transpose(1, 2).flatten(2))


def main(argv: list[str] | None = None) -> None:
    """Measure and print the tables."""
    args = _arguments(argv)
    fast_start()
    rounds = f"ratios of medians of {args.repeats} rounds"
    conditions = measuring.conditions(f"{args.languages} languages a batch; {rounds}", CPU)
    print(*conditions, sep="\n", flush=True)
    cases = progress(_cases(args), "benchmark", len(args.times) + len(args.steps), "comparison")
    rows = (results.Row(table, case, measuring.compare(calls, args.repeats, CPU)) for table, case, calls in cases)
    results.finish(args, conditions, results.show(rows))


def _cases(args: argparse.Namespace) -> Iterator[tuple[str, str, dict[str, Callable[[], None]]]]:
    """Table, case and contestants of each comparison."""
    for time in args.times:
        table = f"One attention module, training forward + backward: width {modules.SIZE}, H {modules.HEADS}, P {POOL}"
        yield table, f"{args.utterances}, {time}", _module_calls(args.utterances, time, _ids(args))
    for size in args.steps:
        table = "A training step: layers of encoder x decoder / width / feed-forward width, T after subsampling"
        case = f"{size}: {args.utterances}, {args.step_time}"
        yield table, case, _step_calls(size, args.utterances, args.step_time, _ids(args))


def _ids(args: argparse.Namespace) -> Tensor:
    return torch.arange(args.utterances) % args.languages


def _selection(strategy: str, languages: int) -> dict:
    names = [f"language{i}" for i in range(languages)]
    return {"strategy": strategy, "pool": POOL, "conditions": {"lang": names, "tgtlang": names}}


def _module_calls(batch: int, time: int, ids: Tensor) -> dict[str, Callable[[], None]]:
    torch.manual_seed(0)
    x = torch.randn(batch, time, modules.SIZE, requires_grad=True)
    gradient = torch.randn_like(x)
    mask = lengths_to_mask(torch.linspace(time, 0.8 * time, batch).round().long(), time).unsqueeze(1)
    size, parts = (modules.SIZE, modules.HEADS), {"plain": build_attention("softmax", modules.SIZE, modules.HEADS)}
    for strategy in STRATEGIES:
        parts[strategy] = build_attention("softmax", *size, selection=_selection(strategy, int(ids.max()) + 1))
    parts["all heads"] = _ComputeAll(parts["group"])
    return {name: _module_call(part, x, mask, gradient, ids) for name, part in parts.items()}


def _module_call(module: nn.Module, x: Tensor, mask: Tensor, gradient: Tensor, ids: Tensor) -> Callable[[], None]:
    def call() -> None:
        with scope({"lang": ids}, statistics=False):
            module(x, x, x, mask).backward(gradient)
        x.grad = None
        module.zero_grad()

    return call


def _step_calls(size: str, batch: int, time: int, ids: Tensor) -> dict[str, Callable[[], None]]:
    data = training_step.batch_of(batch, time)
    conditions = {condition: ids.unsqueeze(1) for condition in ("lang", "tgtlang")}
    built = {"plain": training_step.build(["attention/softmax"], training_step.SIZES[size])}
    names = "[" + ",".join(f"language{i}" for i in range(int(ids.max()) + 1)) + "]"
    filled = [f"{part}_conf.attention.selection.conditions.{condition}={names}" for part, condition in _SIDES.items()]
    for name in (*STRATEGIES, "all heads"):
        strategy = name if name in STRATEGIES else "group"
        built[name] = training_step.build([f"heads/{strategy}"], [*training_step.SIZES[size], *filled])
    _compute_all(built["all heads"][0])
    return {name: training_step.step_of(*part, data | conditions, CPU, torch.float32) for name, part in built.items()}


_SIDES = {"encoder": "lang", "decoder": "tgtlang"}


def _compute_all(model: nn.Module) -> None:
    for layer in (*model.encoder.encoders, *model.decoder.decoders):
        layer.self_attn = _ComputeAll(layer.self_attn)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, nargs="*", default=[50, 200, 400, 1000], metavar="T", help="of a module")
    sizes, standard = training_step.SIZES, training_step.STANDARD
    parser.add_argument("--steps", nargs="*", choices=sizes, default=standard, help="sizes of training steps")
    parser.add_argument("--step_time", type=int, default=250, help="T of a step after subsampling by 4 (250)")
    parser.add_argument("--utterances", type=int, default=8, help="batch size (8)")
    parser.add_argument("--languages", type=int, default=8, help="different languages in a batch (8)")
    parser.add_argument("--repeats", type=int, default=7, help="rounds (7)")
    results.add_arguments(parser)
    return results.parsed(parser, argv)


if __name__ == "__main__":
    main()
