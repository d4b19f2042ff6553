"""A replica of WikiText-103: wikitext-103/wiki.{train,valid,test}.tokens, articles of parted words."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from espnet_diverse.corpora.synthetic.parallel_text import COUNTS, Texts, column, make_text, write_lines
from espnet_diverse.corpora.wikitext103 import SPLITS

# Sentences of a paragraph, and of an article with its title.
PARAGRAPH, ARTICLE = 4, 17
# No two corpora begin with the same sentences.
SEED = 10000


def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make the replica; its files depend on `seed` and `size` to the bit, and not on `nj`.

    Raises:
        DataError: an unknown size; `target_dir` holds something else.
    """
    return make_text(target_dir, "wikitext103", ("en",), COUNTS, SEED + seed, size, _write)


def _write(root: Path, texts: Texts) -> None:
    for name, split in SPLITS.items():
        path = root / "wikitext-103" / f"wiki.{split}.tokens"
        write_lines(path, _articles([_parted(text) for text in column(texts[name], 0)]))


def _articles(sentences: Sequence[str]) -> Iterator[str]:
    for first in range(0, len(sentences), ARTICLE):
        title, *rest = sentences[first : first + ARTICLE]
        yield from (" ", f" = {title.removesuffix(' .')} = ", " ")
        for start in range(0, len(rest), PARAGRAPH):
            yield f" {' '.join(rest[start : start + PARAGRAPH])} "


def _parted(text: str) -> str:
    """Words and marks parted by spaces, and names of cities unknown, as rare words are there."""
    return re.sub(r"\b(Nanjing|Beijing)\b", "<unk>", " ".join(re.findall(r"[\w']+|[^\w\s]", text)))
