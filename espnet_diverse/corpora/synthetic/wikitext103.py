"""Synthetic WikiText-103: wikitext-103/wiki.{train,valid,test}.tokens, articles of tokenised text."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from espnet_diverse.corpora.synthetic.parallel_text import COUNTS, Texts, column, make_text, write_lines
from espnet_diverse.corpora.wikitext103 import SPLITS

# Number of sentences of a paragraph, and of an article including its title.
PARAGRAPH, ARTICLE = 4, 17
# Different for each corpus, so that corpora begin with different sentences.
SEED = 10000


def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make the synthetic corpus. Its files are determined by `seed` and `size`, and do not depend on `nj`.

    Raises:
        DataError: The size is unknown, or `target_dir` has other files.
    """
    return make_text(target_dir, "wikitext103", ("en",), COUNTS, SEED + seed, size, _write)


def _write(root: Path, texts: Texts) -> None:
    for name, split in SPLITS.items():
        path = root / "wikitext-103" / f"wiki.{split}.tokens"
        write_lines(path, _articles([_tokenised(text) for text in column(texts[name], 0)]))


def _articles(sentences: Sequence[str]) -> Iterator[str]:
    for first in range(0, len(sentences), ARTICLE):
        title, *rest = sentences[first : first + ARTICLE]
        yield from (" ", f" = {title.removesuffix(' .')} = ", " ")
        for start in range(0, len(rest), PARAGRAPH):
            yield f" {' '.join(rest[start : start + PARAGRAPH])} "


def _tokenised(text: str) -> str:
    """Words and punctuation marks separated by spaces; names of cities become <unk>, like rare words in the corpus."""
    return re.sub(r"\b(Nanjing|Beijing)\b", "<unk>", " ".join(re.findall(r"[\w']+|[^\w\s]", text)))
