"""Joint CTC/attention decoding by ESPnet's own beam search, one utterance at a time.

Watanabe et al. 2017, "Hybrid CTC/attention architecture for end-to-end speech recognition", section IV: hypotheses are
ranked by (1 - ctc_weight) log p_attention + ctc_weight log p_ctc + penalty * length.
"""

import json
import logging
import math
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torch
from espnet.nets.pytorch_backend.transformer.subsampling import TooShortUttError
from espnet2.bin import asr_inference

from espnet_diverse.corpora.audio import read_audio, resample
from espnet_diverse.corpora.files import write_text
from espnet_diverse.corpora.tables import read_table, write_table
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.progress import progress
from espnet_diverse.training.espnet_import import swapped
from espnet_diverse.training.tasks import ASRTask, find_weights


@dataclass(frozen=True)
class Options:
    """Options of the search.

    Attributes:
        beam_size: Hypotheses that are kept at each step.
        ctc_weight: Share of the CTC score, 0 to 1; the rest is the attention decoder's.
        penalty: Added to a hypothesis's score for each token.
        minlenratio, maxlenratio: Bounds of the number of tokens as a share of encoder frames; maxlenratio 0 stops when
            hypotheses no longer improve.
    """

    beam_size: int = 10
    ctc_weight: float = 0.3
    penalty: float = 0.0
    minlenratio: float = 0.0
    maxlenratio: float = 0.0

    def __post_init__(self):
        if not isinstance(self.beam_size, int) or self.beam_size < 1:
            raise ConfigError(f"beam_size {self.beam_size!r} is not allowed; give a whole number of at least 1")
        if not 0 <= self.ctc_weight <= 1:
            raise ConfigError(f"ctc_weight {self.ctc_weight} is not allowed; it lies between 0 and 1")


class Outcome(NamedTuple):
    """What became of one utterance: its text and log score, or why it has none; its audio's seconds."""

    utterance: str
    text: str = ""
    score: float = -math.inf
    failure: str | None = None
    seconds: float = 0.0


def load_search(
    model_dir: Path, model_file: str | Path | None = None, options: Options | None = None, device: str = "cpu"
) -> asr_inference.Speech2Text:
    """ESPnet's `Speech2Text` on a model that is loaded strictly; `model_file` as of `find_weights`."""
    config, weights = Path(model_dir) / "config.yaml", find_weights(Path(model_dir), model_file)
    with swapped(asr_inference, ASRTask=ASRTask):
        return asr_inference.Speech2Text(config, weights, device=device, lm_weight=0.0, **asdict(options or Options()))


def decode(search: asr_inference.Speech2Text, data_dir: Path, output_dir: Path, nj: int = 1) -> list[Outcome]:
    """Decode a data directory; write text, score and failures.json (utterance: reason), and print a summary.

    An utterance that fails costs no other one. One without a hypothesis gets an empty text. Outcomes are sorted.

    Args:
        search: What `load_search` returns.
        data_dir: Kaldi data directory; its wav.scp is read.
        output_dir: Where to write.
        nj: Processes to decode with, on the CPU; they share the loaded model.

    Raises:
        DataError: wav.scp is wrong, or no utterance at all could be decoded.
    """
    items = _items(data_dir)
    output_dir.mkdir(parents=True, exist_ok=True)
    for name in ("text", "score", "failures.json"):  # of an earlier run, which this one may not replace
        (output_dir / name).unlink(missing_ok=True)
    start = time.monotonic()
    outcomes = list(progress(_outcomes(search, items, nj), "decode", len(items), "utterance"))
    elapsed = time.monotonic() - start
    done = [outcome for outcome in outcomes if outcome.failure is None]
    failures = {outcome.utterance: outcome.failure for outcome in outcomes if outcome.failure is not None}
    write_text(output_dir / "failures.json", json.dumps(failures, ensure_ascii=False, indent=1) + "\n")
    if not done:
        utterance, failure = next(iter(failures.items()))
        raise DataError(f"{data_dir}: none of {len(items)} utterances could be decoded; first {utterance}: {failure}")
    write_table(output_dir / "text", {outcome.utterance: outcome.text for outcome in done})
    write_table(output_dir / "score", {outcome.utterance: f"{outcome.score:.6g}" for outcome in done})
    for utterance, failure in failures.items():
        logging.warning("%s was not decoded: %s", utterance, failure)
    seconds = sum(outcome.seconds for outcome in done)
    empty = sum(not outcome.text for outcome in done)
    print(
        f"decoded {len(done)} of {len(items)} utterances ({len(failures)} failed, {empty} empty), "
        f"{seconds:.0f} s of audio in {elapsed:.0f} s, real-time factor {elapsed / seconds:.3f}"
    )
    return outcomes


def _items(data_dir: Path) -> list[tuple[str, Path]]:
    if (data_dir / "segments").exists():
        raise DataError(f"{data_dir}: has segments; cut them with espnet-diverse prepare, or take the file away")
    return [(utterance, Path(path)) for utterance, path in read_table(data_dir / "wav.scp").items()]


_search: asr_inference.Speech2Text  # a global, so that forked workers have it without copying or importing anything


def _outcomes(search: asr_inference.Speech2Text, items: list[tuple[str, Path]], nj: int) -> Iterator[Outcome]:
    global _search
    _search = search
    nj = min(nj, len(items)) if search.device == "cpu" else 1
    if nj <= 1:
        yield from map(_decode_one, items)
        return
    # With one thread a worker enters no OpenMP region, which a forked process must not.
    with ProcessPoolExecutor(nj, get_context("fork"), torch.set_num_threads, (1,)) as pool:
        yield from pool.map(_decode_one, items)


def _decode_one(item: tuple[str, Path]) -> Outcome:
    utterance, path = item
    try:
        samples, rate = read_audio(path)
        results = _search(resample(samples, rate))
    except (DataError, TooShortUttError) as error:
        return Outcome(utterance, failure=str(error))
    except Exception as error:  # whatever it is, it must not cost the other utterances
        logging.exception("decoding %s failed", utterance)
        return Outcome(utterance, failure=f"{type(error).__name__}: {error}")
    seconds = len(samples) / rate
    if not results:
        return Outcome(utterance, seconds=seconds)
    text, _, _, hypothesis = results[0]
    return Outcome(utterance, text, float(hypothesis.score), seconds=seconds)
