"""Plots of the heads of an attention on one utterance: attention weights, and other matrices that the core reports."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from espnet2.train.abs_espnet_model import AbsESPnetModel
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager, get_font
from numpy.typing import NDArray
from pypinyin import Style, lazy_pinyin
from torch import nn

from espnet_diverse.analysis.collect import Observation
from espnet_diverse.analysis.teacher_forcing import run_teacher_forced
from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.data.files.atomic_files import save_figure
from espnet_diverse.upstream.layers import MultiHeadedAttention


@dataclass(frozen=True)
class HeadMaps:
    """The maps of one attention module on one utterance.

    Attributes:
        layer: Name of the module, for example "encoder layer 6 self-attention".
        attention: Attention weights (H, Tq, Tk); rows sum to 1.
        others: Other matrices of the core (H, Tq, Tk) by title, as in `Inspection.maps`; rows sum to 1.
    """

    layer: str
    attention: NDArray
    others: Mapping[str, NDArray] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, seen: Observation, layer: int) -> "HeadMaps":
        """Take the maps of one layer, counted from 0, of an observation."""
        others = {shown.title: shown.values[layer].numpy() for shown in seen.maps.values()}
        return cls(name, seen.weights[layer].numpy(), others)

    def kinds(self) -> dict[str, NDArray]:
        """Return all maps by title."""
        return {**self.others, "attention": self.attention}


def head_maps(
    model: AbsESPnetModel, speech: NDArray, text: Sequence[int], conditions: Mapping[str, int] | None = None
) -> dict[str, HeadMaps]:
    """Run a pass with teacher forcing and return the maps of two attentions, by "encoder" and "decoder".

    They are the last self-attention of the encoder and the last cross-attention of the decoder. A net that has no such
    attention, or one that gives no weights, is left out with a warning. The arguments are those of
    `run_teacher_forced`.
    """
    run_teacher_forced(model, speech, text, conditions)
    last = {net: _last(model, net, attributes) for net, attributes in _DRAWN.items()}
    return {net: maps for net, maps in last.items() if maps is not None}


_DRAWN = {"encoder": ("self_attn", "attn"), "decoder": ("src_attn",)}
"""Attributes of layers that are the attentions to draw, by net."""


def _last(model: AbsESPnetModel, net: str, attributes: tuple[str, ...]) -> HeadMaps | None:
    attentions = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadedAttention | MultiHeadAttention)
        and name.startswith(f"{net}.{net}s.")
        and name.rpartition(".")[2] in attributes
    ]
    # A block-wise encoder has its blocks in the batch dimension.
    found = [(name, each) for name, each in attentions if each.attn is not None and len(each.attn) == 1]
    if not found:
        logging.warning("no figure of the %s: %s", net, _why_not_drawn([module for _, module in attentions]))
        return None
    name, module = found[-1]
    maps = module.core.inspect().maps if isinstance(module, MultiHeadAttention) else {}
    kind = "cross-attention" if name.endswith("src_attn") else "self-attention"
    return HeadMaps(
        f"{net} layer {int(name.split('.')[2]) + 1} {kind}",
        module.attn[0].cpu().numpy(),
        {shown.title: shown.values[0].cpu().numpy() for shown in maps.values()},
    )


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
) -> None:
    """Write a PNG with a row for each head and a column for each kind of map; a column has one colour scale.

    Args:
        maps: The maps to draw.
        utterance: Id of the utterance, for the title.
        path: The file to write.
        tokens: Labels of the queries if these are tokens: the tokens that they predict, or, from <sos> on, that they
            read. With None the queries are encoder frames.
        key_tokens: Labels of the keys if these are tokens. With None the keys are encoder frames.
    """
    kinds = maps.kinds()
    heads, queries, keys = maps.attention.shape
    height = min(4.0, max(2.0, 0.16 * queries))
    figure = Figure(figsize=(1 + 5 * len(kinds), 1 + heads * height), layout="constrained")
    figure.suptitle(f"{utterance}: {maps.layer}")
    grid = figure.subplots(heads, len(kinds), squeeze=False, sharex=True, sharey=True)
    labels, font = drawable(tokens) if tokens is not None else (None, None)
    key_labels, key_font = drawable(key_tokens) if key_tokens is not None else (None, None)
    for column, (kind, values) in enumerate(kinds.items()):
        most = values.max()
        for head, axes in enumerate(grid[:, column]):
            image = axes.imshow(values[head], aspect="auto", vmin=0.0, vmax=most, interpolation="nearest")
            axes.set_title(f"head {head + 1}: {kind}", fontsize="medium")
            if column == 0:
                axes.set_ylabel(position_name(tokens) if labels else "encoder frame (query)")
            if labels:
                axes.set_yticks(range(queries), labels, fontproperties=font, fontsize=min(9, 75 * height / queries))
        grid[-1, column].set_xlabel("token read (key)" if key_labels else "encoder frame (key)")
        if key_labels:
            size = min(9, 300 / keys)
            grid[-1, column].set_xticks(range(keys), key_labels, fontproperties=key_font, fontsize=size, rotation=90)
        figure.colorbar(image, ax=list(grid[:, column]), label="share of a row's sum", shrink=0.6)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path)


def position_name(tokens: Sequence[str]) -> str:
    """Return what the positions of tokens are called: an encoder reads from <sos> on, a decoder predicts to <eos>."""
    return "token read" if tokens[0] == "<sos>" else "token predicted"


def drawable(tokens: Sequence[str]) -> tuple[list[str], FontProperties]:
    """Return tokens as labels, and a font that has all their characters.

    If no font of the machine has them all, Chinese characters are replaced by pinyin with tone numbers, and other
    missing characters by their code points.
    """
    # The "Last Resort" font has every character, all as boxes.
    fonts = [f for f in fontManager.ttflist if (f.style, f.weight) == ("normal", 400) and "Last Resort" not in f.name]
    fonts.sort(key=lambda font: (font.name != "DejaVu Sans", font.name))
    for font in fonts:
        if _has(font.fname, "".join(tokens)):
            return list(tokens), FontProperties(fname=font.fname)
    default = fonts[0].fname

    def spelled(characters: str) -> str:
        return " ".join(c if _has(default, c) else f"U+{ord(c):04X}" for c in characters)

    labels = [t if _has(default, t) else " ".join(lazy_pinyin(t, Style.TONE3, errors=spelled)) for t in tokens]
    return labels, FontProperties(fname=default)


def _has(font: str, characters: str) -> bool:
    return all(get_font(font).get_char_index(ord(character)) for character in characters)
