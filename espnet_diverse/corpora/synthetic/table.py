"""Synthetic recordings for the corpus `table`: English sentences of eight speakers in a folder, and a table of them."""

import csv
from collections.abc import Sequence
from pathlib import Path

from espnet_diverse.audio.speech_synthesis import synthesize
from espnet_diverse.audio.writing import write_audio
from espnet_diverse.corpora.synthetic import Utterance, check_size, make_once, utterances

# Number of recordings.
COUNTS = {"tiny": 20, "demo": 640}
SPEAKERS = ("anna", "ben", "clara", "david", "emma", "frank", "grace", "henry")
# Different for each corpus, so that corpora have different sentences.
SEED = 5000


def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make the recordings, see `corpora.synthetic`; return the table, with the columns audio, text and speaker."""
    check_size(size)
    spoken = utterances(["en"], "train", COUNTS[size], SEED + seed, SPEAKERS)
    settings = {"layout": "table", "size": size, "seed": seed}
    return make_once(target_dir, settings, spoken, lambda folder: _write(folder, spoken, nj)) / "table.csv"


def _write(folder: Path, spoken: Sequence[Utterance], nj: int) -> None:
    rows = []
    recordings = synthesize([utterance.line for utterance in spoken], nj)
    for number, (utterance, samples) in enumerate(zip(spoken, recordings, strict=True), start=1):
        write_audio(folder / f"{number:04d}.wav", samples)
        rows.append((f"{number:04d}.wav", utterance.sentence.texts[0], utterance.speaker))
    with (folder / "table.csv").open("w", encoding="utf-8", newline="") as table:
        csv.writer(table, lineterminator="\n").writerows([("audio", "text", "speaker"), *rows])
