"""A replica of WMT17 Chinese–English: training/news-commentary-v12.zh-en.{zh,en} and newstest2017."""

from pathlib import Path

from espnet_diverse.corpora.synthetic.parallel_text import Texts, column, make_text, sgm_lines, write_lines

LANGUAGES = ("zh", "en")
# `prepare` takes every hundredth sentence of train to validate.
COUNTS = {
    "tiny": {"train": 400, "test": 8},
    "demo": {"train": 2600, "test": 200},
}
# No two corpora begin with the same sentences.
SEED = 9000


def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make the replica; its files depend on `seed` and `size` to the bit, and not on `nj`.

    Raises:
        DataError: an unknown size; `target_dir` holds something else.
    """
    return make_text(target_dir, "wmt17", LANGUAGES, COUNTS, SEED + seed, size, _write)


def _write(root: Path, texts: Texts) -> None:
    for place, (language, kind) in enumerate(zip(LANGUAGES, ("src", "ref"), strict=True)):
        train, test = (column(texts[split], place) for split in ("train", "test"))
        write_lines(root / "training" / f"news-commentary-v12.zh-en.{language}", train)
        path = root / "test" / f"newstest2017-zhen-{kind}.{language}.sgm"
        write_lines(path, sgm_lines(f"{kind}set", test))
