"""Synthetic WMT17 Chinese–English: training/news-commentary-v12.zh-en.{zh,en} and newstest2017."""

from pathlib import Path

from espnet_diverse.corpora.synthetic.parallel_text import Texts, column, make_text, sgm_lines, write_lines

LANGUAGES = ("zh", "en")
# `prepare` moves every hundredth sentence of train to dev.
COUNTS = {
    "tiny": {"train": 400, "test": 8},
    "demo": {"train": 2600, "test": 200},
}
# Different for each corpus, so that corpora begin with different sentences.
SEED = 9000


def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make the synthetic corpus. Its files are determined by `seed` and `size`, and do not depend on `nj`.

    Raises:
        DataError: The size is unknown, or `target_dir` has other files.
    """
    return make_text(target_dir, "wmt17", LANGUAGES, COUNTS, SEED + seed, size, _write)


def _write(root: Path, texts: Texts) -> None:
    for place, (language, kind) in enumerate(zip(LANGUAGES, ("src", "ref"), strict=True)):
        train, test = (column(texts[split], place) for split in ("train", "test"))
        write_lines(root / "training" / f"news-commentary-v12.zh-en.{language}", train)
        path = root / "test" / f"newstest2017-zhen-{kind}.{language}.sgm"
        write_lines(path, sgm_lines(f"{kind}set", test))
