"""Yelp: reviews with 1 to 5 stars, the classes (https://www.yelp.com/dataset; only for those who accept its terms).

Layout, as unpacked, one object of JSON a line with `stars` and `text`:

    [yelp_dataset/]yelp_academic_dataset_review.json

The file has no sets. As in An et al. 2020, "Repulsive Attention", appendix B.2.1, up to 500,000 reviews are for
training, 2,000 for validation and 2,000 for test, but at most a tenth of all for each of the last two. A hash of each
line draws them; the paper does not describe its own drawing, which therefore cannot be reproduced. Ids are <set>-<line
of the file>; the stars are utt2domain.
"""

import hashlib
from array import array
from pathlib import Path

import numpy as np

from espnet_diverse.corpora import EVERYTHING, Selection
from espnet_diverse.corpora.shared.directions import refuse_names
from espnet_diverse.corpora.shared.labelled import LabelledReader, first_file, json_rows, refuse_empty
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.lines import numbered_lines

SETS = ("train", "dev", "test")
TABLES = ("text",)
OPTIONS = ("case",)
LABELS = ("1", "2", "3", "4", "5")
NO_DOWNLOAD = (
    "Yelp gives its dataset to those who accept its terms; unpack it and give its folder, to run.sh as --corpus_dir DIR"
)
FILE = "yelp_academic_dataset_review.json"
SIZES = {"test": 2000, "dev": 2000, "train": 500_000}
_SHARE = 10


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Draw the reviews and read them.

    Args:
        corpus_dir: Folder of the file, or its parent.
        selection: Options. Empty reviews and characters that are not allowed are errors unless `on_bad="drop"`.

    Returns:
        The sets train, dev and test with text and utt2domain.

    Raises:
        DataError: The file is missing or faulty; the message names file and line.
    """
    root = corpus_dir.absolute()
    refuse_names(selection, SETS, "the sets are drawn from one file")
    path = first_file(root, [FILE, f"yelp_dataset/{FILE}"], "the reviews of Yelp's dataset; unpack it there")
    drawn = _draw(path)
    reader, faults = LabelledReader(selection, LABELS), list[Fault]()
    sets = {name: DataDir() for name in selection.wanted(SETS)}
    for number, row in json_rows(path, faults):
        name = drawn.get(number)
        if name in sets:
            reader.add(sets[name], f"{name}-{number:08d}", (path, number), _stars(row.get("stars")), [row.get("text")])
    for fault in faults:  # of a line that is not drawn, too
        reader.faults.add_lines(sets.get(drawn.get(fault.where, ""), next(iter(sets.values()))), "review", [fault])
    reader.faults.refuse()
    refuse_empty(sets, root)
    return sets


def _draw(path: Path) -> dict[int, str]:
    """The set of each drawn line, by the line's number."""
    faults, numbers, places = [], array("Q"), array("Q")
    for number, line in numbered_lines(path, faults):
        if line.strip():
            numbers.append(number)
            digest = hashlib.sha256(line.encode("utf-8", "surrogatepass")).digest()
            places.append(int.from_bytes(digest[:8], "big"))
    refuse([fault for fault in faults if fault.where is None])
    remaining = np.frombuffer(numbers, np.uint64)[np.argsort(np.frombuffer(places, np.uint64), kind="stable")].tolist()
    most, drawn = len(remaining) // _SHARE, {}
    for name, size in SIZES.items():
        size = size if name == "train" else min(size, most)
        drawn |= dict.fromkeys(remaining[:size], name)
        remaining = remaining[size:]
    return drawn


def _stars(value: object) -> object:
    """Stars as a class, "4" for 4 and 4.0; anything else stays what it is."""
    valid = isinstance(value, int | float) and not isinstance(value, bool) and value in range(1, 6)
    return str(int(value)) if valid else value
