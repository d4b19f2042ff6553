"""Error rates as the Markdown table of ESPnet's RESULTS.md; rates in percent of the reference units."""

from collections.abc import Mapping
from pathlib import Path

from espnet_diverse.corpora.files import write_text
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.scoring.error_rate import ErrorRate

HEADER = "|dataset|Snt|Wrd|Corr|Sub|Del|Ins|Err|S.Err|"
RULE = "|" + "---|" * 9


def row(name: str, result: ErrorRate) -> str:
    """One line for the data set `name`.

    Raises:
        ConfigError: The name holds a character that ends a cell.
    """
    if "|" in name or not name.isprintable() or not name.strip():
        raise ConfigError(f"data set name {name!r} does not fit a table cell; it must not be empty or hold '|'")
    counts = (result.correct, result.substitutions, result.deletions, result.insertions, result.errors)
    percents = [100 * count / result.units for count in counts] + [100 * result.sentence_errors / result.sentences]
    cells = [name, result.sentences, result.units, *(f"{percent:.1f}" for percent in percents)]
    return f"|{'|'.join(map(str, cells))}|"


def table(results: Mapping[str, ErrorRate]) -> str:
    """The table of several results, data set name to error rate, ending with a line end."""
    return "\n".join([HEADER, RULE, *(row(name, result) for name, result in results.items())]) + "\n"


def update_results(path: str | Path, heading: str, results: Mapping[str, ErrorRate]) -> None:
    """Put rows into the table under the line `heading` of a Markdown file, by data set name.

    A row with the same name is replaced, others are appended; the table, the heading and the file are made where they
    are missing. What else stands in the file stays. Doing it twice changes nothing more.

    Args:
        path: The file, usually RESULTS.md.
        heading: The whole line, for example "### CER".
        results: Data set name to error rate.

    Raises:
        DataError: The heading has a table with other columns.
    """
    path = Path(path)
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n") if path.exists() else ["# RESULTS"]
    if heading not in lines:
        lines += ["", heading]
    start = lines.index(heading) + 1
    end = next((n for n in range(start, len(lines)) if lines[n].startswith("#")), len(lines))
    first = next((n for n in range(start, end) if lines[n].startswith("|")), None)
    if first is None:
        after = [""] if start < len(lines) and lines[start] else []
        lines[start:start] = ["", HEADER, RULE, *after]
        first = start + 1
    elif lines[first] != HEADER:
        raise DataError(f"{path}:{first + 1}: the table under {heading!r} has other columns; expected {HEADER}")
    for name, result in results.items():
        _put(lines, first, name, row(name, result))
    write_text(path, "\n".join(lines) + "\n")


def _put(lines: list[str], first: int, name: str, line: str) -> None:
    """Replace the row `name` of the table that begins at index `first` of `lines`, or add it below the last row."""
    last = first
    while last < len(lines) and lines[last].startswith("|"):
        if lines[last].split("|")[1].strip() == name:
            lines[last] = line
            return
        last += 1
    lines.insert(last, line)
