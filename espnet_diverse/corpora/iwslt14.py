"""IWSLT 2014 German–English: transcribed and translated TED talks (CC BY-NC-ND 3.0), 160,239 pairs to train on.

Cettolo et al., "Report on the 11th IWSLT evaluation campaign", IWSLT 2014. Two layouts are read:

    [de-en/]train.tags.de-en.{de,en}                the official release, de-en.tgz
    [de-en/]IWSLT14.TED.{dev2010,tst2010,tst2011,tst2012}.de-en.{de,en}.xml
    [de-en/]IWSLT14.TEDX.dev2012.de-en.{de,en}.xml
    {train,valid,test}.{de,en}                      output of fairseq's prepare-iwslt14.sh

The official release is split as by that script, as in published results: titles and descriptions count as sentences,
pairs of more than 175 words or with a length ratio above 1.5 are left out, every 23rd of the remaining pairs is for
validation, and the five files of earlier campaigns are the test set (6,750 pairs). The script tokenises with Moses
first. Here, punctuation marks are counted as words instead and the text is not tokenised, so the pairs left out differ
slightly. Sentences of the test sets are paired by talk and id. `case="lower"` gives the lower case of the published
results. In the script's own output, the marks of subwords and the escapes of Moses are undone; the text stays
tokenised.
"""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection, split_pair
from espnet_diverse.corpora.parallel_text import Layout, chosen, complete, from_tokens, read_layout
from espnet_diverse.corpora.shared.bitext import Cleaning, Files, Reader, in_order
from espnet_diverse.corpora.shared.directions import refuse_names, translated_directions
from espnet_diverse.corpora.shared.release import fetch_release
from espnet_diverse.corpora.shared.row_faults import Lines, Sentence
from espnet_diverse.corpora.shared.sgm import pair_segments
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import DataError

SETS = ("train", "dev", "test")
TABLES = ("src_text", "text")
OPTIONS = ("pairs", "case")
DIRECTIONS = ("de-en", "en-de")
TOKENISED = {"train": ("train",), "dev": ("valid",), "test": ("test",)}
# File names that identify the official release, even if only its test sets exist.
OFFICIAL = ("train.tags.de-en.de*", "IWSLT14.*.de-en.de.xml*")
TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
CLEANING = Cleaning(longest=175, ratio=1.5)
DEV_EVERY = 23
URL = "http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"
_MARKUP = re.compile(r"</?(?!title>|description>)[a-z]\w*\b[^<>]*>", re.IGNORECASE)
_TITLE = re.compile(r"</?(title|description)>")


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the official release, or the files of fairseq.

    Args:
        corpus_dir: Folder of the release or of the script's output.
        selection: Options; de-en by default.

    Returns:
        The sets train, dev and test with text, src_text, utt2lang and utt2tgtlang.

    Raises:
        ConfigError: The direction is neither de-en nor en-de.
        DataError: A file is missing or faulty; the message names file and line.
    """
    root = corpus_dir.absolute()
    folder = root / "de-en" if (root / "de-en").is_dir() else root
    if not any(path.exists() for name in OFFICIAL for path in folder.glob(name)):
        layout = Layout((root,), chosen(TOKENISED, selection))
        if not layout.directions():
            official = f"{root}/[de-en/]train.tags.de-en.de"
            raise DataError(f"no IWSLT14 in {root}: there is neither {official} nor {root}/train.de; unpack de-en.tgz")
        return read_layout(layout, Reader(selection, "iwslt14", text_of=from_tokens), DIRECTIONS[:1])
    return _official(folder, selection)


def download(target_dir: Path, selection: Selection = EVERYTHING, url: str = URL) -> Path:
    """Fetch and unpack de-en.tgz (19 MB) into `target_dir`/iwslt14; its checksum is not published."""
    return fetch_release({url: None}, target_dir / "iwslt14")


def _official(folder: Path, selection: Selection) -> dict[str, DataDir]:
    directions = translated_directions(selection, DIRECTIONS, folder, DIRECTIONS[:1])
    talks = Reader(selection, "iwslt14", CLEANING, matched=partial(in_order, text_of=talk_line, talk="<url>"))
    tests = Reader(selection, "iwslt14", matched=_spoken)
    refuse_names(selection, ("train", "dev"), "in the official layout both are drawn from train.tags")
    renamed = dict(selection.set_names).get("test")
    sets, wanted = {name: DataDir() for name in SETS}, selection.wanted(SETS)
    for direction in directions:
        files = _files(folder, "train.tags.de-en.{}", direction)
        pairs = talks.read(files, direction, "train", sets["train"]) if wanted != ("test",) else ()
        for number, pair in enumerate(pairs, start=1):
            name = "dev" if number % DEV_EVERY == 0 else "train"
            talks.put(sets[name], [pair], direction, name)
        for test in ((renamed,) if renamed else TESTS) if "test" in wanted else ():
            files = _files(folder, f"IWSLT14.{test}.de-en.{{}}.xml", direction)
            tests.add(sets["test"], files, direction, f"test-{test}")
    refuse(talks.faults.refused + tests.faults.refused)
    return complete({name: sets[name] for name in wanted}, folder)


def _files(folder: Path, name: str, direction: str) -> Files:
    return Files(*(folder / name.format(language) for language in split_pair(direction)))


def talk_line(line: str) -> str | None:
    """Text of a line of train.tags; None for markup other than the title and description of a talk."""
    return None if _MARKUP.match(line) else _TITLE.sub("", line)


def _spoken(sides: Sequence[Lines]) -> tuple[list[tuple[Sentence, ...]], list[Fault]]:
    """The segments of a test set in pairs, with plain apostrophes as in the training text."""
    pairs, faults = pair_segments(sides)
    plain = [tuple(one._replace(text=one.text.replace("\u2019", "'")) for one in pair) for pair in pairs]
    return plain, faults
