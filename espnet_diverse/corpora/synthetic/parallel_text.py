"""Parallel text in three languages, <split>.<language>; and what the replicas of text corpora share."""

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from espnet_diverse.corpora.synthetic import check_size, replica
from espnet_diverse.corpora.synthetic.grammar import Sentence, sentences

LANGUAGES = ("de", "en", "fr")
COUNTS = {
    "tiny": {"train": 64, "dev": 8, "test": 8},
    "demo": {"train": 2400, "dev": 100, "test": 200},
}

Texts = Mapping[str, Sequence[Sentence]]
"""Sentences of each split, in the languages of a corpus."""


def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
    """Make the replica; its files depend on `seed` and `size` to the bit, and not on `nj`.

    Raises:
        DataError: an unknown size; `target_dir` holds something else.
    """

    def write(folder: Path, texts: Texts) -> None:
        for split, each in texts.items():
            for place, language in enumerate(LANGUAGES):
                write_lines(folder / f"{split}.{language}", column(each, place))

    return make_text(target_dir, "parallel_text", LANGUAGES, COUNTS, seed, size, write)


def make_text(
    target_dir: Path,
    layout: str,
    languages: Sequence[str],
    counts: Mapping[str, Mapping[str, int]],
    seed: int,
    size: str,
    write: Callable[[Path, Texts], None],
) -> Path:
    """Make a replica of text.

    Args:
        target_dir: Its folder.
        layout: Name of the corpus.
        languages: Languages of the sentences.
        counts: Number of sentences of each size and split.
        seed: Of the choice of sentences.
        size: A key of `counts`.
        write: Writes the sentences into an empty folder.

    Raises:
        DataError: an unknown size; `target_dir` holds something else.
    """
    check_size(size)
    texts = {split: sentences(languages, count, seed, split) for split, count in counts[size].items()}
    settings = {"layout": layout, "size": size, "seed": seed}
    return replica(target_dir, settings, texts, lambda folder: write(folder, texts))


def column(texts: Iterable[Sentence], place: int) -> list[str]:
    """The sentences in the language of number `place`."""
    return [sentence.texts[place] for sentence in texts]


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write one text a line, making the folder where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def sgm_lines(kind: str, texts: Iterable[str]) -> list[str]:
    """Lines of an sgm file of a test set.

    Args:
        kind: Its outermost tag: srcset or refset.
        texts: The sentences.
    """
    segments = [f'<seg id="{number}">{html.escape(text, quote=False)}</seg>' for number, text in enumerate(texts, 1)]
    return [f'<{kind} setid="replica">', '<doc docid="1">', "<p>", *segments, "</p>", "</doc>", f"</{kind}>"]
