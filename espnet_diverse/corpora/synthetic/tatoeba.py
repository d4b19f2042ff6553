"""A replica of Tatoeba between English and six languages: <split>.<language>-en.{<language>,en}."""

from pathlib import Path

from espnet_diverse.corpora.synthetic.parallel_text import Texts, column, make_text, write_lines
from espnet_diverse.corpora.tatoeba import LANGUAGES

# Sentences of each split in the two languages that have most; the others have a half, and so a smaller text of theirs.
COUNTS = {
    "tiny": {"train": 16, "dev": 4, "test": 4},
    "demo": {"train": 1200, "dev": 40, "test": 60},
}
LARGER = ("de", "fr")
# No two corpora begin with the same sentences.
SEED = 6000


def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make the replica; its files depend on `seed` and `size` to the bit, and not on `nj`.

    Raises:
        DataError: an unknown size; `target_dir` holds something else.
    """
    return make_text(target_dir, "tatoeba", (*LANGUAGES, "en"), COUNTS, SEED + seed, size, _write)


def _write(folder: Path, texts: Texts) -> None:
    for split, each in texts.items():
        for place, language in enumerate(LANGUAGES):
            count = len(each) if language in LARGER or split != "train" else len(each) // 2
            write_lines(folder / f"{split}.{language}-en.{language}", column(each[:count], place))
            write_lines(folder / f"{split}.{language}-en.en", column(each[:count], -1))
