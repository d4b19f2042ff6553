"""Synthetic Multi30k in English, German and French: data/task1/raw/<split>.<language>.gz."""

import gzip
from pathlib import Path

from espnet_diverse.corpora.multi30k import SPLITS
from espnet_diverse.corpora.synthetic.parallel_text import COUNTS, Texts, column, make_text

LANGUAGES = ("en", "de", "fr")
# Different for each corpus, so that corpora begin with different sentences.
SEED = 5000


def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make the synthetic corpus. Its files are determined by `seed` and `size`, and do not depend on `nj`.

    Raises:
        DataError: The size is unknown, or `target_dir` has other files.
    """
    return make_text(target_dir, "multi30k", LANGUAGES, COUNTS, SEED + seed, size, _write)


def _write(root: Path, texts: Texts) -> None:
    folder = root / "data" / "task1" / "raw"
    folder.mkdir(parents=True)
    half = len(texts["test"]) // 2
    sets = {"train": texts["train"], "dev": texts["dev"]}
    sets |= {"test_2016_flickr": texts["test"][:half], "test_2017_flickr": texts["test"][half:]}
    for name, each in sets.items():
        for place, language in enumerate(LANGUAGES):
            lines = "".join(f"{line}\n" for line in column(each, place)).encode()
            (folder / f"{SPLITS[name]}.{language}.gz").write_bytes(gzip.compress(lines, mtime=0))
