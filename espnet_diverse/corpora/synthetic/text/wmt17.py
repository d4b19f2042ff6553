"""Synthetic WMT17 Chinese–English: training/news-commentary-v12.zh-en.{zh,en} and newstest2017."""

from pathlib import Path

from espnet_diverse.corpora.synthetic.text.parallel_text import Texts, column, generator, sgm_lines, write_lines

LANGUAGES = ("zh", "en")
# `prepare` moves every hundredth sentence of train to dev.
COUNTS = {
    "tiny": {"train": 400, "test": 8},
    "demo": {"train": 2600, "test": 200},
}


def _write(root: Path, texts: Texts) -> None:
    for place, (language, kind) in enumerate(zip(LANGUAGES, ("src", "ref"), strict=True)):
        train, test = (column(texts[split], place) for split in ("train", "test"))
        write_lines(root / "training" / f"news-commentary-v12.zh-en.{language}", train)
        path = root / "test" / f"newstest2017-zhen-{kind}.{language}.sgm"
        write_lines(path, sgm_lines(f"{kind}set", test))


make = generator("wmt17", LANGUAGES, COUNTS, 9000, _write)
