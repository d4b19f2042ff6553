"""Scores as Markdown tables, for printing and for RESULTS.md as in ESPnet."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.data.files.locks import file_lock
from espnet_diverse.data.lines import read_utf8
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.scoring.evaluate import Row
from espnet_diverse.scoring.metric import Metric

_NUMBER = r"(-?\d+(?:\.\d+)?)"
_FORMER = "|Wrd|", "|Chr|"
"""Former and current heading of the number of characters."""
MEASURED = ("95 % interval", "signature")
"""Columns of RESULTS.md after the columns of a metric."""


def header(columns: Sequence[str]) -> str:
    """The first line of a table."""
    return f"|dataset|{'|'.join(columns)}|"


def line(name: str, cells: Sequence[str]) -> str:
    """One line for the data set `name`.

    Raises:
        ConfigError: The name is empty or contains "|" or unprintable characters.
    """
    if "|" in name or not name.isprintable() or not name.strip():
        raise ConfigError(f"data set name {name!r} does not fit a table cell; it must not be empty or contain '|'")
    return f"|{'|'.join((name, *cells))}|"


def cells(row: Row, metric: Metric) -> list[str]:
    """The cells of a row under the columns of the metric; for an average, all but the score are empty."""
    return list(row.cells) or [f"{row.score:.1f}" if column == metric.score_column else "" for column in metric.columns]


def measured(row: Row) -> list[str]:
    """The cells of a row under `MEASURED`; "|" of a signature is escaped, and an average has none."""
    return [_interval(row), row.signature.replace("|", r"\|")]


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table of any cells; ends with a newline."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n" for cells in lines)


def _interval(row: Row) -> str:
    return "{:.1f} to {:.1f}".format(*row.interval)


def table(rows: Mapping[str, Row], metric: Metric) -> str:
    """The table of all rows with intervals and, if there is one, the baseline; ends with a newline."""
    compared = any(row.baseline for row in rows.values())
    headings = [*metric.columns, MEASURED[0], *(["Baseline", "Difference", "p"] if compared else [])]
    lines = [header(headings), _rule(headings)]
    for name, row in rows.items():
        shown = [*cells(row, metric), _interval(row)]
        if row.baseline:
            shown += [f"{row.baseline.score:.1f}", f"{row.baseline.difference:+.1f}"]
            shown.append("" if row.baseline.p_value is None else f"{row.baseline.p_value:.3f}")
        lines.append(line(name, shown))
    return "\n".join(lines) + "\n"


def update_results(path: str | Path, heading: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> None:
    """Put rows into the table under the line `heading` of a Markdown file, by data set name.

    Rows with the same name are replaced, others are appended. Folder, file, heading and table are created if they are
    missing; all other content is kept. The function is idempotent. Processes that update a file at the same time take
    turns.

    Args:
        path: The file, usually RESULTS.md.
        heading: The whole line of the heading, for example "### CER".
        columns: Column headings without the one of the data set.
        rows: Cells of each row, by data set name.

    Raises:
        DataError: The heading has a table with other columns, or the file is not UTF-8.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(path):
        _update(path, heading, columns, rows)


def _update(path: Path, heading: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> None:
    lines = read_utf8(path).removesuffix("\n").split("\n") if path.exists() else ["# RESULTS"]
    if heading not in lines:
        lines += ["", heading]
    start, end = _section(lines, heading)
    first = next((n for n in range(start, end) if lines[n].startswith("|")), None)
    expected = header(columns)
    if first is None:
        after = [""] if start < len(lines) and lines[start] else []
        lines[start:start] = ["", expected, _rule(columns), *after]
        first = start + 1
    elif expected.startswith(former := lines[first].replace(*_FORMER)):  # of an earlier version
        _widen(lines, first, expected, expected.count("|") - former.count("|"))
    elif lines[first] != expected:
        raise DataError(f"{path}:{first + 1}: the table under {heading!r} has other columns; expected {expected}")
    for name, cells in rows.items():
        _put(lines, first, name, line(name, cells))
    write_text(path, "\n".join(lines) + "\n")


def _section(lines: Sequence[str], heading: str) -> tuple[int, int]:
    """Indices of the first line after a heading, and of the next heading or the end."""
    start = lines.index(heading) + 1
    return start, next((n for n in range(start, len(lines)) if lines[n].startswith("#")), len(lines))


def read_results(path: Path, heading: str, column: str) -> dict[str, tuple[float, tuple[float, float]]]:
    """Scores and 95 % intervals of the table under the line `heading` of a RESULTS.md, by data set name.

    Args:
        path: The file.
        heading: The whole line of the heading.
        column: Heading of the column with the scores.

    Returns:
        Score and bounds by data set name. Rows without an interval, as earlier versions wrote them, are left out.
    """
    lines = read_utf8(path).split("\n")
    start, end = _section(lines, heading)
    names, _, *rows = [line.strip("|").split("|") for line in lines[start:end] if line.startswith("|")]
    results = {}
    for row in (dict(zip(names, cells, strict=False)) for cells in rows):
        shown = f"{row.get(column)} {row.get(MEASURED[0])}"
        if numbers := re.fullmatch(f"{_NUMBER} {_NUMBER} to {_NUMBER}", shown):
            score, low, high = map(float, numbers.groups())
            results[row["dataset"]] = score, (low, high)
    return results


def _widen(lines: list[str], first: int, expected: str, extra: int) -> None:
    """Give the table at index `first` of `lines` the header `expected`, and its rows `extra` empty cells."""
    end = next((n for n in range(first, len(lines)) if not lines[n].startswith("|")), len(lines))
    lines[first] = expected
    for n in range(first + 1, end):
        lines[n] += ("---|" if lines[n].startswith("|---") else "|") * extra


def _rule(columns: Sequence[str]) -> str:
    return "|" + "---|" * (len(columns) + 1)


def _put(lines: list[str], first: int, name: str, line: str) -> None:
    """Replace the row `name` in the table that starts at index `first` of `lines`, or append it to the table."""
    last = first + 1
    if last < len(lines) and lines[last].startswith("|"):  # the rule below the header
        last += 1
    while last < len(lines) and lines[last].startswith("|"):
        if lines[last].split("|")[1].strip() == name:
            lines[last] = line
            return
        last += 1
    lines.insert(last, line)
