"""Compare our beam search with ESPnet's, in one process, with the same weights.

    python benchmarks/decoding.py                                # Aishell's size, random weights, 4 and 16 seconds
    python benchmarks/decoding.py --task mt                      # translation of texts of 10 and 30 tokens
    python benchmarks/decoding.py --model_dir DIR --data_dir DIR   # a trained model on a data directory

ESPnet's search is that of asr_inference or mt_inference, with random weights on ESPnet's own encoder and decoder with
`use_sdpa`, with a trained model on the modules of that model; of speech, also `Speech2Text.batch_decode`. Each
contestant reads audio files or texts and returns texts, with beam 10 and, for speech, CTC weight 0.3. The output is the
real-time factor (speech) or the tokens of best hypotheses per second (text), and the speed-up over ESPnet's single
search. measuring.py describes how time is measured.

Random weights are scaled up so that hypotheses differ. Audio consists of random tones, text of random characters.
Because such inputs do not determine where a hypothesis ends, the searches stop at a fixed number of tokens: `--tokens`
per second of speech, or the length of the source text. With a trained model, hypotheses end by themselves.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import measuring
import numpy as np
import results
import torch
from training_step import ESPNET, SDPA

from espnet_diverse.decoding.options import PRECISIONS
from espnet_diverse.registration import fast_start

RATE, CHARACTERS = 16_000, 4233
CONFIGS = {"asr": "model/transformer_6x6", "mt": "model/mt_tiny"}
LENGTHS = {"asr": [4, 16], "mt": [10, 30]}
_ESPNET_MODELS = {"asr": "espnet", "mt": "mt"}
LARGE = ["encoder_conf.num_blocks=12", "encoder_conf.linear_units=2048", "decoder_conf.linear_units=2048"]


@dataclass
class Contestant:
    """A search and its measurements.

    Attributes:
        search: The search.
        batch_size: Number of utterances of a batch.
        entries: Entries of wav.scp or src_text to decode.
        found: Best (text, score) of each utterance of the last call.
        amount: Seconds of audio, or tokens of translations, of the last call.
    """

    search: object
    batch_size: int
    entries: Sequence[str]
    found: list[tuple[str, float]] = field(default_factory=list)
    amount: float = 0.0

    def __call__(self) -> None:
        """Decode all entries."""
        self.found, self.amount = [], 0.0
        for start in range(0, len(self.entries), self.batch_size):
            read = [self.search.read(entry) for entry in self.entries[start : start + self.batch_size]]
            conditions = [dict.fromkeys(self.search.conditions.names, 0)] * len(read)
            results = self.search.batch([source for source, _ in read], conditions)
            self.found += [(best[0].text, best[0].score) if best else ("", 0.0) for best in results]
            self.amount += sum(seconds for _, seconds in read) or sum(len(best[0].tokens) for best in results if best)


class EspnetBatches:
    """ESPnet's search of several utterances at once, `Speech2Text.batch_decode`.

    Args:
        search: ESPnet's search, as `load_search` gives it.
    """

    def __init__(self, search):
        self.speech2text, self.read, self.conditions = search.speech2text, search.read, search.conditions

    def batch(self, sources: Sequence[np.ndarray], conditions: Sequence[dict]) -> list[list]:
        """The n-best texts of each utterance, best first."""
        from espnet_diverse.decoding.encoder.quiet import quiet
        from espnet_diverse.decoding.prediction import Text

        with quiet():
            found = self.speech2text.batch_decode(list(sources))
        return [[Text(text, tokens, float(hyp.score)) for text, tokens, _, hyp in best] for best in found]


def main(argv: list[str] | None = None) -> None:
    """Measure, and print the table."""
    args = _arguments(argv)
    fast_start()
    measuring.keep_memory(args)
    device = torch.device(args.device)
    conditions = measuring.conditions(f"medians of {args.repeats} rounds", device)
    print(*conditions, "", sep="\n")
    names = [_espnet_name(size) for size in args.espnet_batches]
    names += [_name(size, precision) for precision in args.precisions for size in args.batches]
    measure = "tokens a second" if args.task == "mt" else "RTF"
    print(f"| utterances | ESPnet {measure} |", " | ".join(names), "| same best | scores differ by |", flush=True)
    print("|---" * (len(names) + 4) + "|")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        cases = _trained(args) if args.model_dir else _random(args, Path(folder))
        for name, build in cases:
            contestants = build()
            measured = measuring.compare(contestants, args.repeats, device, memory=False)
            results.check_memory(measured, "smaller --batches")
            for key, one in contestants.items():
                measured[key].amount = one.amount
            rows.append(results.Row(f"Decoding, {args.task}", name, measured))
            print(_line(name, contestants, measured, args.task), flush=True)
    results.finish(args, conditions, rows)


def _line(name: str, contestants: dict[str, Contestant], measured: dict[str, measuring.Measured], task: str) -> str:
    theirs, *ours = [one.cost for one in measured.values()]
    espnet, *others = contestants.values()
    pairs = [pair for other in others for pair in zip(espnet.found, other.found, strict=False)]
    same = [(a, b) for (text, a), (other, b) in pairs if text == other]
    differ = max((abs(a - b) for a, b in same), default=0.0)

    def shown(cost: float) -> str:
        return f"{1 / cost:.0f}" if task == "mt" else f"{cost:.3f}"

    cells = [name, shown(theirs), *(f"{shown(one)} ({theirs / one:.1f} x)" for one in ours)]
    return f"| {' | '.join(cells)} | {len(same)}/{len(pairs)} | {differ:.0e} |"


def _contestants(
    args: argparse.Namespace, theirs: Path, ours: Path, entries: Sequence[str], **options
) -> dict[str, Contestant]:
    # Imported here, so that `--help` does not wait for ESPnet.
    from espnet_diverse.decoding.espnet.espnet_search import load_search
    from espnet_diverse.decoding.options import SearchOptions
    from espnet_diverse.decoding.predictor import load_predictor

    options |= {"beam_size": args.beam_size, "ctc_weight": args.ctc_weight if args.task == "asr" else None}
    espnet = load_search(theirs, options=SearchOptions(**options), device=args.device)
    found = {"espnet": Contestant(espnet, 1, entries[: args.espnet_utterances])}
    found |= {_espnet_name(size): Contestant(EspnetBatches(espnet), size, entries) for size in args.espnet_batches}
    for precision in args.precisions:
        search = load_predictor(ours, options=SearchOptions(**options), device=args.device, precision=precision)
        found |= {_name(size, precision): Contestant(search, size, entries) for size in args.batches}
    return found


def _espnet_name(batch_size: int) -> str:
    return f"ESPnet batch {batch_size}"


def _name(batch_size: int, precision: str) -> str:
    size = f"batch {batch_size}" if batch_size > 1 else "single"
    return size if precision == "float32" else f"{size} {precision}"


def _trained(args: argparse.Namespace) -> list[tuple[str, Callable[[], dict[str, Contestant]]]]:
    from espnet_diverse.data.tables import read_table

    table = "src_text" if args.task == "mt" else "wav.scp"
    entries = list(read_table(args.data_dir / table).values())[: args.utterances]
    return [(f"{len(entries)} of {args.data_dir}", lambda: _contestants(args, args.model_dir, args.model_dir, entries))]


def _random(args: argparse.Namespace, folder: Path) -> list[tuple[str, Callable[[], dict[str, Contestant]]]]:
    options = _save_config(args, folder / "espnet")
    _save_config(args, folder / "ours")
    model = _build(args, options)
    for name in ("espnet", "ours"):
        torch.save(model.state_dict(), folder / name / "valid.acc.ave.pth")
    encoder, decoder = options.encoder_conf, options.decoder_conf
    layers = f"{encoder['num_blocks']}x{decoder.get('num_blocks', 6)}"
    size = f"{layers}/{encoder['output_size']}/{encoder['linear_units']}"
    ratio = 1.0 if args.task == "mt" else args.tokens * _frame_seconds(model)

    def case(length: float) -> dict[str, Contestant]:
        source = _characters if args.task == "mt" else _tones
        entries = [source(folder / f"{length}-{row}.wav", length, row, args) for row in range(args.utterances)]
        return _contestants(args, folder / "espnet", folder / "ours", entries, maxlenratio=ratio)

    unit = "tokens" if args.task == "mt" else "s"
    return [(f"{size}, {length:g} {unit}", lambda length=length: case(length)) for length in args.lengths]


def _save_config(args: argparse.Namespace, folder: Path) -> argparse.Namespace:
    """Write and return the configuration of a model of ESPnet, or of ours with the same parameters."""
    from espnet2.utils.yaml_no_alias_safe_dump import yaml_no_alias_safe_dump

    from espnet_diverse.runs.config import merge
    from espnet_diverse.runs.tasks import TASKS

    if folder.name == "espnet":
        parts = [*ESPNET, *SDPA, f"model={_ESPNET_MODELS[args.task]}"]
    else:
        parts = ["encoder=diverse_transformer", "decoder=diverse_transformer", "model=diverse"]
    parts.append("token_type=char")
    parts += ["src_token_type=char"] if args.task == "mt" else ["normalize=utterance_mvn"]
    sizes = args.set or LARGE * (args.config == CONFIGS["asr"])
    parser = TASKS[args.task].get_parser()
    parser.set_defaults(**merge([args.config], [*sizes, *parts]))
    options = parser.parse_args([])
    options.token_list = ["<blank>", "<unk>", *map(_character, range(args.characters - 3)), "<sos/eos>"]
    if args.task == "mt":
        options.src_token_list = options.token_list
    folder.mkdir()
    text = yaml_no_alias_safe_dump(vars(options), indent=1, sort_keys=False)
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    return options


def _build(args: argparse.Namespace, options: argparse.Namespace) -> torch.nn.Module:
    from espnet_diverse.runs.tasks import TASKS

    torch.manual_seed(0)
    model = TASKS[args.task].build_model(options)
    _sharpen(model)
    return model.eval()


def _frame_seconds(model: torch.nn.Module) -> float:
    """Seconds of a frame of the encoder."""
    return 10 / float(model.encode(torch.zeros(1, 10 * RATE), torch.tensor([10 * RATE]))[1])


def _sharpen(model: torch.nn.Module) -> None:
    for parameter in model.decoder.parameters():
        if parameter.dim() > 1:
            parameter.data *= 1.5
    if hasattr(model, "ctc"):
        model.ctc.ctc_lo.weight.data *= 6
        model.ctc.ctc_lo.bias.data[0] += 3
    else:  # with tied embeddings, <sos/eos> would follow itself
        model.decoder.output_layer.bias.data[model.eos] = -100


def _character(index: int) -> str:
    return chr(0x4E00 + index)


def _characters(_: Path, count: float, seed: int, args: argparse.Namespace) -> str:
    """A text of about `count` random characters."""
    random = np.random.default_rng(seed)
    count = round(count * random.uniform(0.9, 1.0))
    return "".join(map(_character, random.integers(0, args.characters - 3, count)))


def _tones(path: Path, seconds: float, seed: int, _: argparse.Namespace) -> str:
    """Write about `seconds` of random tones, four per second, and return the path."""
    import soundfile

    random = np.random.default_rng(seed)
    count = round(4 * seconds * random.uniform(0.9, 1.0))
    time = np.arange(RATE // 4) / RATE
    tones = [np.sin(2 * np.pi * frequency * time) for frequency in random.uniform(100, 4000, count)]
    soundfile.write(path, 0.3 * np.concatenate(tones) + 0.02 * random.standard_normal(count * RATE // 4), RATE)
    return str(path)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=("asr", "mt"), default="asr", help="speech recognition or text translation")
    parser.add_argument("--model_dir", type=Path, help="a trained model of the task, in place of random weights")
    parser.add_argument("--data_dir", type=Path, help="data directory that the trained model decodes")
    default = ", ".join(CONFIGS.values())
    parser.add_argument("--config", help=f"fragment of the model with random weights (by task: {default})")
    parser.add_argument(
        "--set", action="append", help="change a value of the configuration (default for asr: 12 layers, 2048 units)"
    )
    parser.add_argument("--characters", type=int, default=CHARACTERS, help=f"size of the vocabulary ({CHARACTERS})")
    unit = "seconds of its utterances (4 16), or tokens of its source texts (10 30)"
    parser.add_argument("--lengths", type=float, nargs="*", help=unit)
    parser.add_argument("--tokens", type=float, default=4, help="tokens of a hypothesis per second of speech (4)")
    parser.add_argument("--utterances", type=int, default=16, help="number of utterances for ours (16)")
    parser.add_argument(
        "--espnet_utterances", type=int, default=4, help="number of utterances for ESPnet, the first ones (4)"
    )
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8, 16], help="batch sizes of ours (1 8 16)")
    espnet_batches = "batch sizes of ESPnet beside its single search; speech only (8, none for mt)"
    parser.add_argument("--espnet_batches", type=int, nargs="*", help=espnet_batches)
    linear = "of the linear layers of ours (float32)"
    parser.add_argument("--precisions", nargs="*", default=["float32"], choices=PRECISIONS, help=linear)
    parser.add_argument("--beam_size", type=int, default=10, help="hypotheses in a beam (10)")
    parser.add_argument("--ctc_weight", type=float, default=0.3, help="weight of the CTC score (0.3)")
    parser.add_argument("--repeats", type=int, default=3, help="rounds (3)")
    measuring.add_keep_memory(parser)
    results.add_arguments(parser, devices=True)
    args = results.parsed(parser, argv)
    if (args.model_dir is None) != (args.data_dir is None):
        parser.error("--model_dir and --data_dir go together")
    if args.espnet_batches is None:
        args.espnet_batches = [8] if args.task == "asr" else []
    if args.espnet_batches and args.task == "mt":
        parser.error("ESPnet translates one text at a time; leave out --espnet_batches")
    args.config, args.lengths = args.config or CONFIGS[args.task], args.lengths or LENGTHS[args.task]
    return args


if __name__ == "__main__":
    main()
