"""Fourteen languages of WMT with English, collected from several campaigns (https://www.statmt.org).

The corpus of Gong et al. 2021, "Pay Better Attention to Attention: Head Selection in Multilingual and Multi-Domain
Sequence Modeling", section 4.1, who take it from Liu et al. 2020, "Multilingual Denoising Pre-training for Neural
Machine Translation". It is not published as one. A pair of files for each set and language, plain or as .gz:

    {train,dev,test}.<language>-en.{<language>,en}      train.cs-en.cs train.cs-en.en; also valid.cs-en.cs

with the two languages in either order. By default all languages are read into English (many-to-one), and all must be
there; `pairs` and `languages` read others: `pairs=("en-cs", "en-de")` is one-to-many.
"""

from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection
from espnet_diverse.corpora.parallel_text import STEMS, Layout, chosen, read_layout
from espnet_diverse.corpora.shared.bitext import Reader
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import DataError

SETS = ("train", "dev", "test")
TABLES = ("src_text", "text")
OPTIONS = ("languages", "pairs", "zero_shot", "case", "segmentation")
LANGUAGES = ("cs", "de", "es", "et", "fi", "fr", "gu", "kk", "lt", "lv", "ro", "ru", "tr", "zh")
NO_DOWNLOAD = (
    "the languages of WMT are not published as one; collect them as train.cs-en.cs and so on, and give the folder"
)


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the files of all languages, or of the selected ones.

    Args:
        corpus_dir: The folder.
        selection: Options; by default all languages into English. Lines that are empty or have invalid characters are
            errors unless `on_bad="drop"`.

    Returns:
        The sets train, dev and test with text, src_text, utt2lang and utt2tgtlang.

    Raises:
        ConfigError: A direction is not available; the message lists the available ones.
        DataError: A file is missing or faulty; the message names file and line.
    """
    root = corpus_dir.absolute()
    layout = Layout((root,), chosen(STEMS, selection))
    if not (selection.pairs or selection.languages):
        lacking = [
            f"{name}.{language}-en"
            for name in layout.stems
            for language in LANGUAGES
            if layout.find(name, f"{language}-en") is None
        ]
        if lacking:
            todo = "get them, or name the directions to read with --pairs"
            raise DataError(f"{root}: has no pair of files {' '.join(lacking[:5])}{' ...' * bool(lacking[5:])}; {todo}")
    return read_layout(layout, Reader(selection, "wmt"), [f"{language}-en" for language in LANGUAGES])
