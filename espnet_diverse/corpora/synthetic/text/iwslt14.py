"""Synthetic IWSLT14 German–English: de-en/train.tags.de-en.{de,en} and five test sets as xml files."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from espnet_diverse.corpora.iwslt14 import TESTS
from espnet_diverse.corpora.synthetic.text.parallel_text import Texts, column, generator, sgm_lines, write_lines

LANGUAGES = ("de", "en")
# `prepare` moves every 23rd sentence of train to dev.
COUNTS = {
    "tiny": {"train": 92, "test": 10},
    "demo": {"train": 2500, "test": 200},
}
# Number of sentences of a talk; the first two are its title and description.
TALK = 20


def _write(root: Path, texts: Texts) -> None:
    folder = root / "de-en"
    size = len(texts["test"]) // len(TESTS)
    for place, language in enumerate(LANGUAGES):
        write_lines(folder / f"train.tags.de-en.{language}", _talks(column(texts["train"], place)))
        for number, test in enumerate(TESTS):
            lines = column(texts["test"][number * size : (number + 1) * size], place)
            write_lines(folder / f"IWSLT14.{test}.de-en.{language}.xml", sgm_lines("mteval", lines))


def _talks(lines: Sequence[str]) -> Iterator[str]:
    for number, first in enumerate(range(0, len(lines), TALK), start=1):
        yield f"<url>https://example.org/talks/{number}</url>"
        yield f"<talkid>{number}</talkid>"
        title, description, *rest = lines[first : first + TALK]
        yield f"<title>{title}</title>"
        yield f"<description>{description}</description>"
        yield from rest


make = generator("iwslt14", LANGUAGES, COUNTS, 7000, _write)
