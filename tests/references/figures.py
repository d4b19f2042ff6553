"""Checks of matplotlib figures, and pictures that are not drawn."""

from itertools import combinations
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

PNG = b"\x89PNG\r\n\x1a\n"
"""The first bytes of a picture."""


def leave_pictures_empty(patch):
    """Write only the first bytes of each picture: to draw it takes longer than all else that a command does."""
    patch.setattr(Figure, "savefig", lambda figure, path, **options: Path(path).write_bytes(PNG))


def assert_readable(figure):
    """No tick label, axis label or title, of all panels together, overlaps another or is cut off."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = [*figure.texts]
    for axes in figure.axes:
        texts += [axes.title, axes.xaxis.label, axes.yaxis.label]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            texts += [text for tick in ticks for text in (tick.label1, tick.label2)]
    shown = [text for text in texts if text.get_visible() and text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in shown]
    assert len(boxes) > 5
    assert [a for a, x in boxes if not figure.bbox.contains(*x.min) or not figure.bbox.contains(*x.max)] == []
    assert [(a, b) for (a, x), (b, y) in combinations(boxes, 2) if x.overlaps(y)] == []
