"""Synthetic Age: truth.txt and <author>.xml, with sentences to which authors of each age like to add a word."""

from itertools import batched, chain
from pathlib import Path
from xml.sax.saxutils import escape

from espnet_diverse.corpora.synthetic.text.parallel_text import COUNTS, Texts, column, generator, write_lines

LIKED = {"18-24": "#exams", "25-34": "#startup", "35-49": "#kids", "50-64": "#garden", "65-xx": "#memories"}
TWEETS = 4


def _write(root: Path, texts: Texts) -> None:
    truth = []
    sentences = chain.from_iterable(column(subset, 0) for subset in texts.values())
    for number, tweets in enumerate(batched(sentences, TWEETS)):
        author, age = f"author{number:04d}", list(LIKED)[number % len(LIKED)]
        truth.append(f"{author}:::{'FEMALE' if number % 2 else 'MALE'}:::{age.upper()}")
        documents = [f"\t\t<document>{escape(f'{text} {LIKED[age]}')}</document>" for text in tweets]
        tags = ('<author lang="en">', "\t<documents>", "\t</documents>", "</author>")
        write_lines(root / f"{author}.xml", [*tags[:2], *documents, *tags[2:]])
    write_lines(root / "truth.txt", truth)


make = generator("age", ("en",), COUNTS, 13000, _write)
