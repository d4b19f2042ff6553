"""Synthetic Yelp: yelp_academic_dataset_review.json, sentences and their writer's opinion of a place."""

import json
from itertools import chain
from pathlib import Path

from espnet_diverse.corpora.synthetic.text.parallel_text import COUNTS, Texts, column, generator, write_lines
from espnet_diverse.corpora.yelp import FILE

THOUGHTS = ("I shall never go there again.", "I had hoped for more.", "It was all right.", "I liked it.", "I loved it!")


def _write(root: Path, texts: Texts) -> None:
    sentences = chain.from_iterable(column(subset, 0) for subset in texts.values())
    write_lines(root / FILE, (json.dumps(_review(number, text)) for number, text in enumerate(sentences)))


def _review(number: int, text: str) -> dict[str, object]:
    stars = number % 5 + 1
    parts = (text, THOUGHTS[stars - 1])
    return {"review_id": f"r{number}", "stars": float(stars), "text": "\n\n".join(parts if number % 2 else parts[::-1])}


make = generator("yelp", ("en",), COUNTS, 12000, _write)
