"""Synthetic parallel text in three languages, <split>.<language>, and helpers of the other synthetic text corpora."""

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from espnet_diverse.corpora.synthetic import check_size, make_once
from espnet_diverse.corpora.synthetic.grammar import Sentence, sentences

LANGUAGES = ("de", "en", "fr")
COUNTS = {
    "tiny": {"train": 64, "dev": 8, "test": 8},
    "demo": {"train": 2400, "dev": 100, "test": 200},
}

Texts = Mapping[str, Sequence[Sentence]]
"""Sentences of each split, in the languages of a corpus."""


def generator(
    layout: str,
    languages: Sequence[str],
    counts: Mapping[str, Mapping[str, int]],
    first_seed: int,
    write: Callable[[Path, Texts], None],
) -> Callable[..., Path]:
    """Return the function `make` of a synthetic text corpus.

    Args:
        layout: Name of the corpus.
        languages: Languages of the sentences.
        counts: Number of sentences of each size and split.
        first_seed: Random seed of the sentences, different for each corpus, so that their first sentences differ.
        write: Function that writes the sentences into an empty folder.
    """

    def make(target_dir: Path, seed: int = 0, size: str = "demo", nj: int = 2) -> Path:
        """Make the synthetic corpus; see `corpora.synthetic`."""
        check_size(size)
        number = first_seed + seed
        texts = {split: sentences(languages, count, number, split) for split, count in counts[size].items()}
        settings = {"layout": layout, "size": size, "seed": number}
        return make_once(target_dir, settings, texts, lambda folder: write(folder, texts))

    return make


def column(texts: Iterable[Sentence], place: int) -> list[str]:
    """The sentences in one language, given by its index in the languages of the corpus."""
    return [sentence.texts[place] for sentence in texts]


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write one text per line; creates the folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def sgm_lines(kind: str, texts: Iterable[str]) -> list[str]:
    """Lines of an sgm file of a test set.

    Args:
        kind: Outermost tag: srcset, refset or mteval.
        texts: Sentences of the set.
    """
    segments = [f'<seg id="{number}">{html.escape(text, quote=False)}</seg>' for number, text in enumerate(texts, 1)]
    return [f'<{kind} setid="synthetic">', '<doc docid="1">', "<p>", *segments, "</p>", "</doc>", f"</{kind}>"]


def _write(folder: Path, texts: Texts) -> None:
    for split, subset in texts.items():
        for place, language in enumerate(LANGUAGES):
            write_lines(folder / f"{split}.{language}", column(subset, place))


make = generator("parallel_text", LANGUAGES, COUNTS, 0, _write)
