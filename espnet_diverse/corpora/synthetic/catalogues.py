"""Synthetic message catalogues of programs in three languages: <language>/LC_MESSAGES/<program>.mo."""

import struct
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path

from espnet_diverse.corpora.synthetic.parallel_text import Texts, column, generator

LANGUAGES = ("de", "fr", "zh", "en")
# Number of messages of each program; `prepare` draws the sets from all.
COUNTS = {"tiny": {"train": 64, "dev": 8, "test": 8}, "demo": {"train": 2400, "dev": 100, "test": 200}}


def write_catalogue(path: Path, messages: Mapping[str, str]) -> None:
    """Write messages and their translations in gettext's format; creates the folder if needed."""
    rows = [("", "Content-Type: text/plain; charset=UTF-8\n"), *sorted(messages.items())]
    texts = [side.encode() + b"\0" for rows_of in zip(*rows, strict=True) for side in rows_of]
    starts = accumulate(map(len, texts), initial=28 + 8 * len(texts))
    table = [number for text, start in zip(texts, starts, strict=False) for number in (len(text) - 1, start)]
    head = struct.pack("<7I", 0x950412DE, 0, len(rows), 28, 28 + 8 * len(rows), 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + struct.pack(f"<{len(table)}I", *table) + b"".join(texts))


def _write(folder: Path, texts: Texts) -> None:
    for program, each in texts.items():
        for place, language in enumerate(LANGUAGES[:-1]):
            messages = dict(zip(column(each, -1), column(each, place), strict=True))
            write_catalogue(folder / language / "LC_MESSAGES" / f"{program}.mo", messages)


make = generator("catalogues", LANGUAGES, COUNTS, 15000, _write)
