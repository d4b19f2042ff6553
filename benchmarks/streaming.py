"""Compare streaming with ESPnet's `Speech2TextStreaming`, in one process, with the same weights.

    python benchmarks/streaming.py --model_dir DIR --data_dir DIR

Each utterance of the data directory is given to each contestant in parts of `--chunk` seconds, as if it were spoken:
part i can be heard from its end on, and a contestant that is still busy then hears it later. Time is the CPU time of
the process, with one thread. The contestants take turns on each utterance.

The first column is the time from the beginning of the utterance to its first text, the second from its end to its final
text, both as medians and 95th percentiles; the third the real-time factor. The others count the utterances whose final
text equals that of ESPnet's class for the whole utterance, as it is and without detection of repetitions; that of our
search of the recording, which `transcribe` and `decode` use; and the reference.

    ESPnet            Speech2TextStreaming as asr_inference_streaming makes it
    no repetitions    the same without detection of repetitions
    blockwise         ours with search=espnet: the blockwise search to the end
    ours              the blockwise search for partial results, and our search of the whole utterance at its end
"""

import argparse
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from espnet_diverse.registration import fast_start


@dataclass
class Contestant:
    """A recogniser and its measurements.

    Attributes:
        hear: Takes samples (L,) and whether they are the last ones; returns the text so far.
        first: Seconds from the beginning of each utterance to its first text.
        final: Seconds from the end of each utterance to its final text.
        busy: Seconds of computation.
        texts: Final texts.
    """

    hear: Callable[[np.ndarray, bool], str]
    first: list[float] = field(default_factory=list)
    final: list[float] = field(default_factory=list)
    busy: float = 0.0
    texts: list[str] = field(default_factory=list)

    def __call__(self, samples: np.ndarray, rate: int, chunk: float) -> None:
        """Hear an utterance as if it were spoken."""
        clock, first, text, size = 0.0, None, "", round(chunk * rate)
        for start in range(0, len(samples), size):
            part = samples[start : start + size]
            begin = time.process_time()
            text = self.hear(part, start + size >= len(samples))
            took = time.process_time() - begin
            clock = max(clock, (start + len(part)) / rate) + took
            self.busy += took
            first = clock if first is None and text else first
        self.first.append(clock if first is None else first)
        self.final.append(clock - len(samples) / rate)
        self.texts.append(text)


def main(argv: list[str] | None = None) -> None:
    """Measure, and print the table."""
    args = _arguments(argv)
    fast_start()
    torch.set_num_threads(1)
    logging.getLogger().setLevel(logging.ERROR)  # ESPnet warns at each block
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
    print(f"torch {torch.__version__}, espnet {version('espnet')}, one CPU thread, float32, {load}; CPU time\n")
    from espnet_diverse.audio.reading import read_at
    from espnet_diverse.data.tables import read_table

    files = list(read_table(args.data_dir / "wav.scp").items())[: args.utterances]
    references = read_table(args.data_dir / "text")
    contestants, wholes, rate = _load(args)
    seconds, expected = 0.0, {name: [] for name in wholes}
    for turn, (_, path) in enumerate(files):
        samples, duration = read_at(Path(path), rate)
        seconds += duration
        order = list(contestants.values())
        for contestant in order[turn % len(order) :] + order[: turn % len(order)]:
            contestant(samples, rate, args.chunk)
        for name, whole in wholes.items():
            expected[name].append(whole(samples, True))
    texts = ["".join(references[name].split()) for name, _ in files]
    print(f"{len(files)} utterances, {seconds:.0f} s, parts of {args.chunk} s, beam {args.beam_size}\n")
    print(
        "| | first text s | final text s | RTF |", " | ".join(f"as {name}" for name in wholes), "| as the reference |"
    )
    print("|---" * (5 + len(wholes)) + "|")
    for name, one in contestants.items():
        same = [sum(a == b for a, b in zip(one.texts, others, strict=True)) for others in expected.values()]
        correct = sum("".join(a.split()) == b for a, b in zip(one.texts, texts, strict=True))
        cells = [name, _shown(one.first), _shown(one.final), f"{one.busy / seconds:.3f}"]
        print(f"| {' | '.join([*cells, *(f'{count}/{len(files)}' for count in (*same, correct))])} |")


def _shown(seconds: list[float]) -> str:
    return f"{np.median(seconds):.2f}, {np.quantile(seconds, 0.95):.2f}"


def _load(args: argparse.Namespace) -> tuple[dict[str, Contestant], dict[str, Callable], int]:
    """The contestants, what they are compared with on whole utterances, and the model's sampling rate."""
    from espnet2.bin.asr_inference_streaming import Speech2TextStreaming

    from espnet_diverse.decoding.options import SearchOptions
    from espnet_diverse.decoding.predictor import load_predictor
    from espnet_diverse.decoding.streaming.block_search import load_block_search

    options = {"beam_size": args.beam_size, "ctc_weight": args.ctc_weight}
    config, weights = args.model_dir / "config.yaml", args.model_dir / args.model_file

    def of_espnet(**changes) -> Callable[[np.ndarray, bool], str]:
        model = Speech2TextStreaming(str(config), str(weights), lm_weight=0.0, **options, **changes)
        # `is_final` is given by name, as asr_inference_streaming does.
        return lambda samples, last: next((text for text, *_ in model(samples, is_final=last)), "")

    def of_ours(search: str) -> Callable[[np.ndarray, bool], str]:
        model = load_block_search(args.model_dir, args.model_file, SearchOptions(search=search, **options))
        return lambda samples, last: model.add(samples, last).text

    predictor = load_predictor(args.model_dir, args.model_file, SearchOptions(**options))

    def offline(samples: np.ndarray, _: bool) -> str:
        found = predictor.batch([predictor.features(samples)], [dict.fromkeys(predictor.conditions.names, 0)])
        return found[0][0].text if found[0] else ""

    espnet, no_repetitions = of_espnet(), of_espnet(disable_repetition_detection=True)
    contestants = {
        "ESPnet": Contestant(espnet),
        "no repetitions": Contestant(no_repetitions),
        "blockwise": Contestant(of_ours("espnet")),
        "ours": Contestant(of_ours("batched")),
    }
    return contestants, {"ESPnet": espnet, "no repetitions": no_repetitions, "the recording": offline}, predictor.rate


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_dir", type=Path, required=True, help="a run with a contextual block encoder of ESPnet")
    parser.add_argument("--model_file", default="valid.acc.ave.pth", help="its weights (valid.acc.ave.pth)")
    parser.add_argument("--data_dir", type=Path, required=True, help="data directory")
    parser.add_argument("--utterances", type=int, help="number of utterances, the first ones (all)")
    parser.add_argument("--chunk", type=float, default=0.16, help="seconds of a part (0.16)")
    parser.add_argument("--beam_size", type=int, default=5, help="hypotheses in a beam (5)")
    parser.add_argument("--ctc_weight", type=float, default=0.3, help="weight of the CTC score (0.3)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
