"""Compare our beam search with ESPnet's, in one process, with the same weights.

    python benchmarks/decoding.py                                # Aishell's size, random weights, 4 and 16 seconds
    python benchmarks/decoding.py --model_dir DIR --data_dir DIR   # a trained model on a data directory

ESPnet's is what its asr_inference does: with random weights on its own encoder and decoder, with a trained model on the
parts of that model. Each contestant reads audio files and returns texts, by beam 10 with CTC weight 0.3. Prints
real-time factors, and how many times as fast ours is. How time is measured stands at the top of measuring.py.

Random weights are enlarged so that hypotheses differ, and audio is made of random tones; as nothing then says where a
text ends, searches stop at a fixed number of tokens, `--tokens` a second. A trained model ends as it likes.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import measuring
import numpy as np
import torch

CPU = torch.device("cpu")
RATE, CHARACTERS = 16_000, 4233
LARGE = ["encoder_conf.num_blocks=12", "encoder_conf.linear_units=2048", "decoder_conf.linear_units=2048"]


@dataclass
class Contestant:
    """A search, how many utterances it takes at a time, the entries of wav.scp that it decodes, what it found last,
    (text, score) each, and in how many seconds of audio."""

    search: object
    batch_size: int
    entries: Sequence[str]
    found: list[tuple[str, float]] = field(default_factory=list)
    seconds: float = 0.0

    def __call__(self) -> None:
        """Decode everything."""
        self.found, self.seconds = [], 0.0
        for start in range(0, len(self.entries), self.batch_size):
            read = [self.search.read(entry) for entry in self.entries[start : start + self.batch_size]]
            tasks = [dict.fromkeys(self.search.tasks.names, 0)] * len(read)
            results = self.search.batch([source for source, _ in read], tasks)
            self.found += [(best[0].text, best[0].score) if best else ("", 0.0) for best in results]
            self.seconds += sum(seconds for _, seconds in read)


def main(argv: list[str] | None = None) -> None:
    """Measure, and print the table."""
    args = _arguments(argv)
    torch.set_num_threads(1)
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
    clock = f"{measuring.clock_name(CPU)}, medians of {args.repeats} rounds"
    print(f"torch {torch.__version__}, espnet {version('espnet')}, one CPU thread, float32, {load}; {clock}\n")
    names = [f"batch {size}" if size > 1 else "single" for size in args.batches]
    print("| utterances | ESPnet RTF |", " | ".join(names), "| same best | scores differ by |", flush=True)
    print("|---" * (len(names) + 4) + "|")
    with tempfile.TemporaryDirectory() as folder:
        cases = _trained(args) if args.model_dir else _random(args, Path(folder))
        for name, build in cases:
            contestants = build()
            measured = measuring.compare(contestants, args.repeats, CPU, memory=False)
            print(_line(name, contestants, measured), flush=True)


def _line(name: str, contestants: dict[str, Contestant], measured: dict[str, measuring.Measured]) -> str:
    theirs, *ours = [measured[key].median / one.seconds for key, one in contestants.items()]
    espnet, *others = contestants.values()
    pairs = [pair for other in others for pair in zip(espnet.found, other.found, strict=False)]
    same = [(a, b) for (text, a), (other, b) in pairs if text == other]
    differ = max((abs(a - b) for a, b in same), default=0.0)
    cells = [name, f"{theirs:.3f}", *(f"{one:.3f} ({theirs / one:.1f} x)" for one in ours)]
    return f"| {' | '.join(cells)} | {len(same)}/{len(pairs)} | {differ:.0e} |"


def _contestants(
    args: argparse.Namespace, theirs: Path, ours: Path, entries: Sequence[str], **options
) -> dict[str, Contestant]:
    # Here, so that `--help` need not wait for ESPnet.
    from espnet_diverse.decoding.batched_search import load_batched_search
    from espnet_diverse.decoding.espnet_search import load_search
    from espnet_diverse.decoding.options import Options

    options |= {"beam_size": args.beam_size, "ctc_weight": args.ctc_weight}
    espnet = load_search(theirs, options=Options(**options))
    search = load_batched_search(ours, options=Options(**options))
    found = {"espnet": Contestant(espnet, 1, entries[: args.espnet_utterances])}
    return found | {f"batch {size}": Contestant(search, size, entries) for size in args.batches}


def _trained(args: argparse.Namespace) -> list[tuple[str, Callable[[], dict[str, Contestant]]]]:
    from espnet_diverse.corpora.tables import read_table

    entries = list(read_table(args.data_dir / "wav.scp").values())[: args.utterances]
    return [(f"{len(entries)} of {args.data_dir}", lambda: _contestants(args, args.model_dir, args.model_dir, entries))]


def _random(args: argparse.Namespace, folder: Path) -> list[tuple[str, Callable[[], dict[str, Contestant]]]]:
    model, shift = _save_model(args, folder)

    def case(seconds: float) -> dict[str, Contestant]:
        entries = [str(_tones(folder / f"{seconds}-{row}.wav", seconds, row)) for row in range(args.utterances)]
        ratio = args.tokens * shift
        return _contestants(args, folder / "espnet", folder / "ours", entries, maxlenratio=ratio)

    return [(f"{model}, {seconds:g} s", lambda seconds=seconds: case(seconds)) for seconds in args.seconds]


def _save_model(args: argparse.Namespace, folder: Path) -> tuple[str, float]:
    """Save random weights, with ESPnet's names of the parts and with ours; the model's size, and seconds a frame."""
    from espnet2.utils.yaml_no_alias_safe_dump import yaml_no_alias_safe_dump

    from espnet_diverse.training.config import merge
    from espnet_diverse.training.tasks import ASRTask

    weights = None
    for name, prefix in (("espnet", ""), ("ours", "diverse_")):
        parts = [f"encoder={prefix}transformer", f"decoder={prefix}transformer"]
        parts += [f"model={'diverse' if prefix else 'espnet'}", "token_type=char", "normalize=utterance_mvn"]
        parser = ASRTask.get_parser()
        sizes = args.set or LARGE * (args.config == "model/transformer_6x6")
        parser.set_defaults(**merge([args.config], [*sizes, *parts]))
        options = parser.parse_args([])
        characters = [chr(0x4E00 + i) for i in range(args.characters - 3)]
        options.token_list = ["<blank>", "<unk>", *characters, "<sos/eos>"]
        torch.manual_seed(0)
        model = ASRTask.build_model(options)
        if weights is None:
            _sharpen(model)
            weights = model.state_dict()
        (folder / name).mkdir()
        torch.save(weights, folder / name / "valid.acc.ave.pth")
        text = yaml_no_alias_safe_dump(vars(options), indent=1, sort_keys=False)
        (folder / name / "config.yaml").write_text(text, encoding="utf-8")
    encoder, decoder = options.encoder_conf, options.decoder_conf
    size = f"{encoder['num_blocks']}x{decoder.get('num_blocks', 6)}/{encoder['output_size']}/{encoder['linear_units']}"
    frame = model.eval().encode(torch.zeros(1, 10 * RATE), torch.tensor([10 * RATE]))[1]
    return size, 10 / float(frame)


def _sharpen(model: torch.nn.Module) -> None:
    for parameter in model.decoder.parameters():
        if parameter.dim() > 1:
            parameter.data *= 1.5
    model.ctc.ctc_lo.weight.data *= 6
    model.ctc.ctc_lo.bias.data[0] += 3


def _tones(path: Path, seconds: float, seed: int) -> Path:
    """Write about so many seconds of random tones, four a second."""
    import soundfile

    random = np.random.default_rng(seed)
    count = round(4 * seconds * random.uniform(0.9, 1.0))
    time = np.arange(RATE // 4) / RATE
    tones = [np.sin(2 * np.pi * frequency * time) for frequency in random.uniform(100, 4000, count)]
    soundfile.write(path, 0.3 * np.concatenate(tones) + 0.02 * random.standard_normal(count * RATE // 4), RATE)
    return path


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model_dir", type=Path, help="a trained model of speech recognition, in place of random weights"
    )
    parser.add_argument("--data_dir", type=Path, help="data directory that the trained model decodes")
    parser.add_argument("--config", default="model/transformer_6x6", help="fragment of the model with random weights")
    parser.add_argument("--set", action="append", help="change a value of it (default: 12 layers, 2048 units)")
    parser.add_argument("--characters", type=int, default=CHARACTERS, help=f"size of its vocabulary ({CHARACTERS})")
    parser.add_argument("--seconds", type=float, nargs="*", default=[4, 16], help="lengths of its utterances (4 16)")
    parser.add_argument("--tokens", type=float, default=4, help="tokens a second that it writes (4)")
    parser.add_argument("--utterances", type=int, default=16, help="utterances that ours decodes (16)")
    parser.add_argument("--espnet_utterances", type=int, default=4, help="and ESPnet, the first of them (4)")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8, 16], help="batch sizes of ours (1 8 16)")
    parser.add_argument("--beam_size", type=int, default=10, help="hypotheses in a beam (10)")
    parser.add_argument("--ctc_weight", type=float, default=0.3, help="share of the CTC score (0.3)")
    parser.add_argument("--repeats", type=int, default=3, help="rounds (3)")
    args = parser.parse_args(argv)
    if (args.model_dir is None) != (args.data_dir is None):
        parser.error("--model_dir and --data_dir go together")
    return args


if __name__ == "__main__":
    main()
