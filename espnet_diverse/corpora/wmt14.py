"""WMT 2014: the news translation task, 4.5 million pairs of English–German and 41 million of English–French.

Bojar et al., "Findings of the 2014 Workshop on Statistical Machine Translation", WMT 2014. Three layouts are read.
The validation set is newstest2013, the test set newstest2014:

    training/europarl-v7.de-en.{de,en}              the official release: the archives that fairseq's
    [training/]commoncrawl.de-en.{de,en}            prepare-wmt14en2de.sh --icml17 fetches, unpacked in one folder,
    training/news-commentary-v9.de-en.{de,en}       and test.tgz of WMT 2013 for newstest2013; v12 is read, too
    {dev,test}/newstest2013-src.{de,en}.sgm
    test-full/newstest2014-deen-{src,ref}.{de,en}.sgm
    the same with fr for de, and                    English–French, as its prepare-wmt14en2fr.sh; files may end in .gz
    [un/]undoc.2000.fr-en.{fr,en}, giga-fren.release2.fixed.{fr,en}
    {train,newstest2013,newstest2014}.{de,en}       Stanford's tokenised copy (https://nlp.stanford.edu/projects/nmt)
    {train,valid,test}.{de,en}                      output of that script, whose valid is a part of the training text

In the official release, pairs of more than 250 words or with a length ratio above 1.5 are left out of training. In the
two tokenised layouts, subword marks, escapes and split compounds (rich ##AT##-##AT## text) are undone; the text stays
tokenised. English–German takes about 8 GB of memory; English–French, nine times as large, was never read as a whole.
"""

from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection, split_pair
from espnet_diverse.corpora.parallel_text import Layout, chosen, complete, from_tokens, read_layout
from espnet_diverse.corpora.shared.bitext import Cleaning, Files, Reader
from espnet_diverse.corpora.shared.directions import refuse_names, translated_directions
from espnet_diverse.corpora.shared.release import fetch_release
from espnet_diverse.corpora.shared.sgm import find_segments, pair_segments
from espnet_diverse.data.faults import refuse
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import DataError

SETS = ("train", "dev", "test")
TABLES = ("src_text", "text")
OPTIONS = ("pairs", "case")
DIRECTIONS = ("en-de", "de-en", "en-fr", "fr-en")
TOKENISED = {"train": ("train",), "dev": ("newstest2013", "valid"), "test": ("newstest2014", "test")}
TRAINING = {
    "de": ("europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v9.de-en", "news-commentary-v12.de-en"),
    "fr": ("europarl-v7.fr-en", "commoncrawl.fr-en", "undoc.2000.fr-en", "news-commentary-v9.fr-en")
    + ("giga-fren.release2.fixed",),
}
"""Parts of the training text by the other language."""
NEWS = {"dev": "newstest2013", "test": "newstest2014"}
# File names of source and target, of which some have the other language. newstest2013 has one file per language.
SGM = {
    "dev": ("newstest2013-src.{}.sgm", "newstest2013-src.{}.sgm"),
    "test": ("newstest2014-OTHERen-src.{}.sgm", "newstest2014-OTHERen-ref.{}.sgm"),
}
CLEANING = Cleaning(longest=250, ratio=1.5)
# With the md5 checksums of the test sets as in sacrebleu; no checksums of the other files are published.
URLS = {
    "https://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz": None,
    "https://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz": None,
    "https://www.statmt.org/wmt14/training-parallel-nc-v9.tgz": None,
    "https://www.statmt.org/wmt13/test.tgz": "48eca5d02f637af44e85186847141f67",
    "https://www.statmt.org/wmt14/test-full.tgz": "a8cd784e006feb32ac6f3d9ec7eb389a",
}
FRENCH_URLS = {
    "https://www.statmt.org/wmt13/training-parallel-un.tgz": None,
    "https://www.statmt.org/wmt10/training-giga-fren.tar": None,
}
"""Further files of English–French."""


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read one of the three layouts.

    Args:
        corpus_dir: Folder of one of the layouts.
        selection: Options; en-de by default.

    Returns:
        The sets train, dev and test with text, src_text, utt2lang and utt2tgtlang.

    Raises:
        ConfigError: There is no such direction.
        DataError: A file is missing or faulty; the message names file and line.
    """
    root = corpus_dir.absolute()
    layout = Layout((root,), chosen(TOKENISED, selection))
    if layout.directions():
        return read_layout(layout, Reader(selection, "wmt14", text_of=from_tokens), DIRECTIONS[:1])
    refuse_names(selection, ("train",), "in the official layout it has the campaign's files")
    directions = translated_directions(selection, DIRECTIONS, root, DIRECTIONS[:1])
    plain, news = Reader(selection, "wmt14", CLEANING), Reader(selection, "wmt14", matched=pair_segments)
    sets = {name: DataDir() for name in selection.wanted(SETS)}
    for direction in directions:
        for part, files in (_training(root, direction) if "train" in sets else {}).items():
            plain.add(sets["train"], files, direction, f"train-{part}")
        for name in (name for name in SGM if name in sets):
            campaign = selection.name_of(name, NEWS[name])
            names = tuple(file.replace(NEWS[name], campaign).replace("OTHER", _other(direction)) for file in SGM[name])
            news.add(sets[name], find_segments(root, names, direction), direction, name)
    refuse(plain.faults.refused + news.faults.refused)
    return complete(sets, root)


def download(target_dir: Path, selection: Selection = EVERYTHING) -> Path:
    """Fetch and unpack the official release.

    English–German is 1.7 GB, then 6 GB more, in `target_dir`/wmt14; with a direction of French, the further files of
    that are fetched too, into `target_dir`/wmt14_fr.
    """
    if any(_other(pair) == "fr" for pair in selection.pairs):
        return fetch_release(URLS | FRENCH_URLS, target_dir / "wmt14_fr")
    return fetch_release(URLS, target_dir / "wmt14")


def _other(direction: str) -> str:
    """Return the language of a direction that is not English."""
    source, target = split_pair(direction)
    return source if target == "en" else target


def _training(root: Path, direction: str) -> dict[str, Files]:
    """Files of each available part of the training text."""
    other = _other(direction)
    stems = {part.removesuffix(f".{other}-en"): (part,) for part in TRAINING[other]}
    layout = Layout((root / "training", root, root / "un"), stems)
    parts = {part: layout.find(part, direction) for part in stems}
    available = {part: files for part, files in parts.items() if files is not None}
    if not available:
        where = f"{root}/training/europarl-v7.{other}-en.{other}"
        raise DataError(f"no WMT14 in {root}: there is neither {where} nor train.{other}")
    return available
