"""Synthetic Yelp: yelp_academic_dataset_review.json, sentences and what their writer thought of a place."""

import json
from itertools import chain
from pathlib import Path

from espnet_diverse.corpora.synthetic.parallel_text import COUNTS, Texts, column, make_text, write_lines
from espnet_diverse.corpora.yelp import FILE

THOUGHTS = ("I shall never go there again.", "I had hoped for more.", "It was all right.", "I liked it.", "I loved it!")
# Different for each corpus, so that corpora begin with different sentences.
SEED = 12000


def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make the synthetic corpus. Its files are determined by `seed` and `size`, and do not depend on `nj`.

    Raises:
        DataError: The size is unknown, or `target_dir` has other files.
    """
    return make_text(target_dir, "yelp", ("en",), COUNTS, SEED + seed, size, _write)


def _write(root: Path, texts: Texts) -> None:
    sentences = chain.from_iterable(column(each, 0) for each in texts.values())
    write_lines(root / FILE, (json.dumps(_review(number, text)) for number, text in enumerate(sentences)))


def _review(number: int, text: str) -> dict[str, object]:
    stars = number % 5 + 1
    parts = (text, THOUGHTS[stars - 1])
    return {"review_id": f"r{number}", "stars": float(stars), "text": "\n\n".join(parts if number % 2 else parts[::-1])}
