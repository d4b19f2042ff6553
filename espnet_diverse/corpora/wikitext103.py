"""WikiText-103: 28,475 articles of the English Wikipedia with 103 million words (CC BY-SA 3.0).

Merity et al., "Pointer Sentinel Mixture Models", arXiv:1609.07843. Layout, as unpacked:

    [wikitext-103/]wiki.{train,valid,test}.tokens

Words are separated by spaces, and words that occur less than three times are <unk>. Each line, a heading (" = Title =
") or a paragraph, becomes one text; empty lines are skipped. `<unk>`, which is reserved in vocabularies, is written as
⁇, as in sentencepiece's output. Ids are <set>-<article>-<line in the article>: sorted, they keep the order of the
texts, so that articles can be reassembled. `valid` becomes dev.
"""

import re
from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection
from espnet_diverse.corpora.shared.release import fetch_release
from espnet_diverse.corpora.shared.row_faults import RowFaults, sound_lines
from espnet_diverse.data.characters import clean_text, text_fault
from espnet_diverse.data.faults import Fault
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.normalisation import lower_case
from espnet_diverse.errors import DataError

SETS = ("train", "dev", "test")
TABLES = ("text",)
OPTIONS = ("case",)
SPLITS = {"train": "train", "dev": "valid", "test": "test"}
UNKNOWN = "⁇"
URL = "https://wikitext.smerity.com/wikitext-103-v1.zip"
_TITLE = re.compile(r"= [^=].* =")


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the three files.

    Args:
        corpus_dir: Folder of the files, or its parent.
        selection: Options. Lines with invalid characters are errors unless `on_bad="drop"`.

    Returns:
        The sets train, dev and test with the table `text`.

    Raises:
        DataError: A file is missing or faulty; the message names file and line.
    """
    root = corpus_dir.absolute()
    files = {name: f"wiki.{selection.name_of(name, SPLITS[name])}.tokens" for name in selection.wanted(SETS)}
    first = next(iter(files.values()))
    folder = next((f for f in (root, root / "wikitext-103") if (f / first).is_file()), None)
    if folder is None:
        raise DataError(f"no WikiText-103 in {root}: there is no {first}; unpack wikitext-103-v1.zip there")
    faults = RowFaults(selection)
    sets = {name: _read(folder / file, name, faults) for name, file in files.items()}
    faults.refuse()
    return sets


def download(target_dir: Path, selection: Selection = EVERYTHING, url: str = URL) -> Path:
    """Fetch and unpack the release (190 MB) into `target_dir`/wikitext103; its checksum is not published."""
    return fetch_release({url: None}, target_dir / "wikitext103")


def _read(path: Path, name: str, faults: RowFaults) -> DataDir:
    """One set."""
    data, of_lines = DataDir(), list[Fault]()
    article = place = 0
    for number, line in sound_lines(path, of_lines):
        text = clean_text(line.replace("<unk>", UNKNOWN))[0]
        if not text:
            continue
        article, place = (article + 1, 0) if _TITLE.fullmatch(text) else (article, place + 1)
        sentence = f"{name}-{article:05d}-{place:04d}"
        text = lower_case(text, "en") if faults.selection.case == "lower" else text
        if reason := text_fault(text):
            faults.add(data, sentence, Fault(str(path), number, reason))
        else:
            data.text[sentence] = text
    faults.add_lines(data, name, of_lines)
    if not data.text and not data.dropped and not faults.refused:
        faults.refused.append(Fault(str(path), None, "holds no text; get it again"))
    return data
