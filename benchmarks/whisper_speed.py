"""Speed and error rate of a Whisper model here, in faster-whisper and in transformers, with the same weights.

    python benchmarks/whisper_speed.py MODEL DATA_DIR --language de --ctranslate2 FOLDER

MODEL is a folder of Hugging Face's layout, FOLDER the same weights for CTranslate2, which faster-whisper reads (pip
install faster-whisper). Every contestant gets the same samples, and none writes timestamps:

- `ours`: one clip at a time, or `--batch` together, with 5 seconds of silence after each;
- `faster-whisper`: one clip at a time, which it pads to 30 seconds, without fallbacks to higher temperatures;
- `transformers`: greedy, one clip at a time, padded to 30 seconds.

`--seconds 10` joins utterances to clips of about that length, with half a second between them; clips of more than 25
seconds go through `Recognizer.transcribe` here, which cuts them at pauses. The table has the seconds of a contestant
for a second of audio, how many times as fast as faster-whisper's float32 with the same beam it is, WER and CER.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from measuring import compare, conditions
from numpy.typing import NDArray

from espnet_diverse.registration import fast_start

RATE = 16_000
BASE = "faster-whisper float32"
_LONG = 25.0  # seconds
_PAUSE = np.zeros(RATE // 2, np.float32)

Clip = tuple[NDArray, str]
"""Samples (L,) float32, and what is said."""


def main(argv: list[str] | None = None) -> None:
    """Measure, and print the table."""
    args = _arguments(argv)
    fast_start()
    lines = conditions(f"medians of {args.rounds} rounds", torch.device("cpu"), args.threads)
    clips = list(islice(joined(read(args.data_dir), args.seconds), args.clips))
    spoken = sum(len(samples) for samples, _ in clips) / RATE
    print("\n".join(lines), f"\n{len(clips)} clips, {spoken:.0f} s, beam {args.beam_size}.\n")
    texts: dict[str, list[str]] = {}

    def keeping(name: str, call: Callable[[], list[str]]) -> Callable[[], None]:
        def run() -> None:
            texts[name] = call()

        return run

    calls = dict(contestants(args, clips))
    measured = compare(
        {name: keeping(name, call) for name, call in calls.items()}, args.rounds, torch.device("cpu"), memory=False
    )
    print("| | s per s | times as fast | WER | CER |\n|---|---|---|---|---|")
    base = measured[BASE].cost if BASE in measured else 0.0
    for name, found in measured.items():
        faster = f"{base / found.cost:.2f}" if base else "-"
        word, character = error_rates([text for _, text in clips], texts[name], args.language)
        print(f"| {name} | {found.cost / spoken:.3f} | {faster} | {word:.1f} | {character:.1f} |")


def read(data_dir: Path) -> Iterator[Clip]:
    """Samples and text of each utterance of a data directory with a file for each utterance."""
    from espnet_diverse.audio.reading import read_at
    from espnet_diverse.data.tables import read_table

    texts = read_table(data_dir / "text")
    for name, path in read_table(data_dir / "wav.scp").items():
        yield read_at(Path(path), RATE)[0], texts[name]


def joined(clips: Iterator[Clip], seconds: float | None) -> Iterator[Clip]:
    """Join clips, with pauses, while the next one fits into `seconds`; without them each stays alone."""
    parts: list[NDArray] = []
    said: list[str] = []
    for samples, text in clips:
        longer = sum(map(len, parts)) + len(samples) > (seconds or 0) * RATE
        if parts and longer:
            yield np.concatenate(parts), " ".join(said)
            parts, said = [], []
        parts += [samples, _PAUSE]
        said.append(text)
    if parts:
        yield np.concatenate(parts), " ".join(said)


def contestants(args: argparse.Namespace, clips: Sequence[Clip]) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    """Functions that transcribe all clips, by name."""
    samples = [each for each, _ in clips]
    for precision in args.precision:
        yield from ours(args, samples, precision)
    if args.ctranslate2 is not None:
        for kind in ("float32", "int8"):
            yield f"faster-whisper {kind}", faster_whisper(args, samples, kind)
    if args.transformers:
        yield "transformers", with_transformers(args, samples)


def ours(
    args: argparse.Namespace, samples: Sequence[NDArray], precision: str
) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    """Our searches, one clip at a time and in batches."""
    from espnet_diverse import Recognizer
    from espnet_diverse.inference import Request

    search = {"beam_size": args.beam_size, "batch_size": args.batch}
    language = {} if args.language is None else {"language": args.language}
    is_short = args.seconds is None or args.seconds <= _LONG
    vad = {"vad": "none"} if is_short else None
    recognizer = Recognizer(str(args.model), precision=precision, options=search, segmentation=vad)
    given = {"lang": args.language} if language else {}

    def single() -> list[str]:
        return [recognizer.transcribe(each, RATE, **language).text for each in samples]

    def together() -> list[str]:
        requests = [Request(each, rate=RATE, conditions=given) for each in samples]
        return [found.text for found in recognizer.transcribe_all(requests)]

    yield f"ours {precision}", single
    yield f"ours {precision}, {args.batch} at once", together


def faster_whisper(args: argparse.Namespace, samples: Sequence[NDArray], kind: str) -> Callable[[], list[str]]:
    """faster-whisper, one clip at a time."""
    try:
        package = import_module("faster_whisper")
    except ImportError:
        sys.exit("--ctranslate2 needs faster-whisper: pip install faster-whisper")
    model = package.WhisperModel(str(args.ctranslate2), device="cpu", compute_type=kind, cpu_threads=args.threads)
    options = {"beam_size": args.beam_size, "temperature": 0, "condition_on_previous_text": False}
    options["without_timestamps"] = args.seconds is None or args.seconds <= _LONG  # it needs them to go on after 30 s

    def run() -> list[str]:
        found = (model.transcribe(each, language=args.language, **options)[0] for each in samples)
        return [" ".join(segment.text for segment in segments) for segments in found]

    return run


def with_transformers(args: argparse.Namespace, samples: Sequence[NDArray]) -> Callable[[], list[str]]:
    """Greedy search of transformers, one clip at a time."""
    import transformers
    from tokenizers import Tokenizer

    model = transformers.WhisperForConditionalGeneration.from_pretrained(args.model, dtype=torch.float32).eval()
    prepare = transformers.WhisperFeatureExtractor.from_pretrained(args.model)
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    names = ("<|startoftranscript|>", f"<|{args.language}|>", "<|transcribe|>", "<|notimestamps|>")
    prompt = torch.tensor([[tokenizer.token_to_id(name) for name in names]])

    @torch.inference_mode()
    def run() -> list[str]:
        found = []
        for each in samples:
            features = prepare(each, sampling_rate=RATE, return_tensors="pt").input_features
            cache, tokens, state = None, prompt, model.model.encoder(features)
            said: list[int] = []
            while len(said) < model.config.max_target_positions - prompt.size(1):
                step = model(encoder_outputs=state, decoder_input_ids=tokens, past_key_values=cache, use_cache=True)
                tokens, cache = step.logits[:, -1:].argmax(-1), step.past_key_values
                if int(tokens) == model.config.eos_token_id:
                    break
                said.append(int(tokens))
            found.append(tokenizer.decode(said))
        return found

    return run


def error_rates(references: Sequence[str], texts: Sequence[str], language: str | None) -> tuple[float, float]:
    """WER and CER in percent, without punctuation and case."""
    from espnet_diverse.scoring.error_rate import ErrorRate
    from espnet_diverse.scoring.normalisation import Normalisation

    rules = Normalisation("whisper")
    found = []
    for unit in ("word", "char"):
        metric = ErrorRate(unit, normalisation=rules)
        counts = metric.statistics(references, texts, [language or ""] * len(texts))
        found.append(float(metric.score(counts.sum(0))))
    return found[0], found[1]


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of a Whisper model of Hugging Face's layout")
    parser.add_argument("data_dir", type=Path, help="data directory with wav.scp and text")
    parser.add_argument("--ctranslate2", type=Path, help="folder of the same weights for faster-whisper")
    parser.add_argument("--transformers", action="store_true", help="measure transformers, too; needs --language")
    parser.add_argument("--language", help="language of the recordings (default: each finds it)")
    parser.add_argument("--precision", nargs="+", default=["float32", "int8"], help="ours (default: float32 int8)")
    parser.add_argument("--beam_size", type=int, default=1, help="hypotheses of a search (default: 1)")
    parser.add_argument("--batch", type=int, default=8, help="clips at once (default: 8)")
    parser.add_argument("--seconds", type=float, help="length of the clips (default: one utterance each)")
    parser.add_argument("--clips", type=int, default=16, help="number of clips (default: 16)")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds (default: 3)")
    parser.add_argument("--threads", type=int, default=1, help="threads (default: 1)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
