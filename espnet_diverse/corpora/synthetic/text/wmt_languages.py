"""Synthetic WMT of 14 languages: <split>.<language>-en.{<language>,en}.

The grammar lacks most of the languages. They are represented by English whose letters are shifted, by a different
number for each language, and which ends in the name of the language: a model has to read each in its own way.
"""

from pathlib import Path
from string import ascii_lowercase

from espnet_diverse.corpora.synthetic.grammar import LANGUAGES as WRITTEN
from espnet_diverse.corpora.synthetic.text.parallel_text import Texts, column, generator, write_lines
from espnet_diverse.corpora.wmt_languages import LANGUAGES

KNOWN = tuple(language for language in LANGUAGES if language in WRITTEN)
COUNTS = {
    "tiny": {"train": 8, "dev": 2, "test": 2},
    "demo": {"train": 400, "dev": 20, "test": 30},
}


def _write(folder: Path, texts: Texts) -> None:
    for split, data in texts.items():
        english = column(data, -1)
        for number, language in enumerate(LANGUAGES, start=1):
            known = language in KNOWN
            lines = (
                column(data, KNOWN.index(language)) if known else [_shifted(text, number, language) for text in english]
            )
            write_lines(folder / f"{split}.{language}-en.{language}", lines)
            write_lines(folder / f"{split}.{language}-en.en", english)


def _shifted(text: str, by: int, language: str) -> str:
    letters = str.maketrans(ascii_lowercase, ascii_lowercase[by:] + ascii_lowercase[:by])
    return f"{text.lower().translate(letters)} {language}"


make = generator("wmt_languages", (*KNOWN, "en"), COUNTS, 14000, _write)
