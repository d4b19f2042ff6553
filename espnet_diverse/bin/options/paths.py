"""Checks of paths on the command line, before PyTorch is imported, which takes seconds."""

import argparse

from espnet_diverse.errors import DataError

_TODO = "correct the path, or make it with espnet-diverse prepare"


def check_paths(args: argparse.Namespace) -> None:
    """Refuse a data directory, model or language model that is not there.

    Raises:
        DataError: The data directory is not there.
        ModelError: A model is not there.
    """
    folder = getattr(args, "data_dir", None)
    if folder is not None and not folder.exists():
        raise DataError(f"--data_dir {folder}: there is no such directory; {_TODO}")
    from espnet_diverse.runs.model_files import check_exists

    for name in ("model_dir", "lm"):
        if (model := getattr(args, name, None)) is not None:
            check_exists(model)
