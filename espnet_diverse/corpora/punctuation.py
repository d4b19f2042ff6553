"""Written text whose case and punctuation a model restores: the source of each text is made from the text itself.

`espnet-diverse prepare punctuation DIR` reads texts of one language:

    {train,dev,test}.txt[.gz]     one text a line
    {train,dev,test}/text         a data directory with transcripts as they are written, of `--transcripts written`

The source is the text as `normalisation.for_wer` writes it, in lower case and without punctuation: what a recogniser
writes that was trained on scored transcripts. Texts without letters and digits are left out. `--languages tr` names the
language, which decides about the lower case of Turkish and Azerbaijani and makes the tables utt2lang and utt2tgtlang.
"""

from collections.abc import Iterator
from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection
from espnet_diverse.corpora.parallel_text import existing
from espnet_diverse.corpora.shared.row_faults import RowFaults, sound_lines
from espnet_diverse.data.characters import clean_text, text_fault
from espnet_diverse.data.faults import Fault
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.normalisation import for_wer
from espnet_diverse.data.tables import read_table
from espnet_diverse.errors import ConfigError, DataError

SETS = ("train", "dev", "test")
TABLES = ("src_text", "text")
OPTIONS = ("languages",)
NO_DOWNLOAD = "punctuation has no download; give a folder with train.txt, dev.txt and test.txt, one text a line"


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the texts and make their sources.

    Args:
        corpus_dir: The folder.
        selection: Options. Lines that are empty or have invalid characters are errors unless `on_bad="drop"`.

    Returns:
        The sets train, dev and test with text, src_text and, with a language, utt2lang and utt2tgtlang.

    Raises:
        ConfigError: Several languages are given.
        DataError: A set is missing or has no texts, or a line is faulty; the message names file and line.
    """
    if len(selection.languages) > 1:
        raise ConfigError(f"languages {' '.join(selection.languages)}: one model restores one language; give one")
    root, faults, sets = corpus_dir.absolute(), RowFaults(selection), {}
    for name in selection.wanted(SETS):
        sets[name] = data = DataDir()
        for place, utterance, text in _texts(root, selection.name_of(name), name, data, faults):
            _add(data, utterance, text, place, faults)
    faults.refuse()
    for name, data in sets.items():
        if not data.text:
            raise DataError(f"{root}: there are no texts with letters for the set {name}; write some")
    return sets


def _texts(root: Path, stem: str, name: str, data: DataDir, faults: RowFaults) -> Iterator[tuple[Fault, str, str]]:
    """Yield a place for faults, an id and the text of each line of a set."""
    lines, table = existing(root / f"{stem}.txt"), root / stem / "text"
    if lines is None and not table.is_file():
        todo = f"write texts to {stem}.txt, one a line, or name sets by --set_names"
        raise DataError(f"{root}: has neither {stem}.txt nor {stem}/text for the set {name}; {todo}")
    if lines is not None:
        of_lines: list[Fault] = []
        for number, line in sound_lines(lines, of_lines):
            yield Fault(str(lines), number, ""), f"{name}-{number:07d}", clean_text(line)[0]
        faults.add_lines(data, name, of_lines)
    if table.is_file():
        for utterance, text in read_table(table, "text").items():
            yield Fault(str(table), utterance, ""), utterance, text


def _add(data: DataDir, utterance: str, text: str, place: Fault, faults: RowFaults) -> None:
    """Add a text and its source to a set, or its fault."""
    reason = text_fault(text) if text else "is an empty line; remove it"
    if reason:
        faults.add(data, utterance, Fault(place.file, place.where, reason))
        return
    language = next(iter(faults.selection.languages), "")
    source = for_wer(text, language)
    if not source:
        data.dropped[utterance] = "has no letters or digits"
        return
    data.src_text[utterance], data.text[utterance] = source, text
    for table in ("utt2lang", "utt2tgtlang") if language else ():
        data.conditions.setdefault(table, {})[utterance] = language
