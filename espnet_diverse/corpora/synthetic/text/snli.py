"""Synthetic SNLI: snli_1.0/snli_1.0_{train,dev,test}.{jsonl,txt}, hypotheses that repeat or deny the premise.

A neutral hypothesis is the next premise. Every 16th pair has the label "-".
"""

import json
from pathlib import Path

from espnet_diverse.corpora.snli import FIELDS
from espnet_diverse.corpora.synthetic.text.parallel_text import COUNTS, Texts, column, generator, write_lines


def _write(root: Path, texts: Texts) -> None:
    for split, subset in texts.items():
        premises = column(subset, 0)
        rows = [_row(number, premises) for number in range(len(premises))]
        stem = root / "snli_1.0" / f"snli_1.0_{split}"
        write_lines(
            stem.with_name(f"{stem.name}.jsonl"), (json.dumps(dict(zip(FIELDS, row, strict=True))) for row in rows)
        )
        write_lines(stem.with_name(f"{stem.name}.txt"), map("\t".join, [FIELDS, *rows]))


def _row(number: int, premises: list[str]) -> tuple[str, str, str]:
    premise, other = premises[number], premises[(number + 1) % len(premises)]
    denied = f"It is not true that {premise[0].lower()}{premise[1:]}"
    label, hypothesis = (("entailment", premise), ("contradiction", denied), ("neutral", other))[number % 3]
    return "-" if number % 16 == 15 else label, premise, hypothesis


make = generator("snli", ("en",), COUNTS, 11000, _write)
