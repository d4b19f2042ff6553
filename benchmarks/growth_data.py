"""Data directories of any number of utterances, for `growth.py`."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import soundfile

from espnet_diverse.progress import progress

RATE = 16_000
SECONDS = 4
_WORDS, _HALVES = 50_000, 100_000
_BLOCK = 10_000
_FILES, _BITS = 200, 24


def write_text_data(folder: Path, rows: int, seed: int) -> None:
    """Write a data directory of `rows` sentences of 4 to 16 words and their sources."""
    folder.mkdir(parents=True)
    with (folder / "text").open("w") as text, (folder / "src_text").open("w") as source:
        for key, first, second in _sentences(folder, rows, seed):
            text.write(f"{key} {first} {second}\n")
            source.write(f"{key} {second} {first}\n")


def write_speech_data(folder: Path, rows: int, seed: int) -> None:
    """Write a data directory of `rows` utterances of `SECONDS`, in `_FILES` files of noise in the parent of `folder`.

    The path of each row is another spelling, "folder/.//./0.wav", so that nothing that is kept by path helps.
    """
    folder.mkdir(parents=True)
    audio = folder.parent.absolute() / "wav"
    if not audio.exists():
        audio.mkdir()
        noise = np.random.default_rng(0)
        for number in range(_FILES):
            soundfile.write(audio / f"{number}.wav", noise.normal(0, 0.1, SECONDS * RATE), RATE)
    names = ("wav.scp", "text", "utt2spk")
    with ExitStack() as stack:
        wav_scp, text, speakers = (stack.enter_context((folder / name).open("w")) for name in names)
        for number, (key, first, second) in enumerate(_sentences(folder, rows, seed)):
            spelling = "".join("/." if number >> bit & 1 else "//" for bit in range(_BITS))
            wav_scp.write(f"{key} {audio}{spelling}/{number % _FILES}.wav\n")
            text.write(f"{key} {first} {second}\n")
            speakers.write(f"{key} {key[:-3]}\n")


def write_shapes(folder: Path, stats: Path) -> None:
    """Write the shapes of the speech in `folder`, which `stats` would take from all of the audio."""
    names = (folder / "text", stats / "speech_shape", stats / "text_shape.char")
    with ExitStack() as stack:
        text, speech, tokens = (stack.enter_context(path.open(mode)) for path, mode in zip(names, "rww", strict=True))
        for line in text:
            key, _, value = line.rstrip("\n").partition(" ")
            speech.write(f"{key} {SECONDS * RATE}\n")
            tokens.write(f"{key} {len(value)},30\n")


def _sentences(folder: Path, rows: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """Ids, and the halves of sentences."""
    random = np.random.default_rng(seed)
    words = _words(np.random.default_rng(0))  # one vocabulary for all sets
    common = 1 / np.arange(1, _WORDS + 1)  # Zipf's law
    drawn = random.choice(_WORDS, (min(_HALVES, rows), 8), p=common / common.sum())
    halves = [" ".join(words[index] for index in row[: 2 + row[0] % 7]) for row in drawn]
    for start in progress(range(0, rows, _BLOCK), f"write {folder}", -(-rows // _BLOCK), "block"):
        pairs = enumerate(random.integers(len(halves), size=(min(_BLOCK, rows - start), 2)), start)
        for number, (first, second) in pairs:
            yield f"{folder.name}-{number:09d}", halves[first], halves[second]


def _words(random: np.random.Generator) -> list[str]:
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    lengths = random.integers(2, 9, size=_WORDS)
    return ["".join(letters[random.integers(26, size=length)]) for length in lengths]
