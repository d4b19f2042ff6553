"""Tatoeba: short everyday sentences that volunteers translate (CC BY 2.0 FR, https://tatoeba.org).

Two layouts are read, plain or as .gz:

    {train,dev,test}.<a>-<b>.{<a>,<b>}                  split beforehand: train.de-en.de train.de-en.en
    [<a>-<b>/]Tatoeba.<a>-<b>.{<a>,<b>}                 as published by OPUS (Tiedemann 2012, "Parallel data, tools and
                                                        interfaces in OPUS"), where Mandarin is cmn or zh

In OPUS's layout, duplicate pairs are read once, and a hash of the English sentence selects the set (without English,
the sentence whose language code is first in the alphabet): one in 200 goes to dev and one to test. Pairs whose other
sentence is in a set that is tested, with another translation, are left out. Therefore no sentence of a test set, of
either side, is in the training text of any direction.

Every pair can be read in both directions. By default all directions into English are trained (many-to-one);
`pairs=("en-de", "en-fr")`, for example, trains one-to-many.
"""

import hashlib
import re
from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection, split_pair
from espnet_diverse.corpora.parallel_text import Layout, chosen, complete, existing, read_layout
from espnet_diverse.corpora.shared.bitext import Files, Pair, Reader
from espnet_diverse.corpora.shared.directions import refuse_names, translated_directions
from espnet_diverse.corpora.shared.release import fetch_release
from espnet_diverse.data.kaldi import DataDir

SETS = ("train", "dev", "test")
TABLES = ("src_text", "text")
OPTIONS = ("languages", "pairs", "zero_shot", "case", "segmentation")
STEMS = {"train": ("train",), "dev": ("dev",), "test": ("test",)}
LANGUAGES = ("ar", "de", "el", "es", "fr", "zh")
SHARE = 200
URL = "https://object.pouta.csc.fi/OPUS-Tatoeba/v2023-04-12/moses"
_OPUS = re.compile(r"Tatoeba\.([a-z]{2,3})-([a-z]{2,3})\.[a-z]{2,3}(?:\.gz)?")


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read one of the two layouts.

    Args:
        corpus_dir: Folder of either layout.
        selection: Options; by default all directions into English.

    Returns:
        The sets train, dev and test with text, src_text, utt2lang and utt2tgtlang.

    Raises:
        ConfigError: A direction is not available; the message lists the available ones.
        DataError: A file is missing or faulty; the message names file and line.
    """
    root = corpus_dir.absolute()
    published = _published(root)
    layout = Layout((root,), chosen(STEMS, selection))
    into_english = [direction for direction in published or layout.directions() if direction.endswith("-en")]
    if not published:
        return read_layout(layout, Reader(selection, "tatoeba"), into_english)
    refuse_names(selection, SETS, "in OPUS's layout the sets are drawn from one text")
    reader = Reader(selection, "tatoeba")
    sets = {name: DataDir() for name in SETS}
    drawn: list[tuple[str, Pair, str]] = []
    for direction, trained in translated_directions(selection, list(published), root, into_english).items():
        pairs = reader.read(published[direction], direction, "train", sets["train"])
        for pair in {(pair.source, pair.target): pair for pair in reversed(pairs)}.values():
            name = _set(pair, direction)
            if trained or name == "test":
                drawn.append((direction, pair, name))
    reader.put_apart(sets, drawn)
    reader.faults.refuse()
    return complete({name: sets[name] for name in selection.wanted(SETS)}, root)


def download(target_dir: Path, selection: Selection = EVERYTHING, url: str = URL) -> Path:
    """Fetch OPUS's files for the selected languages (25 MB) into `target_dir`/tatoeba; checksums are not published.

    Returns:
        The corpus directory for `prepare`; pairs of languages that exist are not fetched again.
    """
    trained = selection.pairs or [f"{language}-en" for language in selection.languages or LANGUAGES]
    named = map(split_pair, (*trained, *selection.zero_shot))
    pairs = sorted({"-".join(sorted("cmn" if code == "zh" else code for code in pair)) for pair in named})
    for pair in pairs:
        fetch_release({f"{url}/{pair}.txt.zip": None}, target_dir / "tatoeba" / pair)
    return target_dir / "tatoeba"


def _published(root: Path) -> dict[str, Files]:
    """OPUS's files by direction."""
    files = {}
    for path in sorted([*root.glob("Tatoeba.*"), *root.glob("*/Tatoeba.*")]):
        name = _OPUS.fullmatch(path.name)
        if name:
            sides = [existing(path.parent / f"Tatoeba.{name[1]}-{name[2]}.{language}") for language in name.groups()]
            first, second = ("zh" if code == "cmn" else code for code in name.groups())
            if all(sides):
                files[f"{first}-{second}"] = Files(*sides)
                files[f"{second}-{first}"] = Files(*reversed(sides))
    return files


def _set(pair: Pair, direction: str) -> str:
    """The set of a pair, by the hash of its English sentence."""
    languages = split_pair(direction)
    side = languages.index("en" if "en" in languages else min(languages))
    place = int.from_bytes(hashlib.sha256(pair[1 + side].encode()).digest()[:4], "big") % SHARE
    return {0: "dev", 1: "test"}.get(place, "train")
