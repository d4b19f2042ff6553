"""Text that a model writes for sounds without speech: 10 minutes of silence, noise and music, made here.

    python benchmarks/invented_text.py MODEL --language de

For each kind of sound there are `--clips` recordings of 10 seconds. The table has the number of recordings with text
and their characters, without voice activity detection, which leaves most of them to the model, and with it; and how
many of them have a segment that the CTC of the model does not support, for which `transcribe` prints a notice.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.registration import fast_start

RATE, SECONDS = 16_000, 10
_COUNT = RATE * SECONDS


def main(argv: list[str] | None = None) -> None:
    """Transcribe the sounds, and print the table."""
    args = _arguments(argv)
    fast_start()
    from espnet_diverse import Recognizer

    given = {} if args.language is None else {"language": args.language}
    print("| sound | detection | with text | characters | named | for example |\n|---|---|---|---|---|---|")
    for vad in ("none", "auto"):
        recognizer = Recognizer(
            args.model, precision=args.precision, options={"beam_size": args.beam_size}, segmentation={"vad": vad}
        )
        for name, clips in sounds(args.clips):
            made = [recognizer.transcribe(each, RATE, **given) for each in clips]
            found = [each.text for each in made if each.text]
            named = sum(any(segment.may_be_invented for segment in each.segments) for each in made)
            counts = f"{len(found)} of {len(made)} | {sum(map(len, found))} | {named}"
            print(f"| {name} | {vad} | {counts} | {found[0][:40] if found else ''} |", flush=True)


def sounds(count: int) -> Iterator[tuple[str, list[NDArray]]]:
    """Recordings (L,) float32 by the name of their kind, the same in each call."""
    random = np.random.default_rng(0)
    kinds: dict[str, Callable[[], NDArray]] = {
        "silence": lambda: random.normal(size=_COUNT) * 1e-4,
        "white noise": lambda: random.normal(size=_COUNT) * 0.1,
        "pink noise": lambda: _pink(random),
        "music": lambda: _music(random),
    }
    for name, make in kinds.items():
        yield name, [make().astype(np.float32) for _ in range(count)]


def _pink(random: np.random.Generator) -> NDArray:
    """Noise whose energy falls with the frequency."""
    spectrum = np.fft.rfft(random.normal(size=_COUNT))
    samples = np.fft.irfft(spectrum / np.sqrt(np.arange(1, len(spectrum) + 1)), _COUNT)
    return samples / np.abs(samples).max() * 0.3


def _music(random: np.random.Generator) -> NDArray:
    """Two plucked notes a second of two octaves, with overtones."""
    note = np.arange(RATE // 2) / RATE
    samples = np.zeros(_COUNT)
    for start in range(0, _COUNT, len(note)):
        pitch = 220 * 2 ** (random.integers(0, 24) / 12)
        tones = (np.sin(2 * np.pi * pitch * number * note) / number for number in (1, 2, 3))
        samples[start : start + len(note)] = sum(tones) * np.exp(-3 * note)
    return samples / np.abs(samples).max() * 0.5


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="model as for transcribe")
    parser.add_argument("--language", help="language of the text (default: the model finds one)")
    parser.add_argument("--clips", type=int, default=15, help="recordings of a kind (default: 15)")
    parser.add_argument("--beam_size", type=int, default=1, help="hypotheses of a search (default: 1)")
    parser.add_argument("--precision", default="float32", help="precision of linear layers (default: float32)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
