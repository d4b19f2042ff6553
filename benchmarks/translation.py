"""Compare training of text translation in target tokens per second, by ESPnet's `mt_train` and by ours, in one process.

    python benchmarks/translation.py                                   # random sentences as long as those of Multi30k
    espnet-diverse stats --task mt --config model/mt_tiny,attention/softmax ... --output_dir STATS
    python benchmarks/translation.py --train_dir DATA/train --tokens_dir DATA/tokens --stats_dir STATS

Every contestant trains the same model on the same data with an epoch of its trainer: batches of its own type, read and
tokenised from the data directory; forward, backward, gradient clipping, Adam, statistics.

    espnet folded    ESPnet's model with `use_sdpa`, its trainer and default batches: `batch_type: folded`, 20 sentences
    espnet numel     the same with `batch_type: numel`, as in its recipe egs2/iwslt14/mt1, and as many tokens as ours
    ours             our model with softmax, our trainer, and `batch_type: tokens`
    ours, use_amp    the same in bfloat16, with --use_amp; on a GPU, where ESPnet's `use_amp` has an effect, also numel

A round is a sample of an epoch: every n-th of the batches sorted by length. Target tokens are counted without padding
and include the end of each sentence; the share of padding is that of source and target together. The ratio compares
target tokens per second with those of "espnet numel".
"""

import argparse
import copy
import sys
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import measuring
import numpy as np
import results
import torch
from torch import nn
from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.profiler import ProfilerActivity, profile

from espnet_diverse.registration import fast_start

EPOCH = 1
#: Beginnings of the names of operations.
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "mkldnn::_linear", "aten::_scaled_dot_product")


def main(argv: list[str] | None = None) -> None:
    """Measure and print a table."""
    args = arguments(argv)
    fast_start()
    measuring.keep_memory(args)
    device = torch.device(args.device)
    conditions = measuring.conditions(f"medians of {args.repeats} rounds", device, args.threads)
    print(*conditions, "", sep="\n", flush=True)
    with TemporaryDirectory() as folder:
        if not args.train_dir:
            random_data(Path(folder), args)
        built = {name: contestant(name, args) for name in names(args)}
        calls = {name: call for name, (call, *_) in built.items()}
        found = measuring.compare(calls, args.repeats, device, args.memory)
    results.check_memory(found, "a smaller --batch_tokens")
    for name, (_, tokens, *_) in built.items():
        found[name].amount = tokens
    print("| contestant | batches | target tokens | padding % | target tokens a second | ratio | peak MB |")
    print("|---|---|---|---|---|---|---|")
    for name, measured in found.items():
        _, tokens, padding, batches = built[name]
        speed = f"{1 / measured.cost:.0f} | {results.over(found['espnet numel'].cost, measured.cost)}"
        peak = f"{measured.peak / 1e6:.0f}" if args.memory else "-"
        print(f"| {name} | {batches} | {tokens} | {100 * padding:.1f} | {speed} | {peak} |")
    if args.products:
        shares = ", ".join(f"{name} {100 * products(call):.0f} %" for name, call in calls.items())
        print(f"\nProducts of matrices and attention, share of a round: {shares}")
    base = {"espnet numel": found.pop("espnet numel")}
    results.finish(args, conditions, [results.Row("Training of text translation", args.config, base | found)])


def products(call: Callable[[], None]) -> float:
    """Share of the time of `call` in products of matrices and fused attention, without which there is no step."""
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiled:
        call()
    seconds = {event.key: event.self_cpu_time_total for event in profiled.key_averages()}
    return sum(own for name, own in seconds.items() if name.startswith(PRODUCTS)) / sum(seconds.values())


def random_data(folder: Path, args: argparse.Namespace) -> None:
    """Write random sentences to `folder`, with their vocabulary and statistics, and set the options that name them.

    The lengths are distributed as those of Multi30k in 10,000 subwords: 5 to 40 tokens, 15 on average, of source and
    target about the same. A token is a character.
    """
    from espnet_diverse.bin.main import main as command
    from espnet_diverse.text.vocabulary import Vocabulary

    random = np.random.default_rng(0)
    characters = [chr(0x4E00 + index) for index in range(args.characters)]
    args.train_dir, args.tokens_dir, args.stats_dir = (folder / name for name in ("train", "tokens", "stats"))
    args.train_dir.mkdir()
    lengths = random.lognormal(np.log(14), 0.35, args.sentences)
    for side in ("text", "src_text"):
        counts = (lengths * random.lognormal(0, 0.12, args.sentences)).round().clip(5, 40).astype(int)
        rows = ("".join(random.choice(characters, count)) for count in counts)
        lines = [f"random-{number:07d} {row}\n" for number, row in enumerate(rows)]
        (args.train_dir / side).write_text("".join(lines), encoding="utf-8")
    Vocabulary.train(characters, "char").save(args.tokens_dir)
    words = ["stats", "--task", "mt", "--config", args.config, "--tokens_dir", args.tokens_dir]
    words += ["--train_dir", args.train_dir, "--valid_dir", args.train_dir, "--output_dir", args.stats_dir]
    with redirect_stdout(sys.stderr):  # which is not part of the table
        if command([str(word) for word in words]):
            raise SystemExit(1)


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="model/mt_tiny,attention/softmax,update/adam_inverse_sqrt_10k")
    for name in ("train_dir", "tokens_dir", "stats_dir"):
        parser.add_argument(f"--{name}", type=Path, help="all three of a corpus (default: random sentences)")
    parser.add_argument("--src_tokens_dir", type=Path, help="default: tokens_dir")
    parser.add_argument("--sentences", type=int, default=29_000, help="number of random sentences (29000)")
    parser.add_argument("--characters", type=int, default=8_000, help="size of their vocabulary (8000)")
    parser.add_argument("--batch_tokens", type=int, default=4096, help="tokens of a batch (default: 4096)")
    parser.add_argument(
        "--tokens", type=int, default=12000, help="approximate number of target tokens of a round (default: 12000)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--use_amp", action="store_true", help="measure also with use_amp, in bfloat16")
    measuring.add_keep_memory(parser)
    parser.add_argument("--products", action="store_true", help="print the share of time in products of matrices too")
    parser.add_argument("--memory", action="store_true", help="measure peak memory too, which is slow on a CPU")
    results.add_arguments(parser, devices=True)
    args = results.parsed(parser, argv)
    if len({one is None for one in (args.train_dir, args.tokens_dir, args.stats_dir)}) == 2:
        parser.error("--train_dir, --tokens_dir and --stats_dir go together")
    if args.products and args.device != "cpu":
        parser.error("--products measures operations of a CPU; leave out --device")
    return args


def names(args: argparse.Namespace) -> list[str]:
    """The contestants."""
    half = ["espnet numel, use_amp"] * (args.device == "cuda") + ["ours, use_amp"]
    return ["espnet folded", "espnet numel", "ours", *(half if args.use_amp else [])]


def contestant(name: str, args: argparse.Namespace) -> tuple:
    """A function that runs a round, its number of target tokens, its share of padding and its number of batches."""
    from espnet2.tasks.mt import MTTask
    from espnet2.train.distributed_utils import DistributedOption

    from espnet_diverse.training.loop.tasks import TASKS

    kind, _, use_amp = name.partition(", ")
    task = TASKS["mt"] if kind == "ours" else MTTask
    parser = task.get_parser()
    parser.set_defaults(**configuration(kind, args), use_amp=bool(use_amp))
    options = parser.parse_args([])
    torch.manual_seed(0)
    model = task.build_model(options).to(args.device)
    optimizer = task.build_optimizers(options, model)[0]
    factory = task.build_iter_factory(options, DistributedOption(), "train")
    target, source = (lengths_of(args.stats_dir / "train" / f"{side}_shape") for side in ("text", "src_text"))
    ids = getattr(factory.dataset, "ids", None)  # of the rows that our batches consist of

    def names(batch) -> list[str]:
        return list(batch) if ids is None else [ids.key(int(row)) for row in batch]

    epoch = sorted(factory.sampler.batches, key=lambda batch: max(target[name] for name in names(batch)))
    every = max(1, round(sum(target.values()) / args.tokens))
    batches = factory.sampler.batches = epoch[every // 2 :: every]
    sides = [[[lengths[name] for name in names(batch)] for batch in batches] for lengths in (target, source)]
    tokens, _ = counts = [sum(map(sum, side)) for side in sides]
    padded = sum(len(batch) * max(batch) for side in sides for batch in side)
    return round_of(task, options, model, optimizer, factory), tokens, 1 - sum(counts) / padded, len(batches)


def lengths_of(shape_file: Path) -> dict[str, int]:
    """Number of tokens of each sentence including its end, by name."""
    rows = (line.split() for line in shape_file.read_text(encoding="utf-8").splitlines())
    return {name: int(count) + 1 for name, count in rows}


def configuration(name: str, args: argparse.Namespace) -> dict:
    """Arguments of ESPnet's training command."""
    from espnet_diverse.runs.config import merge
    from espnet_diverse.text.vocabulary import Vocabulary

    config = copy.deepcopy(dict(merge(args.config.split(","))))
    if name != "ours":
        for part in ("encoder", "decoder"):
            config[part] = config[part].removeprefix("diverse_")
            for key in ("attention", "cross_attention"):
                config[f"{part}_conf"].pop(key, None)
            config[f"{part}_conf"]["use_sdpa"] = True
        config["model"] = "mt"
    folders = {"": args.tokens_dir, "src_": args.src_tokens_dir or args.tokens_dir}
    sizes = []
    for key, folder in folders.items():
        vocabulary = Vocabulary.load(folder)
        sizes.append(len(vocabulary))
        config |= {f"{key}token_list": list(vocabulary.tokens), f"{key}token_type": vocabulary.token_type}
        config[f"{key}bpemodel"] = str(folder / "bpe.model") if vocabulary.model else None
    texts = ("text", "src_text")
    config["train_data_path_and_name_and_type"] = [(str(args.train_dir / text), text, "text") for text in texts]
    kinds = (config["token_type"], config["src_token_type"])
    shapes = [args.stats_dir / "train" / f"{text}_shape.{kind}" for text, kind in zip(texts, kinds, strict=True)]
    batches = {
        "espnet folded": {"batch_type": "folded", "batch_size": 20, "fold_length": [150, 150]},
        "espnet numel": {"batch_type": "numel", "batch_bins": args.batch_tokens * sum(sizes)},
        "ours": {"batch_type": "tokens", "batch_bins": args.batch_tokens},
    }
    config |= {"ngpu": int(args.device == "cuda"), "num_workers": 0}
    return config | batches[name] | {"train_shape_file": list(map(str, shapes))}


def round_of(task: type, options: argparse.Namespace, model: nn.Module, optimizer: Optimizer, factory) -> Callable:
    """A function that runs an epoch of the task's trainer on all batches of `factory`."""
    from espnet2.tasks.mt import MTTask
    from espnet2.train.distributed_utils import DistributedOption
    from espnet2.train.reporter import Reporter

    from espnet_diverse.training.loop.precision import mixed_precision
    from espnet_diverse.training.loop.trainer import Loop

    parts = {"optimizers": [optimizer], "schedulers": [None]}
    options.output_dir = gettempdir()  # of a list of batches that are not finite
    trainer_options = task.trainer.build_options(options)

    def ours() -> None:
        half = mixed_precision(model, "cuda" if options.ngpu else "cpu") if options.use_amp else nullcontext()
        with Reporter(EPOCH).observe("train") as reporter, half:
            loop.train_epoch(factory.build_iter(EPOCH, shuffle=False), reporter)

    def espnets() -> None:
        more = {"scaler": GradScaler() if options.use_amp else None, "summary_writer": None}
        more |= {"options": trainer_options, "distributed_option": DistributedOption()}
        batches = factory.build_iter(EPOCH, shuffle=False)
        with Reporter(EPOCH).observe("train") as reporter:
            task.trainer.train_one_epoch(model=model, iterator=batches, reporter=reporter, **parts, **more)

    if task is MTTask:
        return espnets
    loop = Loop(model, **parts, options=trainer_options)
    return ours


if __name__ == "__main__":
    main()
