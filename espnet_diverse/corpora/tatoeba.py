"""Tatoeba: short everyday sentences that volunteers translate (CC BY 2.0 FR, https://tatoeba.org).

Two layouts are read, each also as .gz:

    {train,dev,test}.<a>-<b>.{<a>,<b>}                  split beforehand: train.de-en.de train.de-en.en
    [<a>-<b>/]Tatoeba.<a>-<b>.{<a>,<b>}                 what OPUS publishes (Tiedemann 2012, "Parallel data, tools and
                                                        interfaces in OPUS"); Mandarin is cmn or zh there

Of the latter, pairs that stand twice are read once, and sets are chosen by a hash of the English sentence (or of the
sentence that is first by its language's code): one in 200 goes to dev and one to test. So no sentence of a test set is
in the training text of another language either.

Every pair is read in both directions. Where none is named, all directions into English are trained (many-to-one);
`pairs=("en-de", "en-fr")` and so on trains one-to-many.
"""

import hashlib
import re
from dataclasses import replace
from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection, split_pair
from espnet_diverse.corpora.parallel_text import Layout, complete, existing, read_layout
from espnet_diverse.corpora.shared.bitext import Files, Pair, Reader
from espnet_diverse.corpora.shared.directions import translated_directions
from espnet_diverse.corpora.shared.release import fetch_release
from espnet_diverse.data.faults import refuse
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
        corpus_dir: Its folder.
        selection: Directions, all into English where none is named.

    Returns:
        The sets train, dev and test, of text alone, with utt2lang and utt2tgtlang.

    Raises:
        ConfigError: a direction is not there; those that are there are listed.
        DataError: naming file and line of what is wrong, or what is missing.
    """
    root = corpus_dir.absolute()
    published = _published(root)
    layout = Layout((root,), STEMS)
    if not published:
        into_english = [direction for direction in layout.directions() if direction.endswith("-en")]
        return read_layout(layout, Reader(selection, "tatoeba"), into_english)
    if not (selection.pairs or selection.languages or selection.zero_shot):
        selection = replace(selection, pairs=tuple(name for name in published if name.endswith("-en")))
    reader = Reader(selection, "tatoeba")
    sets = {name: DataDir() for name in SETS}
    for direction, trained in translated_directions(selection, list(published), root).items():
        pairs = reader.read(published[direction], direction, "train", sets["train"].dropped)
        for pair in {(pair.source, pair.target): pair for pair in reversed(pairs)}.values():
            name = _set(pair, direction)
            if trained or name == "test":
                reader.put(sets[name], [pair], direction, name)
    refuse(reader.faults)
    return complete(sets, root)


def download(target_dir: Path, selection: Selection = EVERYTHING, url: str = URL) -> Path:
    """Fetch what OPUS publishes in the languages of the selection (25 MB) into `target_dir`/tatoeba, without checksums.

    Returns:
        The corpus directory for `prepare`; at once where an earlier call finished.
    """
    named = [sorted(split_pair(pair)) for pair in (*selection.pairs, *selection.zero_shot)]
    named = named or [sorted((language, "en")) for language in selection.languages or LANGUAGES]
    pairs = sorted({"-".join(sorted("cmn" if code == "zh" else code for code in pair)) for pair in named})
    return fetch_release({f"{url}/{pair}.txt.zip": None for pair in pairs}, target_dir / "tatoeba")


def _published(root: Path) -> dict[str, Files]:
    """Files of OPUS by direction."""
    found = {}
    for path in sorted([*root.glob("Tatoeba.*"), *root.glob("*/Tatoeba.*")]):
        name = _OPUS.fullmatch(path.name)
        if name:
            sides = [existing(path.parent / f"Tatoeba.{name[1]}-{name[2]}.{language}") for language in name.groups()]
            first, second = ("zh" if code == "cmn" else code for code in name.groups())
            if all(sides):
                found[f"{first}-{second}"] = Files(*sides)
                found[f"{second}-{first}"] = Files(*reversed(sides))
    return found


def _set(pair: Pair, direction: str) -> str:
    """The set of a pair, by the hash of its English side."""
    languages = split_pair(direction)
    side = languages.index("en" if "en" in languages else min(languages))
    place = int.from_bytes(hashlib.sha256(pair[1 + side].encode()).digest()[:4], "big") % SHARE
    return {0: "dev", 1: "test"}.get(place, "train")
