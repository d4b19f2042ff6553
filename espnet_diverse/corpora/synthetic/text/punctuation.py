"""Synthetic texts with punctuation and case in English: {train,dev,test}.txt."""

from pathlib import Path

from espnet_diverse.corpora.synthetic.text.parallel_text import COUNTS, Texts, column, generator, write_lines


def _write(root: Path, texts: Texts) -> None:
    for split, subset in texts.items():
        write_lines(root / f"{split}.txt", column(subset, 0))


make = generator("punctuation", ("en",), COUNTS, 15000, _write)
