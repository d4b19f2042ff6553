"""The library for matrix products on a CPU that a run uses, as recorded in its folder.

The libraries round in different orders, so a run continues with the library that it began with, on all of its machines
and in all of its processes, whatever a measurement (`cpu/linear_kernels.py`) finds there.
"""

import json
import logging
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from espnet_diverse.cpu import linear_kernels
from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.errors import DataError

log = logging.getLogger(__name__)

FILE = "kernels.json"
"""File in the folder of a run: the library by place and size, as `linear_kernels.choice` returns it."""


def others_asked(output_dir: Path) -> list[str]:
    """Return the library that the user asks for, if the run in `output_dir` does not train with it everywhere.

    Raises:
        ConfigError: The environment asks for an unknown library.
        DataError: The file of the run is damaged.
    """
    asked, libraries = linear_kernels.asked(), _kept(output_dir)
    return [asked] if libraries and asked != "auto" and _of_training(libraries) != {asked} else []


def keep(output_dir: Path, resumed: bool) -> None:
    """Write which library the run uses: the one the user asks for, or the one of before, or the faster one.

    Args:
        output_dir: Directory of the run.
        resumed: Whether the run continues, with the library in its file.
    """
    libraries = _kept(output_dir) if resumed and linear_kernels.asked() == "auto" else None
    libraries = libraries or linear_kernels.choice()
    write_text(output_dir / FILE, json.dumps(libraries, indent=1) + "\n")
    if "onednn" in _of_training(libraries) and not linear_kernels.AVAILABLE:
        lacks = (
            "its kernels are onednn, which this PyTorch lacks; those of mkl, which round in another order, are taken"
        )
        log.warning("%s: %s", output_dir, lacks)


def taken_of(output_dir: Path) -> AbstractContextManager[None]:
    """Use the library of a run while the block runs; a run that began on GPUs has none."""
    libraries = _kept(output_dir)
    return linear_kernels.taken(libraries) if libraries else nullcontext()


def _of_training(libraries: dict[str, str]) -> set[str]:
    return {library for place, library in libraries.items() if place.startswith("training ")}


def _kept(output_dir: Path) -> dict[str, str] | None:
    path = output_dir / FILE
    if not path.is_file():
        return None
    if (libraries := linear_kernels.read_choice(path)) is None:
        raise DataError(
            f"{path}: is damaged, so the run cannot continue with its kernels; delete it to continue with the present "
            "ones, or give another --output_dir"
        )
    return libraries
