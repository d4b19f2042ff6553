"""Heat maps of the heads of a pooling over the tokens of texts."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from espnet_diverse.analysis.figures.positions import Positions
from espnet_diverse.data.files.atomic_files import save_figure

_LONGEST = 80  # tokens of a text that are drawn


class PooledText(NamedTuple):
    """A text and the weights of its tokens.

    Attributes:
        title: What the text is.
        tokens: Its T tokens.
        weights: Weight of each token in each head, (H, T); rows sum to 1.
    """

    title: str
    tokens: Sequence[str]
    weights: NDArray


def draw_pooling(texts: Sequence[PooledText], path: Path) -> None:
    """Plot the heads on texts: a panel for each text, a row for each head, a column for each token.

    The last row is the mean over heads, as Fig. 1 (c) and (d) of An et al. 2020 but for a factor. All panels have one
    scale. Of a longer text the first 80 tokens are drawn.
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
        Positions(len(tokens), tokens).describe(axes.xaxis, most=8)
        axes.tick_params(axis="x", rotation=90)
        axes.set_yticks(range(rows), [*range(1, rows), "mean"], fontsize=7)
        axes.set_ylabel("head of the pooling", fontsize="small")
        axes.set_title(text.title, fontsize="small", loc="left")
    panels[-1].set_xlabel("token")
    figure.colorbar(
        image,
        ax=list(panels),
        label="weight of the token (rows sum to 1)",
        shrink=min(1.0, 1.5 / len(shown)),
        aspect=15,
    )
    save_figure(figure, path)
