"""Reads score.json, which `espnet-diverse score` writes."""

from collections.abc import Mapping
from math import isfinite
from pathlib import Path

from espnet_diverse.errors import DataError
from espnet_diverse.untrusted.whole_files import read_json


def read_metrics(path: Path) -> dict[str, dict]:
    """Read the metrics of a score.json by name, each as in `report.Report.to_dict`.

    Raises:
        DataError: The file is missing or damaged, or a score is not a number.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; espnet-diverse score writes it")
    try:
        metrics = read_json(path)["metrics"]
        rows = [row for groups in metrics.values() for row in rows_of(groups).values()]
        numbers = bool(rows) and all(isfinite(row["score"]) for row in rows)
    except (ValueError, LookupError, TypeError, AttributeError):
        numbers = False
    if not numbers:
        raise DataError(f"{path}: is damaged or not a file of scores; run espnet-diverse score again")
    return metrics


def rows_of(groups: Mapping[str, dict]) -> dict[str, dict]:
    """The rows of a metric by title: the whole corpus as "", then languages, directions or domains, then averages."""
    return {"": groups["overall"], **groups["rows"], **groups["averages"]}
