"""Synthetic Tatoeba between English and six languages: <split>.<language>-en.{<language>,en}."""

from pathlib import Path

from espnet_diverse.corpora.synthetic.text.parallel_text import Texts, column, generator, write_lines
from espnet_diverse.corpora.tatoeba import LANGUAGES

# Number of sentences of each split for the languages in `LARGER`; the others have half of the training sentences.
COUNTS = {
    "tiny": {"train": 16, "dev": 4, "test": 4},
    "demo": {"train": 1200, "dev": 40, "test": 60},
}
LARGER = ("de", "fr")


def _write(folder: Path, texts: Texts) -> None:
    for split, subset in texts.items():
        for place, language in enumerate(LANGUAGES):
            count = len(subset) if language in LARGER or split != "train" else len(subset) // 2
            write_lines(folder / f"{split}.{language}-en.{language}", column(subset[:count], place))
            write_lines(folder / f"{split}.{language}-en.en", column(subset[:count], -1))


make = generator("tatoeba", (*LANGUAGES, "en"), COUNTS, 6000, _write)
