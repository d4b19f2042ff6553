"""Forest plots of the scores of a corpus and its parts, and of the data sets of a RESULTS.md."""

from collections.abc import Mapping
from pathlib import Path

from espnet_diverse.scoring.evaluate import Compared, Row
from espnet_diverse.scoring.groups import OVERALL
from espnet_diverse.scoring.table import read_results
from espnet_diverse.scoring.texts import Corpus


def draw_scores(rows: Mapping[str, Row], corpus: Corpus, label: str, path: Path) -> None:
    """Write a picture of the rows of a score table with their 95 % intervals, and of the baseline if there is one.

    Args:
        rows: Rows by name, as `evaluate` returns them; "" is the whole corpus.
        corpus: References and systems, for their names.
        label: What is measured, for the axis.
        path: The file. An existing file is removed if there is nothing to compare: one row without a baseline.
    """
    if len(rows) == 1 and not corpus.baseline:
        path.unlink(missing_ok=True)
        return
    from espnet_diverse.scoring.figures.forest_plot import Series, save_forest  # here: matplotlib takes half a second

    named = {name or OVERALL: row for name, row in rows.items()}
    series = [Series(corpus.system.name, *_points(named), "C0", "o")]
    if corpus.baseline:
        compared = {name: row.baseline for name, row in named.items() if row.baseline}
        series.append(Series(f"baseline: {corpus.baseline.name}", *_points(compared), "C1", "D"))
    save_forest(list(named), series, label, corpus.system.name, path, named[OVERALL].score)


def draw_results(results: Path, heading: str, column: str, label: str, path: Path) -> None:
    """Write a picture of a table of a RESULTS.md; none if fewer than two rows have an interval.

    Args:
        results: The RESULTS.md.
        heading: The line above the table, as for `update_results`.
        column: Heading of the column with the scores.
        label: What is measured, for the axis.
        path: The file.
    """
    rows = read_results(results, heading, column)
    if len(rows) > 1:
        from espnet_diverse.scoring.figures.forest_plot import Series, save_forest

        points = {name: [score] for name, (score, _) in rows.items()}
        series = Series("", points, {name: bounds for name, (_, bounds) in rows.items()})
        save_forest(list(rows), [series], label, results.resolve().parent.name, path)


def _points(rows: Mapping[str, Row] | Mapping[str, Compared]) -> tuple[dict[str, list[float]], dict]:
    """Scores and intervals by row."""
    return {name: [row.score] for name, row in rows.items()}, {name: row.interval for name, row in rows.items()}
