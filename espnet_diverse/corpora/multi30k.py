"""Multi30k: descriptions of 31,014 pictures in English, German, French and Czech (task 1, for research use).

Elliott et al., "Multi30K: Multilingual English-German Image Descriptions", 2016; the French and Czech texts and the
later test sets are from the WMT multimodal tasks 2017 and 2018. https://github.com/multi30k/dataset

    [data/task1/][raw/]{train,val}.{en,de,fr,cs}[.gz]          29,000 and 1,014 sentences
    [data/task1/][raw/]test_2016_flickr.{en,de,fr,cs}[.gz]     1,000
    [data/task1/][raw/]test_2017_flickr.{en,de,fr}[.gz]        1,000
    [data/task1/][raw/]test_2017_mscoco.{en,de,fr}[.gz]        461

In the folder data/task1/tok, the files <split>.lc.norm.tok.<language> are read: lower case, with punctuation normalised
and tokenised by Moses, as in many papers.

All sentences are in all languages, so any of the twelve directions can be trained; the default is en-de.
"""

from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection
from espnet_diverse.corpora.parallel_text import Layout, chosen, from_tokens, read_layout
from espnet_diverse.corpora.shared.bitext import Reader
from espnet_diverse.corpora.shared.release import fetch_release
from espnet_diverse.data.kaldi import DataDir

SETS = ("train", "dev", "test_2016_flickr")
TABLES = ("src_text", "text")
OPTIONS = ("languages", "pairs", "zero_shot", "case")
DEFAULT = ("en-de",)
LANGUAGES = ("en", "de", "fr", "cs")
SPLITS = {
    "train": "train",
    "dev": "val",
    "test_2016_flickr": "test_2016_flickr",
    "test_2017_flickr": "test_2017_flickr",
    "test_2017_mscoco": "test_2017_mscoco",
}
MORE_SETS = ("test_2017_flickr", "test_2017_mscoco")
STEMS = {name: (stem, f"{stem}.lc.norm.tok") for name, stem in SPLITS.items()}
URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the files.

    Args:
        corpus_dir: Folder of the files, or a copy of the corpus's repository.
        selection: Options; en-de by default.

    Returns:
        The sets train, dev, test_2016_flickr and, if the languages have them, test_2017_flickr and test_2017_mscoco,
        with text, src_text, utt2lang and utt2tgtlang.

    Raises:
        ConfigError: A direction is not available; the message lists the available ones.
        DataError: A file is missing or faulty; the message names file and line.
    """
    root = corpus_dir.absolute()
    layout = Layout((root, root / "raw", root / "data" / "task1" / "raw"), chosen(STEMS, selection))
    return read_layout(layout, Reader(selection, "multi30k", text_of=from_tokens), DEFAULT)


def download(target_dir: Path, selection: Selection = EVERYTHING, url: str = URL) -> Path:
    """Fetch the files of task 1 (4 MB) into `target_dir`/multi30k; checksums are not published."""
    files = [f"{stem}.{language}.gz" for stem in SPLITS.values() for language in LANGUAGES]
    # The sets of 2017 have no Czech side.
    published = [file for file in files if not ("2017" in file and ".cs." in file)]
    return fetch_release({f"{url}/{file}": None for file in published}, target_dir / "multi30k")
