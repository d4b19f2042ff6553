"""Checks of a configuration that need no data, so that a misspelt key is found before hours of work."""

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path

from espnet_diverse.runs.condition_names import fill_in_without_data
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.config_checks import check
from espnet_diverse.runs.tasks import TASKS
from espnet_diverse.training.config.settings import DEFAULTS, check_settings


def check_early(
    fragments: Iterable[str], overrides: Iterable[str], task: str, search: Sequence[str | Path] | None = None
) -> None:
    """Check the configuration of `stats` and `train` as far as it does not depend on the data.

    Args:
        fragments: Fragments, as for `merge`.
        overrides: Values of --set.
        task: Name of the task, a key of `TASKS`.
        search: Folders with fragments, as for `merge`.

    Raises:
        ConfigError: The configuration is wrong.
    """
    config = merge(fragments, overrides, search)
    check_settings(config)
    filled = copy.deepcopy(config)
    filled.add({key: value for key, value in DEFAULTS.items() if key not in config}, {})
    fill_in_without_data(filled)
    check(TASKS[task], filled)
