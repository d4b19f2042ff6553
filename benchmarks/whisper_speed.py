"""Speed, memory and error rate of a Whisper model here and in other programs, with the same weights.

    python benchmarks/whisper_speed.py MODEL DATA_DIR --language de --ctranslate2 FOLDER

MODEL is a folder of Hugging Face's layout, FOLDER the same weights for CTranslate2, which faster-whisper reads (pip
install faster-whisper). Every contestant gets the same samples, and none writes timestamps:

- `ours`: one clip at a time, or `--batch` together, with 5 seconds of silence after each;
- `faster-whisper`: one clip at a time, which it pads to 30 seconds, without fallbacks to higher temperatures;
- `transformers`: greedy, one clip at a time, padded to 30 seconds;
- `whisper.cpp` (pip install pywhispercpp): weights of 16 bits, one clip at a time, which it pads to 30 seconds, or as
  ours with its option audio_ctx.

`--seconds 10` joins utterances to clips of about that length, with half a second between them; clips of more than 25
seconds go through `Recognizer.transcribe` here, which cuts them at pauses. The table has the seconds of a contestant
for a second of audio, how many times as fast as faster-whisper's float32 with the same beam it is, WER and CER, and
with `--memory` the greatest memory of a process that does nothing else, with Python and its libraries.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from measuring import compare, conditions
from numpy.typing import NDArray

from espnet_diverse.registration import fast_start

RATE, PAD = 16_000, 5.0
BASE = "faster-whisper float32"
_LONG = 25.0  # seconds
_PAUSE = np.zeros(RATE // 2, np.float32)

Clip = tuple[NDArray, str]
"""Samples (L,) float32, and what is said."""
Transcribe = Callable[[], list[str]]
"""Transcribes all clips."""


def main(argv: list[str] | None = None) -> None:
    """Measure, and print the table."""
    args = _arguments(argv)
    fast_start()
    lines = conditions(f"medians of {args.rounds} rounds", torch.device("cpu"), args.threads)
    clips = list(islice(joined(read(args.data_dir), args.seconds), args.clips))
    spoken = sum(len(samples) for samples, _ in clips) / RATE
    print("\n".join(lines), f"\n{len(clips)} clips, {spoken:.0f} s, beam {args.beam_size}.\n")
    texts: dict[str, list[str]] = {}

    def keeping(name: str, call: Transcribe) -> Callable[[], None]:
        def run() -> None:
            texts[name] = call()

        return run

    samples = [each for each, _ in clips]
    calls = {name: keeping(name, load(samples)) for name, load in contestants(args)}
    measured = compare(calls, args.rounds, torch.device("cpu"), memory=False)
    print(
        f"| | s per s | times as fast | WER | CER |{' MB |' * args.memory}\n|---|---|---|---|---|{'---|' * args.memory}"
    )
    base = measured[BASE].cost if BASE in measured else 0.0
    for name, found in measured.items():
        faster = f"{base / found.cost:.2f}" if base else "-"
        word, character = error_rates([text for _, text in clips], texts[name], args.language)
        used = f" {peak(args, name)} |" if args.memory else ""
        print(f"| {name} | {found.cost / spoken:.3f} | {faster} | {word:.1f} | {character:.1f} |{used}")


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


def contestants(args: argparse.Namespace) -> Iterator[tuple[str, Callable[[Sequence[NDArray]], Transcribe]]]:
    """Functions that load a contestant for the samples of all clips, by its name."""
    for precision in args.precision:
        yield f"ours {precision}", partial(ours, args, precision, 1)
        yield f"ours {precision}, {args.batch} at once", partial(ours, args, precision, args.batch)
    if args.ctranslate2 is not None:
        for kind in ("float32", "int8"):
            yield f"faster-whisper {kind}", partial(faster_whisper, args, kind)
    if args.transformers:
        yield "transformers", partial(with_transformers, args)
    if args.whisper_cpp:
        yield "whisper.cpp", partial(whisper_cpp, args, None)
        if is_short(args):
            yield f"whisper.cpp, {PAD:.0f} s of silence", partial(whisper_cpp, args, PAD)


def is_short(args: argparse.Namespace) -> bool:
    """Return whether a clip fits into the 30 seconds of an encoder."""
    return args.seconds is None or args.seconds <= _LONG


def peak(args: argparse.Namespace, name: str) -> int:
    """The greatest memory in MB of a process in which one contestant transcribes all clips."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak, (args, name))


def _peak(args: argparse.Namespace, name: str) -> int:
    torch.set_num_threads(args.threads)
    fast_start()
    clips = islice(joined(read(args.data_dir), args.seconds), args.clips)
    dict(contestants(args))[name]([samples for samples, _ in clips])()
    status = Path("/proc/self/status").read_text()  # getrusage has the greatest memory of the parent process
    return int(re.findall(r"VmHWM:\s*(\d+)", status)[0]) // 1024


def ours(args: argparse.Namespace, precision: str, batch: int, samples: Sequence[NDArray]) -> Transcribe:
    """Our search, one clip at a time or in batches."""
    from espnet_diverse import Recognizer
    from espnet_diverse.inference import Request

    search = {"beam_size": args.beam_size, "batch_size": args.batch}
    vad = {"vad": "none"} if is_short(args) else None
    recognizer = Recognizer(str(args.model), precision=precision, options=search, segmentation=vad)
    language = {} if args.language is None else {"language": args.language}
    given = {} if args.language is None else {"lang": args.language}

    def single() -> list[str]:
        return [recognizer.transcribe(each, RATE, **language).text for each in samples]

    def together() -> list[str]:
        requests = [Request(each, rate=RATE, conditions=given) for each in samples]
        return [found.text for found in recognizer.transcribe_all(requests)]

    return single if batch == 1 else together


def faster_whisper(args: argparse.Namespace, kind: str, samples: Sequence[NDArray]) -> Transcribe:
    """faster-whisper, one clip at a time."""
    try:
        package = import_module("faster_whisper")
    except ImportError:
        sys.exit("--ctranslate2 needs faster-whisper: pip install faster-whisper")
    model = package.WhisperModel(str(args.ctranslate2), device="cpu", compute_type=kind, cpu_threads=args.threads)
    options = {"beam_size": args.beam_size, "temperature": 0, "condition_on_previous_text": False}
    options["without_timestamps"] = is_short(args)  # it needs them to go on after 30 s

    def run() -> list[str]:
        found = (model.transcribe(each, language=args.language, **options)[0] for each in samples)
        return [" ".join(segment.text for segment in segments) for segments in found]

    return run


def with_transformers(args: argparse.Namespace, samples: Sequence[NDArray]) -> Transcribe:
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


def whisper_cpp(args: argparse.Namespace, pad: float | None, samples: Sequence[NDArray]) -> Transcribe:
    """whisper.cpp, one clip at a time, with `pad` seconds of silence; None is up to 30 seconds."""
    from ggml_whisper import write

    try:
        package = import_module("pywhispercpp.model")
    except ImportError:
        sys.exit("--whisper_cpp needs pywhispercpp: pip install pywhispercpp")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.bin")
        write(args.model, file)
        quiet = {"print_progress": False, "redirect_whispercpp_logs_to": None}
        model = package.Model(str(file), n_threads=args.threads, params_sampling_strategy=args.beam_size > 1, **quiet)
    beams = {"greedy": {"best_of": 1}, "beam_search": {"beam_size": args.beam_size, "patience": -1.0}}
    options = {"language": args.language or "auto", "temperature_inc": 0.0, "no_timestamps": is_short(args), **beams}

    def run() -> list[str]:
        found = []
        for each in samples:
            frames = 0 if pad is None else min(round((len(each) / RATE + pad) * 50), 1500)
            segments = model.transcribe(each, audio_ctx=frames, single_segment=is_short(args), **options)
            found.append(" ".join(segment.text for segment in segments))
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
    parser.add_argument("--whisper_cpp", action="store_true", help="measure whisper.cpp, too")
    parser.add_argument("--memory", action="store_true", help="measure the memory of each in a process of its own")
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
