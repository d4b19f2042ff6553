"""Synthetic WikiText-103: wikitext-103/wiki.{train,valid,test}.tokens, articles of tokenised text."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from espnet_diverse.corpora.synthetic.text.parallel_text import COUNTS, Texts, column, generator, write_lines
from espnet_diverse.corpora.wikitext103 import SPLITS

# Number of sentences of a paragraph, and of an article including its title.
PARAGRAPH, ARTICLE = 4, 17


def _write(root: Path, texts: Texts) -> None:
    for name, split in SPLITS.items():
        path = root / "wikitext-103" / f"wiki.{split}.tokens"
        sentences = (" ".join(re.findall(r"[\w']+|[^\w\s]", text)) for text in column(texts[name], 0))
        # Names of cities become <unk>, like rare words in the corpus.
        write_lines(path, _articles([re.sub(r"\b(Nanjing|Beijing)\b", "<unk>", sentence) for sentence in sentences]))


def _articles(sentences: Sequence[str]) -> Iterator[str]:
    for first in range(0, len(sentences), ARTICLE):
        title, *rest = sentences[first : first + ARTICLE]
        yield from (" ", f" = {title.removesuffix(' .')} = ", " ")
        for start in range(0, len(rest), PARAGRAPH):
            yield f" {' '.join(rest[start : start + PARAGRAPH])} "


make = generator("wikitext103", ("en",), COUNTS, 10000, _write)
