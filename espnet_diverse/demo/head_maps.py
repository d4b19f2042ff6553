"""Maps of the attention heads of a layer on one decoded segment, and its spectrogram, as numbers for the page to draw.

The maps show attention weights, the other matrices that the core reports, and cluster probabilities.
"""

import base64
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from espnet_diverse.analysis.collect import KINDS, VECTORS, Observation
from espnet_diverse.errors import ConfigError

_MOST_FRAMES = 400  # of an axis; the page has not many more pixels for it

_WINDOW, _HOP = 0.025, 0.01  # seconds of a spectrogram
_RANGE = 60.0  # decibels from 0 to the loudest point
_QUIET = -40.0  # least decibels of the loudest point, so that silence stays at 0
_MOST_COLUMNS, _ROWS = 400, 64  # the page has not many more pixels for it


@dataclass(frozen=True)
class Axis:
    """An axis of a map.

    Attributes:
        name: Meaning of a position, such as "token predicted" or "second".
        labels: Label of each position; None where positions are counted.
        start, step: Without labels, the start of the first position, and its length.
    """

    name: str
    labels: Sequence[str] | None = None
    start: float = 1.0
    step: float = 1.0


@dataclass(frozen=True)
class Sides:
    """Meaning of the positions of a segment.

    Attributes:
        written: Tokens of the output text.
        read: Tokens of the source text; None where the source is audio.
        frames: Axis of the encoder frames where the source is audio.
    """

    written: Sequence[str]
    read: Sequence[str] | None = None
    frames: Axis = field(default_factory=lambda: Axis("encoder frame"))

    def queries(self, kind: str) -> Axis:
        """Axis of the queries of a kind of attention."""
        return self._source() if kind == "encoder" else Axis("token predicted", [*self.written, "<eos>"])

    def keys(self, kind: str) -> Axis:
        """Axis of the keys of a kind of attention."""
        return Axis("token read", ["<sos>", *self.written]) if kind == "decoder" else self._source()

    def clustered(self, kind: str, name: str) -> Axis:
        """Axis of the clustered positions, by their name in `Observation.posteriors`."""
        if name == VECTORS:
            return Axis(VECTORS)
        return self._source() if name in ("frames", "source tokens") else self.queries(kind)

    def _source(self) -> Axis:
        return self.frames if self.read is None else Axis("token read", ["<sos>", *self.read])


def head_maps(
    observations: dict[str, Observation], kind: str, layer: int, head: int | None, sides: Sides
) -> list[dict]:
    """Map attention weights, other matrices that the cores report, and cluster probabilities if there are any.

    Args:
        observations: Observations of the attentions, by the keys of `KINDS`.
        kind: Kind of attention, a key of `observations`.
        layer: Number of the layer, from 1.
        head: Number of the head, from 1; None maps all heads of the layer.
        sides: Meaning of the positions.

    Returns:
        For each kind of map its `title`; its `caption`; its `rows` and `columns` as fields of `Axis`; the greatest
        value, `most`; and `maps`, each the number of a `head` and its `values`, rows of bytes in base64 of which 255 is
        `most`. For long recordings, neighbouring frames are merged to their greatest value.

    Raises:
        ConfigError: There is no such attention, layer or head.
    """
    if kind not in observations:
        raise ConfigError(f"attention {kind!r} is unknown; known: {' '.join(observations)}")
    one = observations[kind]
    layers, heads = one.weights.shape[:2]
    for name, value, most in (("layer", layer, layers), ("head", 1 if head is None else head, heads)):
        if not 1 <= value <= most:
            raise ConfigError(f"{name} {value} does not exist; the {KINDS[kind]} has {name}s 1 to {most}")
    chosen = range(heads) if head is None else [head - 1]
    queries, keys = sides.queries(kind), Axis(VECTORS) if one.of_vectors else sides.keys(kind)
    weights = one.weights[layer - 1].numpy()
    plots = [_plot("attention", "The weights of a row sum to 1.", weights, queries, keys, chosen)]
    for other in one.maps.values():
        plots.append(_plot(other.title, other.meaning, other.values[layer - 1].numpy(), queries, keys, chosen))
    for name, posteriors in one.posteriors.items():
        values = posteriors[layer - 1].numpy().swapaxes(1, 2)
        caption = "The probabilities of a column sum to 1."
        columns = sides.clustered(kind, name)
        plots.append(_plot(f"clusters of {name}", caption, values, Axis("cluster"), columns, chosen, 1.0))
    return plots


def _plot(
    title: str, caption: str, values: NDArray, rows: Axis, columns: Axis, heads: Sequence[int], most: float = 0.0
) -> dict:
    """One kind of map, `values` (H, rows, columns), of some heads; one colour scale up to `most`, or the greatest."""
    values, rows = _pooled(values[list(heads)], 1, rows)
    values, columns = _pooled(values, 2, columns)
    most = most or float(values.max())
    levels = np.rint(values.clip(0) * (255 / (most or 1.0))).astype(np.uint8)
    return {
        "title": title,
        "caption": caption,
        "rows": {**asdict(rows), "count": values.shape[1]},
        "columns": {**asdict(columns), "count": values.shape[2]},
        "most": most,
        "maps": [
            {"head": head + 1, "values": base64.b64encode(level.tobytes()).decode()}
            for head, level in zip(heads, levels, strict=True)
        ],
    }


def _pooled(values: NDArray, dimension: int, axis: Axis) -> tuple[NDArray, Axis]:
    """The greatest of neighbours, if a dimension has no labels and more than `_MOST_FRAMES` positions."""
    count = values.shape[dimension]
    size = ceil(count / _MOST_FRAMES)
    if axis.labels is not None or size == 1:
        return values, axis
    return np.maximum.reduceat(values, range(0, count, size), dimension), replace(axis, step=axis.step * size)


def spectrogram(samples: NDArray, rate: int, start: float) -> dict[str, Any]:
    """Compute the levels of a segment by frequency and time.

    Args:
        samples: Samples (L,) of the segment, float32.
        rate: Samples a second.
        start: Begin of the segment in the recording, in seconds.

    Returns:
        `start` and `step` of the columns in seconds, the greatest frequency `hertz`, the numbers of `rows` and
        `columns`, and `values`: rows of bytes in base64, the greatest frequency first, of which 255 is the loudest
        point and 0 is 60 dB below it.
    """
    size = 2 ** round(np.log2(_WINDOW * rate))
    hop = max(round(_HOP * rate), -(-len(samples) // _MOST_COLUMNS))
    sound = torch.nn.functional.pad(torch.from_numpy(samples), (size // 2, size // 2))
    power = torch.stft(sound, size, hop, window=torch.hann_window(size), center=False, return_complex=True).abs() ** 2
    power = torch.nn.functional.adaptive_max_pool1d(power.T, _ROWS).T.flip(0)
    levels = 10 * power.clamp(min=1e-10).log10()
    shares = ((levels - levels.max().clamp(min=_QUIET)) / _RANGE + 1).clamp(0, 1)
    return {
        "start": start - hop / rate / 2,
        "step": hop / rate,
        "hertz": rate / 2,
        "rows": _ROWS,
        "columns": shares.size(1),
        "values": base64.b64encode((255 * shares).round().byte().numpy().tobytes()).decode(),
    }
