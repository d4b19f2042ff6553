"""WMT 2017 Chinese–English on News Commentary v12 alone: 227 thousand pairs to train on.

Bojar et al., "Findings of the 2017 Conference on Machine Translation", WMT 2017. The SDMA paper uses this part of the
task's data. Layout, after unpacking training-parallel-nc-v12.tgz and test.tgz in one folder:

    training/news-commentary-v12.zh-en.{zh,en}
    test/newstest2017-zhen-{src.zh,ref.en}.sgm

Every hundredth pair is for validation. With jieba segmentation, pairs of more than 175 words or with a length ratio
above 1.5 are left out of training, as by the paper's script. Without it, Chinese characters count as words, and the
limits are 250 words and a ratio of 3.
"""

from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection
from espnet_diverse.corpora.parallel_text import Layout, complete
from espnet_diverse.corpora.shared.bitext import Cleaning, Files, Reader
from espnet_diverse.corpora.shared.directions import refuse_names, translated_directions
from espnet_diverse.corpora.shared.release import fetch_release
from espnet_diverse.corpora.shared.sgm import find_segments, pair_segments
from espnet_diverse.data.faults import refuse
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import DataError

SETS = ("train", "dev", "test")
TABLES = ("src_text", "text")
OPTIONS = ("pairs", "case", "segmentation")
DIRECTIONS = ("zh-en",)
TRAINING = "news-commentary-v12.zh-en"
NEWS = "newstest2017"
SGM = ("newstest2017-zhen-src.{}.sgm", "newstest2017-zhen-ref.{}.sgm")
CLEANING = {"jieba": Cleaning(longest=175, ratio=1.5), "none": Cleaning(longest=250, ratio=3.0)}
DEV_EVERY = 100
# With the md5 checksum of the test sets as in sacrebleu; no checksum of the training text is published.
URLS = {
    "https://data.statmt.org/wmt17/translation-task/training-parallel-nc-v12.tgz": None,
    "https://data.statmt.org/wmt17/translation-task/test.tgz": "86a1724c276004aa25455ae2a04cef26",
}


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the official release.

    Args:
        corpus_dir: The folder that holds training and test.
        selection: Options. `segmentation="jieba"` segments the Chinese text into words.

    Returns:
        The sets train, dev and test with text, src_text, utt2lang and utt2tgtlang.

    Raises:
        ConfigError: The direction is not zh-en, or jieba is not installed.
        DataError: A file is missing or faulty; the message names file and line.
    """
    root = corpus_dir.absolute()
    refuse_names(selection, ("train", "dev"), "both are drawn from News Commentary")
    (direction,) = translated_directions(selection, DIRECTIONS, root)
    commentary = Reader(selection, "wmt17", CLEANING[selection.segmentation])
    news = Reader(selection, "wmt17", matched=pair_segments)
    sets = {name: DataDir() for name in SETS}
    wanted = selection.wanted(SETS)
    drawn = _training(root, direction) if wanted != ("test",) else None
    for pair in commentary.read(drawn, direction, "train", sets["train"]) if drawn else ():
        name = "dev" if pair.line % DEV_EVERY == 0 else "train"
        commentary.put(sets[name], [pair], direction, name)
    if "test" in wanted:
        names = tuple(file.replace(NEWS, selection.name_of("test", NEWS)) for file in SGM)
        news.add(sets["test"], find_segments(root, names, direction), direction, "test")
    refuse(commentary.faults.refused + news.faults.refused)
    return complete({name: sets[name] for name in wanted}, root)


def download(target_dir: Path, selection: Selection = EVERYTHING) -> Path:
    """Fetch and unpack the release (170 MB) into `target_dir`/wmt17."""
    return fetch_release(URLS, target_dir / "wmt17")


def _training(root: Path, direction: str) -> Files:
    files = Layout((root / "training", root), {"train": (TRAINING,)}).find("train", direction)
    if files is None:
        wanted = f"training/{TRAINING}.zh"
        raise DataError(f"no WMT17 in {root}: there is no {root}/{wanted}; unpack training-parallel-nc-v12.tgz there")
    return files
