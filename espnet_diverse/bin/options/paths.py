"""Checks of paths on the command line, before PyTorch is imported, which takes seconds."""

import argparse
from pathlib import Path

from espnet_diverse.errors import DataError

_FOLDERS = {
    **dict.fromkeys(("data_dir", "train_dir", "valid_dir"), "correct the path, or make it with espnet-diverse prepare"),
    **dict.fromkeys(("tokens_dir", "src_tokens_dir"), "correct the path, or make it with espnet-diverse tokens"),
    "stats_dir": "correct the path, or make it with espnet-diverse stats",
    "decode_dir": "correct the path, or make it with espnet-diverse decode",
}


def check_paths(args: argparse.Namespace) -> None:
    """Refuse models and directories that are not there.

    Raises:
        DataError: A directory of data is not there.
        ModelError: A model is not there.
    """
    for name, advice in _FOLDERS.items():
        folder = getattr(args, name, None)
        if folder is not None and not folder.exists():
            raise DataError(f"--{name} {folder}: there is no such directory; {advice}")
    models = [model for name in ("model_dir", "lm") if isinstance(model := getattr(args, name, None), Path)]
    if not models or getattr(args, "format", None) == "lhotse":  # `export lhotse` has data in the model's place
        return
    from espnet_diverse.runs.model_files import check_exists

    for model in models:
        check_exists(model)
