"""Message catalogues in gettext's format."""

import struct
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path


def write_catalogue(path: Path, messages: Mapping[str, str]) -> None:
    """Write messages and their translations in gettext's format; creates the folder if needed."""
    rows = [("", "Content-Type: text/plain; charset=UTF-8\n"), *sorted(messages.items())]
    texts = [side.encode() + b"\0" for rows_of in zip(*rows, strict=True) for side in rows_of]
    starts = accumulate(map(len, texts), initial=28 + 8 * len(texts))
    table = [number for text, start in zip(texts, starts, strict=False) for number in (len(text) - 1, start)]
    head = struct.pack("<7I", 0x950412DE, 0, len(rows), 28, 28 + 8 * len(rows), 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + struct.pack(f"<{len(table)}I", *table) + b"".join(texts))
