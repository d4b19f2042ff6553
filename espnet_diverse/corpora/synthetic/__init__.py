"""Synthetic corpora: sentences of our own grammar, spoken by espeak-ng, in the layouts of official releases.

A replica lets a recipe run from end to end anywhere. What is said (`utterances`), how sentences become longer
recordings (`join`) and when there is something to do (`replica`) stands here; how it lies on the disk is one module
with `make(target_dir, seed, size, nj)` for each corpus.
"""

import hashlib
import importlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from espnet_diverse.audio.resampling import RATE
from espnet_diverse.corpora.synthetic.grammar import Sentence, sentences
from espnet_diverse.corpora.synthetic.speech_synthesis import Line, Voice
from espnet_diverse.data.atomic_files import staged_directory
from espnet_diverse.errors import ConfigError, DataError

STAMP = "synthetic.json"
SIZES = ("tiny", "demo")
SNR_DB = (30.0, 40.0)
# Dev and test have variants of the training speakers at other speeds and pitches.
VOICES = {
    "train": (
        Voice("m1", 185, 45),
        Voice("m3", 200, 40),
        Voice("m6", 175, 55),
        Voice("m7", 195, 60),
        Voice("f1", 190, 45),
        Voice("f2", 180, 55),
        Voice("f3", 200, 50),
        Voice("f4", 185, 40),
    ),
    "dev": (Voice("m3", 190, 50), Voice("f2", 195, 45)),
    "test": (Voice("m1", 195, 55), Voice("m7", 180, 45), Voice("f1", 180, 55), Voice("f4", 195, 50)),
}


@dataclass(frozen=True)
class Utterance:
    """A sentence, who says it, and the line for the synthesis.

    Attributes:
        speaker: The speaker's name.
        sentence: In the spoken language, then in those it is translated into.
        line: What is spoken, by which voice.
    """

    speaker: str
    sentence: Sentence
    line: Line


def load_replica(corpus: str) -> ModuleType:
    """Import the module that makes a replica of `corpus`.

    Raises:
        ConfigError: where there is none.
    """
    try:
        return importlib.import_module(f"{__name__}.{corpus}")
    except ModuleNotFoundError as error:
        raise ConfigError(f"there is no synthetic replica of {corpus}; give --corpus_dir") from error


def utterances(languages: Sequence[str], split: str, count: int, seed: int, speakers: Sequence[str]) -> list[Utterance]:
    """Give `count` different sentences of a split to its speakers in turn, each with noise of its own.

    Args:
        languages: The spoken language, then those that the sentences are translated into.
        split: train, dev or test; no sentence is in two of them.
        count: Number of utterances. Different languages with the same count say the same things.
        seed: Of the choice of sentences, and of the noise.
        speakers: Names of the speakers, as many as there are `VOICES` in the split.
    """
    chance = random.Random(f"{languages[0]} {split} {seed}")
    voices = dict(zip(speakers, VOICES[split], strict=True))
    spoken = []
    for number, sentence in enumerate(sentences(languages, count, seed, split)):
        speaker = speakers[number % len(speakers)]
        snr, noise = chance.uniform(*SNR_DB), chance.getrandbits(32)
        spoken.append(Utterance(speaker, sentence, Line(sentence.texts[0], languages[0], voices[speaker], snr, noise)))
    return spoken


def join(recordings: Sequence[np.ndarray]) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """Put recordings (T_i,) after each other in one, which has segments then.

    Returns:
        Samples (sum of T_i,) and start and end of each recording in it, in seconds, rounded to milliseconds.
    """
    ends = np.cumsum([len(samples) for samples in recordings]) / RATE
    starts = [0.0, *ends[:-1]]
    return np.concatenate(recordings), [(round(s, 3), round(float(e), 3)) for s, e in zip(starts, ends, strict=True)]


def check_size(size: str) -> None:
    """Raise a `DataError` where there is no such size."""
    if size not in SIZES:
        raise DataError(f"unknown size {size!r} of a synthetic corpus; there are {' '.join(SIZES)}")


def replica(target_dir: Path, settings: Mapping[str, object], corpus: object, write: Callable[[Path], None]) -> Path:
    """Make a replica in `target_dir`, all of it or nothing.

    Nothing is done where it is there already; a replica of other settings is replaced.

    Args:
        target_dir: Its folder.
        settings: Layout, size and seed, for whoever looks into the folder.
        corpus: All that is said. Its `repr` tells whether a replica is still the one wanted.
        write: Writes the replica into an empty folder.

    Raises:
        DataError: `target_dir` holds something else; what `write` raises.
    """
    digest = hashlib.sha256(repr(corpus).encode()).hexdigest()
    stamp = json.dumps({**settings, "digest": digest}) + "\n"
    if _is_made(target_dir, stamp):
        return target_dir
    with staged_directory(target_dir) as staging:
        write(staging)
        (staging / STAMP).write_text(stamp, encoding="utf-8")
    return target_dir


def _is_made(target_dir: Path, stamp: str) -> bool:
    made = target_dir / STAMP
    if made.is_file():
        return made.read_text(encoding="utf-8") == stamp
    if target_dir.is_dir() and any(target_dir.iterdir()):
        raise DataError(f"{target_dir}: holds files that are no synthetic corpus; give an empty or new directory")
    return False
