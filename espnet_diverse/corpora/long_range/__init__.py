"""Texts with one class each, in the layout of Long Range Arena, for classifiers of long sequences.

Tay et al. 2021, "Long Range Arena: A Benchmark for Efficient Transformers". A set is one table with tabs:

    [basic_]{train,val,test}.tsv        a line Source<TAB>Target, then a text and its class in each line

`val` becomes dev, and the class is the value of utt2domain. Each module, a task of the benchmark, generates such tables
itself (`prepare CORPUS --corpus synthetic`), in any number and length.
"""

import random
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.shared.row_faults import RowFaults, sound_lines
from espnet_diverse.corpora.synthetic import make_once
from espnet_diverse.data.faults import Fault
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import ConfigError, DataError

SETS = ("train", "dev", "test")
TABLES = ("text", "utt2domain")
OPTIONS = ("lengths", "counts", "split_seed")
FILES = {"train": "train", "dev": "val", "test": "test"}
HEADER = "Source\tTarget"
COUNTS = {"tiny": (16, 4, 4), "demo": (2000, 200, 400)}
"""Number of texts of train, dev and test by size."""
#: A text -> its form in the table `text`, and why it cannot be read, or "".
Convert = Callable[[str], tuple[str, str]]
_PATIENCE = 100_000  # draws without a new text

#: A text and its class, given a random generator and the least and greatest length; None where a draw failed.
Draw = Callable[[random.Random, int, int], tuple[str, str] | None]


def read_sets(
    corpus_dir: Path, selection: Selection, convert: Convert, labels: Callable[[str], bool]
) -> dict[str, DataDir]:
    """Read the tables.

    Args:
        corpus_dir: Folder of the tables.
        selection: Options. Rows with faults are errors unless `on_bad="drop"`.
        convert: Returns the form of a text in the table `text`, one character for each token, or why it cannot be read.
        labels: Whether a class is possible.

    Returns:
        The sets with text and utt2domain.

    Raises:
        DataError: A file is missing or faulty; the message names file and line.
    """
    sets, faults = {}, RowFaults(selection)
    for name in selection.wanted(SETS):
        stem = selection.name_of(name, FILES[name])
        paths = [corpus_dir / f"{prefix}{stem}.tsv" for prefix in ("basic_", "")]
        path = next((file for file in paths if file.is_file()), None)
        if path is None:
            raise DataError(f"{corpus_dir} has no {stem}.tsv; give a folder of such tables, or --corpus synthetic")
        sets[name] = _read(path, name, faults, convert, labels)
    faults.refuse()
    return sets


def _read(path: Path, name: str, faults: RowFaults, convert: Convert, labels: Callable[[str], bool]) -> DataDir:
    """One set."""
    data, of_lines, classes = DataDir(), list[Fault](), {}
    for number, line in sound_lines(path, of_lines):
        if number == 1 and line == HEADER:
            continue
        source, _, target = line.rpartition("\t")
        utterance = f"{name}-{number:07d}"
        text, reason = convert(source)
        if not reason and not (text and labels(target)):
            reason = f"is not a text, a tab and a class: {line[:40]!r}"
        if reason:
            faults.add(data, utterance, Fault(str(path), number, reason))
        else:
            data.text[utterance], classes[utterance] = text, target
    data.conditions["utt2domain"] = classes
    faults.add_lines(data, name, of_lines)
    if not data.text and not data.dropped and not faults.refused:
        faults.refused.append(Fault(str(path), None, "holds no text; get it again"))
    return data


def generate_sets(
    target_dir: Path, selection: Selection, size: str, draw: Draw, lengths: tuple[int, int], limit: int
) -> Path:
    """Write the tables of the three sets, which have no text in common.

    Args:
        target_dir: Output folder; tables with the same settings are kept.
        selection: `lengths`, `counts`, and `split_seed` as random seed.
        size: A key of `COUNTS`, the number of texts without `counts`.
        draw: Draws a text.
        lengths: Least and greatest length without `selection.lengths`.
        limit: The smallest possible value of the greatest length.

    Raises:
        ConfigError: A length or a number is not possible.
        DataError: There are fewer texts of this length, or `target_dir` has other files.
    """
    least, greatest = selection.lengths or lengths
    counts = selection.counts or COUNTS[size]
    if not (1 <= least <= greatest and greatest >= limit):
        raise ConfigError(f"--lengths {least} {greatest}: must be two numbers in order, the second at least {limit}")
    if min(counts) < 1:
        raise ConfigError(f"--counts {' '.join(map(str, counts))}: must be 1 or more of each set")

    def rows() -> Iterator[tuple[str, str, str]]:
        chance, seen = random.Random(selection.split_seed), set[bytes]()
        for name, count in zip(SETS, counts, strict=True):
            for _ in range(count):
                text, label = _new(draw, chance, least, greatest, seen)
                yield name, text, label

    def write(folder: Path) -> None:
        files = {name: (folder / f"{FILES[name]}.tsv").open("w", encoding="utf-8") for name in SETS}
        try:
            for file in files.values():
                file.write(f"{HEADER}\n")
            for name, text, label in rows():
                files[name].write(f"{text}\t{label}\n")
        finally:
            for file in files.values():
                file.close()

    settings = {"lengths": [least, greatest], "counts": list(counts), "seed": selection.split_seed}
    return make_once(target_dir, settings, next(rows()), write)


def _new(draw: Draw, chance: random.Random, least: int, greatest: int, seen: set[bytes]) -> tuple[str, str]:
    """Draw a text whose digest is not in `seen`, and add its digest."""
    for _ in range(_PATIENCE):
        drawn = draw(chance, least, greatest)
        if drawn is not None and (key := sha256(drawn[0].encode()).digest()[:8]) not in seen:
            seen.add(key)
            return drawn
    raise DataError(f"no other text of {least} to {greatest} tokens was drawn; ask for fewer, or for other --lengths")
