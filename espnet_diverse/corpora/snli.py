"""SNLI: 570 thousand pairs of English sentences and how they relate (CC BY-SA 4.0, https://nlp.stanford.edu/projects/snli).

Bowman et al., "A large annotated corpus for learning natural language inference", EMNLP 2015. Layout, as unpacked:

    [snli_1.0/]snli_1.0_{train,dev,test}.{jsonl,txt}

Each line has, by name, `gold_label` (entailment, contradiction or neutral), `sentence1` (the premise) and `sentence2`
(the hypothesis); of both layouts jsonl is read first. The premise becomes `src_text`, the hypothesis `text`, and the
label utt2domain. Pairs with the label "-", on which annotators did not agree, are left out and listed. Ids are
<set>-<line of the file>.
"""

from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection
from espnet_diverse.corpora.shared.labelled import LabelledReader, first_file, json_rows, refuse_empty, tab_rows
from espnet_diverse.data.faults import Fault
from espnet_diverse.data.kaldi import DataDir

SETS = ("train", "dev", "test")
TABLES = ("src_text", "text")
OPTIONS = ("case",)
LABELS = ("entailment", "contradiction", "neutral")
NO_DOWNLOAD = "SNLI is not downloaded here; unpack snli_1.0.zip and give its folder, to run.sh as --corpus_dir DIR"
FIELDS = ("gold_label", "sentence1", "sentence2")
_UNDECIDED = "-"


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the pairs.

    Args:
        corpus_dir: Folder of the files, or its parent.
        selection: Options. Empty sentences and characters that are not allowed are errors unless `on_bad="drop"`.

    Returns:
        The sets train, dev and test with src_text, text and utt2domain.

    Raises:
        DataError: A file is missing or faulty; the message names file and line.
    """
    root = corpus_dir.absolute()
    reader = LabelledReader(selection, LABELS)
    sets = {}
    for name in selection.wanted(SETS):
        stem = f"snli_1.0_{selection.name_of(name)}"
        names = [f"{folder}{stem}{suffix}" for suffix in (".jsonl", ".txt") for folder in ("", "snli_1.0/")]
        sets[name] = _read(first_file(root, names, "nor the same as .txt; unpack snli_1.0.zip there"), name, reader)
    reader.faults.refuse()
    refuse_empty(sets, root)
    return sets


def _read(path: Path, name: str, reader: LabelledReader) -> DataDir:
    data, faults = DataDir(), list[Fault]()
    for number, row in (json_rows if path.suffix == ".jsonl" else tab_rows)(path, faults):
        utterance = f"{name}-{number:07d}"
        if lacking := [field for field in FIELDS if field not in row]:
            reason = f"has no {lacking[0]}; get the file again"
            reader.faults.add(data, utterance, Fault(str(path), number, reason))
            continue
        label, *texts = (row[field] for field in FIELDS)
        if label == _UNDECIDED:
            data.dropped[utterance] = "label -: the annotators did not agree"
        else:
            reader.add(data, utterance, (path, number), label, texts)
    reader.faults.add_lines(data, name, faults)
    return data
