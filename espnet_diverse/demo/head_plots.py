"""Plots of the attention heads of a layer on one decoded segment: attention weights and what the core reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from espnet_diverse.analysis.collect import KINDS, Observation
from espnet_diverse.analysis.figures.heads import HeadMaps, draw
from espnet_diverse.analysis.figures.plots import draw_posteriors
from espnet_diverse.errors import ConfigError


@dataclass(frozen=True)
class Picture:
    """A plot: a PNG file, a caption that explains it, and an alternative text for screen readers."""

    png: bytes
    caption: str
    alternative: str


@dataclass(frozen=True)
class Sides:
    """Labels of the axes of a plot.

    Attributes:
        written: Tokens of the output text.
        read: Tokens of the source text; None where the source is audio.
    """

    written: Sequence[str]
    read: Sequence[str] | None = None

    def queries(self, kind: str) -> Sequence[str] | None:
        """Labels of the queries of a kind of attention; None where they are encoder frames."""
        return self._source() if kind == "encoder" else [*self.written, "<eos>"]

    def keys(self, kind: str) -> Sequence[str] | None:
        """Labels of the keys of a kind of attention; None where they are encoder frames."""
        return ["<sos>", *self.written] if kind == "decoder" else self._source()

    def clustered(self, kind: str) -> dict[str, Sequence[str]]:
        """Labels of the clustered tokens, by the names of `Observation.posteriors`; frames have no labels."""
        labels = {"tokens": self.queries(kind), "queries": self.queries(kind), "source tokens": self._source()}
        return {name: tokens for name, tokens in labels.items() if tokens is not None}

    def _source(self) -> Sequence[str] | None:
        return None if self.read is None else ["<sos>", *self.read]


def head_pictures(
    seen: dict[str, Observation], kind: str, layer: int, head: int | None, sides: Sides, title: str
) -> list[Picture]:
    """Plot attention weights with the other maps that the cores report, and cluster probabilities where there are any.

    Args:
        seen: Observations of the attentions, by the keys of `KINDS`.
        kind: Kind of attention, a key of `seen`.
        layer: Number of the layer, from 1.
        head: Number of the head, from 1; None plots all heads of the layer.
        sides: Labels of the axes.
        title: Title of the segment.

    Raises:
        ConfigError: There is no such attention, layer or head.
    """
    if kind not in seen:
        raise ConfigError(f"attention {kind!r} is unknown; known: {' '.join(seen)}")
    layers, heads = seen[kind].weights.shape[:2]
    for name, value, most in (("layer", layer, layers), ("head", 1 if head is None else head, heads)):
        if not 1 <= value <= most:
            raise ConfigError(f"{name} {value} does not exist; the {KINDS[kind]} has {name}s 1 to {most}")
    view = _View(seen[kind], kind, layer - 1, list(range(heads)) if head is None else [head - 1], sides, title)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "heads.png"
        return [view.attention(path), *([view.clusters(path)] if seen[kind].posteriors else [])]


@dataclass(frozen=True)
class _View:
    """Some heads of one layer; layer and heads are counted from 0."""

    seen: Observation
    kind: str
    layer: int
    heads: list[int]
    sides: Sides
    title: str

    def attention(self, path: Path) -> Picture:
        maps = HeadMaps.of(self._name(), self.seen, self.layer)
        draw(maps, self.title, path, self.sides.queries(self.kind), self.sides.keys(self.kind), self.heads)
        caption = "Each row is a query. Its weights sum to 1; a bright key has a large weight."
        caption += "".join(f" {shown.meaning}" for shown in self.seen.maps.values())
        return Picture(path.read_bytes(), caption, f"{' and '.join(maps.kinds())} of {self._which()}")

    def clusters(self, path: Path) -> Picture:
        posteriors = {clustered: p[self.layer].numpy() for clustered, p in self.seen.posteriors.items()}
        labels = self.sides.clustered(self.kind)
        draw_posteriors(f"{self.title}: {self._name()}", posteriors, labels, path, self.heads)
        caption = "Each column sums to 1; a bright cluster has a large probability."
        return Picture(path.read_bytes(), caption, f"cluster probabilities of {self._which()}")

    def _name(self) -> str:
        return f"{KINDS[self.kind]}, layer {self.layer + 1}"

    def _which(self) -> str:
        first, last = self.heads[0] + 1, self.heads[-1] + 1
        return f"{f'head {first}' if first == last else f'heads {first} to {last}'}, {self._name()}"
