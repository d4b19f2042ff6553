"""The sgm and xml files of evaluation campaigns (IWSLT, WMT): segments, paired by document and id.

A segment is on one line, <seg id="3">text</seg>; all other lines are markup, which may differ between the files.
"""

import html
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.corpora import split_pair
from espnet_diverse.corpora.shared.bitext import Files
from espnet_diverse.corpora.shared.row_faults import Lines, Sentence
from espnet_diverse.data.characters import clean_text
from espnet_diverse.data.faults import Fault
from espnet_diverse.errors import DataError

_DOCUMENT = re.compile(r"<doc\b(?:[^>]*?\bdocid=[\"']?([^\"'\s>]+))?", re.IGNORECASE)
_SEGMENT = re.compile(r"""<seg id=["']?([^"'>]+)["']?>(.*?)</seg>""", re.IGNORECASE)
_BEGINNING = re.compile(r"<seg\b", re.IGNORECASE)


class Key(NamedTuple):
    """A segment: its document, how many documents of this name precede it in the file, and its id."""

    document: str
    before: int
    segment: str

    def __str__(self) -> str:
        return f"segment {self.segment} of document {self.document or self.before + 1}"


def pair_segments(sides: Sequence[Lines]) -> tuple[list[tuple[Sentence, ...]], list[Fault]]:
    """Pair the segments of two files, in the order of the first.

    Returns:
        The pairs; and faults of lines: a segment is only in one file, twice in it, or not complete.
    """
    faults: list[Fault] = []
    parsed = [_segments(side, faults) for side in sides]
    for side, segments, other, other_segments in zip(sides, parsed, sides[::-1], parsed[::-1], strict=True):
        faults += [
            Fault(str(side.path), segments[key].line, f"{key} is not in {other.path.name}; get both files again")
            for key in segments
            if key not in other_segments
        ]
    source, target = parsed
    return [(source[key], target[key]) for key in source if key in target], faults


def _segments(side: Lines, faults: list[Fault]) -> dict[Key, Sentence]:
    sentences: dict[Key, Sentence] = {}
    documents: Counter[str] = Counter()
    document = ""
    for line, text in enumerate(side.texts, start=1):
        if begun := _DOCUMENT.search(text):
            document = begun[1] or ""
            documents[document] += 1
        segments = _SEGMENT.findall(text)
        if len(segments) != len(_BEGINNING.findall(text)):
            faults.append(Fault(str(side.path), line, f"has no <seg id=N>text</seg>, but {text[:40]!r}; write it so"))
        for number, content in segments:
            key = Key(document, max(0, documents[document] - 1), number.strip())
            sentence = Sentence(line, clean_text(html.unescape(content))[0], side.faults.get(line))
            if (first := sentences.setdefault(key, sentence)) is not sentence:
                faults.append(Fault(str(side.path), line, f"{key} is also in line {first.line}; remove one"))
    return sentences


def find_segments(root: Path, names: tuple[str, str], direction: str) -> Files:
    """The files of a set, in `root` or any folder in it.

    Args:
        root: Folder of the corpus.
        names: File names of source and target, with {} for the language.
        direction: Languages of source and target, such as "de-en".

    Raises:
        DataError: A file is missing.
    """
    files = []
    for name, language in zip(names, split_pair(direction), strict=True):
        paths = sorted(root.rglob(name.format(language)))
        if not paths:
            raise DataError(f"no {name.format(language)} in {root} or its folders; unpack its archive there")
        files.append(paths[0])
    return Files(*files)
