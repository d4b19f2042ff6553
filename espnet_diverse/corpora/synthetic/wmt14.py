"""Synthetic WMT14 English–German: training, commoncrawl.de-en.{de,en} and the sgm files of the test sets."""

from pathlib import Path

from espnet_diverse.corpora.synthetic.parallel_text import COUNTS, Texts, column, make_text, sgm_lines, write_lines

LANGUAGES = ("de", "en")
PARTS = ("training/europarl-v7.de-en", "commoncrawl.de-en", "training/news-commentary-v9.de-en")
# Different for each corpus, so that corpora begin with different sentences.
SEED = 8000


def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make the synthetic corpus. Its files are determined by `seed` and `size`, and do not depend on `nj`.

    Raises:
        DataError: The size is unknown, or `target_dir` has other files.
    """
    return make_text(target_dir, "wmt14", LANGUAGES, COUNTS, SEED + seed, size, _write)


def _write(root: Path, texts: Texts) -> None:
    for place, language in enumerate(LANGUAGES):
        train, dev, test = (column(texts[split], place) for split in ("train", "dev", "test"))
        for number, part in enumerate(PARTS):
            write_lines(root / f"{part}.{language}", train[number :: len(PARTS)])
        write_lines(root / "test" / f"newstest2013-src.{language}.sgm", sgm_lines("srcset", dev))
        for kind in ("src", "ref"):
            path = root / "test-full" / f"newstest2014-deen-{kind}.{language}.sgm"
            write_lines(path, sgm_lines(f"{kind}set", test))
