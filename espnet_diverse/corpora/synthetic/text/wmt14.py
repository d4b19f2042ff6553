"""Synthetic WMT14 English–German: training, commoncrawl.de-en.{de,en} and the sgm files of the test sets."""

from pathlib import Path

from espnet_diverse.corpora.synthetic.text.parallel_text import COUNTS, Texts, column, generator, sgm_lines, write_lines

LANGUAGES = ("de", "en")
PARTS = ("training/europarl-v7.de-en", "commoncrawl.de-en", "training/news-commentary-v9.de-en")


def _write(root: Path, texts: Texts) -> None:
    for place, language in enumerate(LANGUAGES):
        train, dev, test = (column(texts[split], place) for split in ("train", "dev", "test"))
        for number, part in enumerate(PARTS):
            write_lines(root / f"{part}.{language}", train[number :: len(PARTS)])
        write_lines(root / "test" / f"newstest2013-src.{language}.sgm", sgm_lines("srcset", dev))
        for kind in ("src", "ref"):
            path = root / "test-full" / f"newstest2014-deen-{kind}.{language}.sgm"
            write_lines(path, sgm_lines(f"{kind}set", test))


make = generator("wmt14", LANGUAGES, COUNTS, 8000, _write)
