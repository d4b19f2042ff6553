"""Figures of a classifier of texts: heads of its pooling on some texts, reliability, and entropy."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from espnet_diverse.analysis.figures.positions import Positions
from espnet_diverse.analysis.sections import draw_entropy_cdf, draw_reliability
from espnet_diverse.decoding.directory.classification import Classifier, ClassPrediction, Encoded, true_classes
from espnet_diverse.errors import DataError
from espnet_diverse.pictures import save_figure

_LONGEST = 80  # tokens of a text that are drawn

DRAWN = 4
"""Number of texts whose heads are drawn unless one is named."""


class PooledText(NamedTuple):
    """A text and the weights of its tokens.

    Attributes:
        title: Description of the text.
        tokens: Its T tokens.
        weights: Weight of each token in each head, (H, T); rows sum to 1.
    """

    title: str
    tokens: Sequence[str]
    weights: NDArray


def draw_pooling(texts: Sequence[PooledText], path: Path) -> None:
    """Plot the heads on texts: a panel for each text, a row for each head, a column for each token.

    The last row is the mean over heads, as in Fig. 1 (c) and (d) of An et al. 2020 except for a factor. All panels
    share one scale. Only the first 80 tokens of a text are drawn.
    """
    shown = [text._replace(tokens=text.tokens[:_LONGEST], weights=text.weights[:, :_LONGEST]) for text in texts]
    rows, columns = len(shown[0].weights) + 1, max(len(text.tokens) for text in shown)
    size = (max(5.0, 2.4 + 0.17 * columns), len(shown) * (1.3 + 0.16 * rows))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
    most = max(text.weights.max() for text in shown)
    for axes, text in zip(panels, shown, strict=True):
        values = np.vstack([text.weights, text.weights.mean(0)])
        image = axes.imshow(values, aspect="auto", vmin=0.0, vmax=most, interpolation="nearest")
        axes.axhline(rows - 1.5, color="white", linewidth=1)
        axes.set_xlim(-0.5, columns - 0.5)  # a token is as wide in all panels
        tokens = ["␣" if token == "<space>" else token for token in text.tokens]
        Positions(len(tokens), tokens, counted="token").describe(axes.xaxis, most=8)
        axes.tick_params(axis="x", rotation=90)
        axes.set_yticks(range(rows), [*range(1, rows), "mean"], fontsize=7)
        axes.set_ylabel("head of the pooling", fontsize="small")
        axes.set_title(text.title, fontsize="small", loc="left")
    figure.colorbar(
        image,
        ax=list(panels),
        label="weight of the token (rows sum to 1)",
        shrink=min(1.0, 1.5 / len(shown)),
        aspect=15,
    )
    save_figure(figure, path)


def draw_classes(
    classifier: Classifier,
    data_dir: Path,
    output_dir: Path,
    utterance: str | None = None,
    out_of_domain: Path | None = None,
) -> list[Path]:
    """Draw pooling.png, entropy.png and, if the data has the true classes, reliability.png.

    Args:
        classifier: The classifier.
        data_dir: Data directory.
        output_dir: Directory for the PNG files.
        utterance: The text whose heads are drawn; None draws the first `DRAWN` texts.
        out_of_domain: Data directory of texts of another domain, whose entropy is drawn too.

    Returns:
        The paths of the files.

    Raises:
        DataError: A table is missing or malformed, or there is no such text.
    """
    encoded = classifier.read(data_dir)
    predictions = classifier.predict(encoded)
    if utterance is not None and utterance not in encoded:
        raise DataError(f"{data_dir / 'text'}: has no utterance {utterance!r}; it has {min(encoded)} and others")
    references = true_classes(classifier, data_dir) or {}
    names = [utterance] if utterance is not None else sorted(encoded)[:DRAWN]
    paths = {name: output_dir / f"{name}.png" for name in ("pooling", "entropy", "reliability")}
    drawn = [
        text
        for name in names
        for text in _pooled(classifier, encoded[name], _title(name, predictions[name], references))
    ]
    draw_pooling(drawn, paths["pooling"])
    domain = data_dir.resolve().name
    domains = {domain: predictions}
    if out_of_domain is not None:
        domains[f"{out_of_domain.resolve().name} (out of domain)"] = classifier.predict(classifier.read(out_of_domain))
    entropies = {name: torch.tensor([p.entropy() for p in texts.values()]) for name, texts in domains.items()}
    draw_entropy_cdf(entropies, paths["entropy"], "text")
    known = [(p.confidence, p.label == references[name]) for name, p in predictions.items() if name in references]
    if not known:
        return [paths["pooling"], paths["entropy"]]
    confidence, correct = zip(*known, strict=True)
    sure = torch.tensor(confidence, dtype=torch.double), torch.tensor(correct)
    draw_reliability({domain: sure}, paths["reliability"], "text")
    return list(paths.values())


def _title(name: str, prediction: ClassPrediction, references: Mapping[str, str]) -> str:
    true = f", truly {references[name]}" if name in references else ""
    return f"{name}: {prediction.label} ({prediction.confidence:.2f}){true}"


def _pooled(classifier: Classifier, texts: Encoded, title: str) -> list[PooledText]:
    """A text, or the first and the second text of a pair."""
    places = ["second text", "first text"] if len(texts) == 2 else [""]
    maps = zip(texts, classifier.head_maps(texts), places, strict=True)
    tokens = classifier.vocabulary.tokens
    return [
        PooledText(f"{title}{place and f'; {place}'}", [tokens[index] for index in text], weights.numpy())
        for text, weights, place in maps
    ][::-1]
