"""Synthetic corpora: sentences of our own grammar, spoken by espeak-ng, in the layout of an official release.

A replica lets a recipe run from end to end anywhere. What is said (`utterances`) and how it lies on the disk
(`make_aishell`) are separate, so that another layout is one more writer.
"""

import hashlib
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from espnet_diverse.corpora.audio import write_audio
from espnet_diverse.corpora.files import staged_directory
from espnet_diverse.corpora.grammar import Sentence, sentences
from espnet_diverse.corpora.speech_synthesis import Line, Voice, synthesize
from espnet_diverse.errors import DataError

STAMP = "synthetic.json"
SNR_DB = (30.0, 40.0)
# Utterances of each split.
SIZES = {
    "tiny": {"train": 24, "dev": 6, "test": 6},
    "demo": {"train": 1200, "dev": 60, "test": 100},
}
# The names are in the ranges of AISHELL-1's splits. Dev and test have variants of the training speakers at other speeds
# and pitches.
SPEAKERS = {
    "train": {
        "S0002": Voice("m1", 185, 45),
        "S0003": Voice("m3", 200, 40),
        "S0004": Voice("m6", 175, 55),
        "S0005": Voice("m7", 195, 60),
        "S0006": Voice("f1", 190, 45),
        "S0007": Voice("f2", 180, 55),
        "S0008": Voice("f3", 200, 50),
        "S0009": Voice("f4", 185, 40),
    },
    "dev": {
        "S0724": Voice("m3", 190, 50),
        "S0725": Voice("f2", 195, 45),
    },
    "test": {
        "S0764": Voice("m1", 195, 55),
        "S0765": Voice("m7", 180, 45),
        "S0766": Voice("f1", 180, 55),
        "S0767": Voice("f4", 195, 50),
    },
}


@dataclass(frozen=True)
class Utterance:
    """A sentence, who says it, and the line for the synthesis."""

    speaker: str
    sentence: Sentence
    line: Line


def utterances(language: str, split: str, count: int, seed: int) -> list[Utterance]:
    """Give `count` different sentences of a split to its speakers in turn, each with noise of its own."""
    chance = random.Random(f"{language} {split} {seed}")
    speakers = list(SPEAKERS[split])
    spoken = []
    for number, sentence in enumerate(sentences([language], count, seed, split)):
        speaker = speakers[number % len(speakers)]
        voice = SPEAKERS[split][speaker]
        line = Line(sentence.texts[0], language, voice, chance.uniform(*SNR_DB), chance.getrandbits(32))
        spoken.append(Utterance(speaker, sentence, line))
    return spoken


def make_aishell(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make a replica of AISHELL-1: data_aishell/wav, data_aishell/transcript, and utt2domain beside data_aishell.

    The files depend on `seed` and `size` to the bit, and not on `nj`. Nothing is done where they are there already;
    a replica of other settings is replaced.

    Raises:
        DataError: an unknown size; `target_dir` holds something else; what `synthesize` raises.
    """
    if size not in SIZES:
        raise DataError(f"unknown size {size!r} of a synthetic corpus; there are {' '.join(SIZES)}")
    corpus = {split: utterances("zh", split, count, seed) for split, count in SIZES[size].items()}
    digest = hashlib.sha256(repr(corpus).encode()).hexdigest()
    stamp = json.dumps({"layout": "aishell", "size": size, "seed": seed, "digest": digest}) + "\n"
    if _is_made(target_dir, stamp):
        return target_dir
    with staged_directory(target_dir) as staging:
        _write_aishell(staging, corpus, nj)
        (staging / STAMP).write_text(stamp, encoding="utf-8")
    return target_dir


def _is_made(target_dir: Path, stamp: str) -> bool:
    made = target_dir / STAMP
    if made.is_file():
        return made.read_text(encoding="utf-8") == stamp
    if target_dir.is_dir() and any(target_dir.iterdir()):
        raise DataError(f"{target_dir}: holds files that are no synthetic corpus; give an empty or new directory")
    return False


def _write_aishell(folder: Path, corpus: dict[str, Sequence[Utterance]], nj: int) -> None:
    placed = [(split, utterance) for split, each in corpus.items() for utterance in each]
    count = Counter()
    transcript, domains = [], []
    recordings = synthesize([utterance.line for _, utterance in placed], nj)
    for (split, utterance), samples in zip(placed, recordings, strict=True):
        count[utterance.speaker] += 1
        # AISHELL-1 numbers the sentences of a speaker from 0121 on.
        name = f"BAC009{utterance.speaker}W{120 + count[utterance.speaker]:04d}"
        wav = folder / "data_aishell" / "wav" / split / utterance.speaker / f"{name}.wav"
        wav.parent.mkdir(parents=True, exist_ok=True)
        write_audio(wav, samples)
        transcript.append(f"{name} {' '.join(utterance.sentence.words[0])}\n")
        domains.append(f"{name} {utterance.sentence.domain}\n")
    table = folder / "data_aishell" / "transcript" / "aishell_transcript_v0.8.txt"
    table.parent.mkdir()
    table.write_text("".join(sorted(transcript)), encoding="utf-8")
    (folder / "utt2domain").write_text("".join(sorted(domains)), encoding="utf-8")
