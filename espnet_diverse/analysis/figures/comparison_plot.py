"""The plot of `comparison`: score by the number of heads in the pool, and by the number of parameters."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from espnet_diverse.analysis.comparison import System
from espnet_diverse.data.files.atomic_files import save_figure


def draw_comparison(systems: Sequence[System], metric: str, path: Path) -> None:
    """Write a PNG.

    The first panel is Fig. 2 of the head-selection paper: a line through the mean scores of each strategy. It begins at
    the model without selection that has as many heads, because a pool of H heads leaves no choice.
    """
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    by_pool, by_size = figure.subplots(1, 2, sharey=True)
    strategies = list(dict.fromkeys(system.strategy for system in systems))
    for number, strategy in enumerate(strategies):
        mine = [system for system in systems if system.strategy == strategy]
        colour = f"C{number % 10}"
        by_pool.scatter([system.pool for system in mine], [system.score() for system in mine], color=colour, s=24)
        by_pool.plot(*_means(mine, systems), color=colour, label=strategy)
        by_size.scatter([system.parameters / 1e6 for system in mine], [system.score() for system in mine], color=colour)
    for system in systems:
        by_size.annotate(
            system.name, (system.parameters / 1e6, system.score()), (4, 4), textcoords="offset points", fontsize=7
        )
    _label(by_pool, "heads in the pool (P)", metric)
    by_pool.set_xticks(sorted({system.pool for system in systems}))
    _label(by_size, "parameters (millions)", "")
    by_size.margins(x=0.15)  # room for the names
    figure.legend(loc="outside lower center", ncols=min(len(strategies), 6), frameon=False)
    save_figure(figure, path)


def _means(mine: Sequence[System], systems: Sequence[System]) -> tuple[list[int], list[float]]:
    """Return pool sizes in ascending order, and the mean score of each."""
    scores = defaultdict(list)
    heads = {system.heads for system in mine if system.pool > system.heads}
    plain = [system for system in systems if system.strategy == "none" and system.heads in heads]
    for system in [*mine, *plain]:
        scores[system.pool].append(system.score())
    pools = sorted(scores)
    return pools, [sum(scores[pool]) / len(scores[pool]) for pool in pools]


def _label(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
