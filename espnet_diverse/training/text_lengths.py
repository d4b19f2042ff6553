"""Lengths of texts in tokens, as ESPnet's shape files have them."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from espnet_diverse.data.tables import pack_table
from espnet_diverse.errors import DataError
from espnet_diverse.progress import progress
from espnet_diverse.training.run_data import Tokens

_UNKNOWN = 1  # index of <unk>
_MOST_UNKNOWN = 0.1  # with a larger share of <unk>, the vocabulary must be that of another text


def lengths(text: Path, title: str, tokens: Tokens, name: str) -> Iterator[str]:
    """Yield each utterance with its number of tokens; check that the vocabulary is one of such texts."""
    texts, vocabulary = pack_table(text), tokens.vocabularies[name]
    total, unknown = 0, 0
    for utterance, line in progress(texts.items(), title, len(texts), "line"):
        indices = vocabulary.encode(line)
        total, unknown = total + len(indices), unknown + indices.count(_UNKNOWN)
        yield f"{utterance} {len(indices)}"
    if unknown > _MOST_UNKNOWN * total:
        has = f"the vocabulary {tokens.folders[name]} lacks {unknown} of its {total} tokens"
        raise DataError(f"{text}: {has}; make a vocabulary of this text with espnet-diverse tokens")


def write_sizes(source: Path, target: Path, tokens: Tokens, name: str) -> None:
    """Write the lengths of texts with the size of their vocabulary, as `batch_type: numel` needs."""
    size = len(tokens.vocabularies[name])
    with source.open(encoding="utf-8") as lines:
        write_lines(target, (f"{line.rstrip()},{size}" for line in lines))


def write_lines(target: Path, lines: Iterable[str]) -> None:
    """Write lines one after another into the directory that is being made."""
    with target.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
