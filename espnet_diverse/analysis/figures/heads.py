"""Plots of the heads of an attention on one utterance: attention weights, and other matrices that the core reports."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from espnet2.train.abs_espnet_model import AbsESPnetModel
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import nn

from espnet_diverse.analysis.collect import VECTORS, Observation, attentions, observe
from espnet_diverse.analysis.figures.positions import Positions
from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.decoding.frame_times import FrameTimes
from espnet_diverse.pictures import save_figure

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HeadMaps:
    """The maps of one attention module on one utterance.

    Attributes:
        layer: Name of the module, for example "encoder layer 6 self-attention".
        attention: Attention weights (H, Tq, Tk); rows sum to 1.
        others: Other matrices of the core (H, Tq, Tk) by title, as in `Inspection.maps`; rows sum to 1.
        of_vectors: As in `Observation`.
    """

    layer: str
    attention: NDArray
    others: Mapping[str, NDArray] = field(default_factory=dict)
    of_vectors: bool = False

    @classmethod
    def of(cls, name: str, observation: Observation) -> "HeadMaps":
        """Take the maps of the last layer of an observation."""
        others = {shown.title: shown.values[-1].numpy() for shown in observation.maps.values()}
        return cls(name, observation.weights[-1].numpy(), others, observation.of_vectors)

    def kinds(self) -> dict[str, NDArray]:
        """Return all maps by title."""
        return {**self.others, "attention": self.attention}


def head_maps(
    model: AbsESPnetModel, speech: NDArray, text: Sequence[int], conditions: Mapping[str, int] | None = None
) -> dict[str, HeadMaps]:
    """Run a pass with teacher forcing and return the maps of two attentions, by "encoder" and "decoder".

    They are the last self-attention of the encoder and the last cross-attention of the decoder. A net without this
    attention, or whose attention gives no weights, is left out with a warning. Takes the arguments of
    `run_teacher_forced`.
    """
    observations, maps = observe(model, speech, text, conditions), {}
    for net, (kind, name) in _DRAWN.items():
        if kind in observations:
            maps[net] = HeadMaps.of(name.format(len(observations[kind].weights)), observations[kind])
        else:
            log.warning("no figure of the %s: %s", net, _why_not_drawn(attentions(model)[kind]))
    return maps


_DRAWN = {
    "encoder": ("encoder", "encoder layer {} self-attention"),
    "decoder": ("cross", "decoder layer {} cross-attention"),
}
"""Kind of attention that is drawn for each net, and its name."""


def _why_not_drawn(attentions: Sequence[nn.Module]) -> str:
    for module in attentions:
        if hasattr(module, "memory"):
            return "it works by segments with a memory, so that no weights over the whole sequence exist"
        if isinstance(module, MultiHeadAttention) and not module.core.supports.explicit_weights:
            return f"attention {module.core.name!r} gives no weights"
    return "it has no attention with weights for one utterance"


def draw(
    maps: HeadMaps,
    utterance: str,
    path: Path,
    tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    times: FrameTimes | None = None,
) -> None:
    """Write a PNG with a row for each head and a column for each kind of map; a column has one colour scale.

    Args:
        maps: The maps to draw.
        utterance: Id of the utterance, for the title.
        path: The file to write.
        tokens: Tokens of the queries, see `Positions`. With None the queries are encoder frames.
        key_tokens: Tokens of the keys. With None the keys are encoder frames.
        times: Times of the encoder frames, if they are known.
    """
    kinds = maps.kinds()
    heads, queries, keys = maps.attention.shape
    down = Positions(queries, tokens, times)
    across = Positions(keys, counted=VECTORS) if maps.of_vectors else Positions(keys, key_tokens, times)
    extent = (*across.bounds, *reversed(down.bounds))
    height = min(4.0, max(2.0, 0.16 * queries))
    figure = Figure(figsize=(1 + 5 * len(kinds), 1 + heads * height), layout="constrained")
    figure.suptitle(f"{utterance}: {maps.layer}")
    grid = figure.subplots(heads, len(kinds), squeeze=False, sharex=True, sharey=True)
    for column, (kind, values) in enumerate(kinds.items()):
        most = values.max()
        for head, axes in enumerate(grid[:, column]):
            image = axes.imshow(
                values[head], aspect="auto", vmin=0.0, vmax=most, interpolation="nearest", extent=extent
            )
            axes.set_title(f"head {head + 1}: {kind}", fontsize="medium")
            if column == 0:
                down.describe(axes.yaxis, "query", min(9, 75 * height / queries))
        across.describe(grid[-1, column].xaxis, "key", min(9, 300 / keys))
        if across.tokens is not None:
            grid[-1, column].tick_params(axis="x", rotation=90)
        figure.colorbar(image, ax=list(grid[:, column]), label="share of a row's sum", shrink=0.6)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path)
