"""Figures of a classifier of texts: heads of its pooling on some texts, reliability, and entropy."""

from collections.abc import Mapping
from pathlib import Path

import torch

from espnet_diverse.analysis.figures.pooling import PooledText, draw_pooling
from espnet_diverse.analysis.sections import draw_entropy_cdf, draw_reliability
from espnet_diverse.decoding.directory.classification import Classifier, Encoded, Prediction, true_classes
from espnet_diverse.errors import DataError

DRAWN = 4
"""Number of texts whose heads are drawn unless one is named."""


def draw_classes(
    classifier: Classifier,
    data_dir: Path,
    output_dir: Path,
    utterance: str | None = None,
    out_of_domain: Path | None = None,
) -> list[Path]:
    """Draw pooling.png, entropy.png and, where the data has the true classes, reliability.png.

    Args:
        classifier: The classifier.
        data_dir: Data directory.
        output_dir: Directory for the PNG files.
        utterance: The text whose heads are drawn; None is the first `DRAWN` texts.
        out_of_domain: Data directory of texts of another domain, whose entropy is drawn too.

    Returns:
        The paths of the files.

    Raises:
        DataError: A table is missing or malformed, or there is no such text.
    """
    encoded = classifier.read(data_dir)
    found = classifier.predict(encoded)
    if utterance is not None and utterance not in encoded:
        raise DataError(f"{data_dir / 'text'}: has no utterance {utterance!r}; it has {min(encoded)} and others")
    references = true_classes(classifier, data_dir) or {}
    names = [utterance] if utterance is not None else sorted(encoded)[:DRAWN]
    paths = {name: output_dir / f"{name}.png" for name in ("pooling", "entropy", "reliability")}
    drawn = [
        each for name in names for each in _pooled(classifier, encoded[name], _title(name, found[name], references))
    ]
    draw_pooling(drawn, paths["pooling"])
    domain = data_dir.resolve().name
    domains = {domain: found}
    if out_of_domain is not None:
        domains[f"{out_of_domain.resolve().name} (out of domain)"] = classifier.predict(classifier.read(out_of_domain))
    entropies = {name: torch.tensor([each.entropy() for each in texts.values()]) for name, texts in domains.items()}
    draw_entropy_cdf(entropies, paths["entropy"], "text")
    known = [(each.confidence, each.label == references[name]) for name, each in found.items() if name in references]
    if not known:
        return [paths["pooling"], paths["entropy"]]
    confidence, correct = zip(*known, strict=True)
    sure = torch.tensor(confidence, dtype=torch.double), torch.tensor(correct)
    draw_reliability({domain: sure}, paths["reliability"], "text")
    return list(paths.values())


def _title(name: str, found: Prediction, references: Mapping[str, str]) -> str:
    true = f", truly {references[name]}" if name in references else ""
    return f"{name}: {found.label} ({found.confidence:.2f}){true}"


def _pooled(classifier: Classifier, texts: Encoded, title: str) -> list[PooledText]:
    """A text, or the first and the second text of a pair."""
    places = ["second text", "first text"] if len(texts) == 2 else [""]
    maps = zip(texts, classifier.head_maps(texts), places, strict=True)
    tokens = classifier.vocabulary.tokens
    return [
        PooledText(f"{title}{place and f'; {place}'}", [tokens[index] for index in text], weights.numpy())
        for text, weights, place in maps
    ][::-1]
