"""The sgm and xml files of evaluation campaigns (IWSLT, WMT), which have one sentence, <seg>, per line."""

import html
import re
from pathlib import Path

from espnet_diverse.corpora import split_pair
from espnet_diverse.corpora.shared.bitext import Files
from espnet_diverse.data.characters import clean_text
from espnet_diverse.errors import DataError

_SEGMENT = re.compile(r"""\s*<seg id=["']?[^"'>]+["']?>(.*)</seg>\s*""", re.IGNORECASE)


def segment(line: str) -> str | None:
    """The sentence of a line; None if the line has none."""
    found = _SEGMENT.fullmatch(line)
    return clean_text(html.unescape(found[1]))[0] if found else None


def find_segments(root: Path, names: tuple[str, str], direction: str) -> Files:
    """The files of a set, in `root` or any folder in it.

    Args:
        root: Folder of the corpus.
        names: File names of source and target, with {} in place of the language.
        direction: Languages of source and target, such as "de-en".

    Raises:
        DataError: A file is missing.
    """
    found = []
    for name, language in zip(names, split_pair(direction), strict=True):
        paths = sorted(root.rglob(name.format(language)))
        if not paths:
            raise DataError(f"no {name.format(language)} in {root} or its folders; unpack its archive there")
        found.append(paths[0])
    return Files(*found)
