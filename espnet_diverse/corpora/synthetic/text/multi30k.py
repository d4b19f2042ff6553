"""Synthetic Multi30k in English, German and French: data/task1/raw/<split>.<language>.gz."""

import gzip
from pathlib import Path

from espnet_diverse.corpora.multi30k import SPLITS
from espnet_diverse.corpora.synthetic.text.parallel_text import COUNTS, Texts, column, generator

LANGUAGES = ("en", "de", "fr")


def _write(root: Path, texts: Texts) -> None:
    folder = root / "data" / "task1" / "raw"
    folder.mkdir(parents=True)
    half = len(texts["test"]) // 2
    sets = {"train": texts["train"], "dev": texts["dev"]}
    sets |= {"test_2016_flickr": texts["test"][:half], "test_2017_flickr": texts["test"][half:]}
    for name, subset in sets.items():
        for place, language in enumerate(LANGUAGES):
            lines = "".join(f"{line}\n" for line in column(subset, place)).encode()
            (folder / f"{SPLITS[name]}.{language}.gz").write_bytes(gzip.compress(lines, mtime=0))


make = generator("multi30k", LANGUAGES, COUNTS, 5000, _write)
