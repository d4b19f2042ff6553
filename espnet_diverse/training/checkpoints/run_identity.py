"""The identity of a run, which distinguishes its checkpoints from another run's with the same settings.

It is made when a run begins, is in data.json of its folder and in each of its checkpoints, and stays with a folder that
is copied or moved. Runs of former versions have none, and get none when they continue.
"""

import logging
import secrets
from datetime import datetime
from pathlib import Path

from espnet_diverse.errors import ModelError
from espnet_diverse.training.checkpoints.data_record import saved_digests

log = logging.getLogger(__name__)

KEY = "run"
"""Key of the identity in data.json and in a checkpoint."""


def new_identity(output_dir: Path) -> str:
    """Return an identity for a run that begins: for people the name of its folder and the time, then random digits."""
    name = "".join(character if character.isprintable() else "?" for character in output_dir.absolute().name)
    return f"{name} of {datetime.now():%Y-%m-%d %H:%M:%S}, {secrets.token_hex(8)}"


def identity_of(output_dir: Path) -> str | None:
    """Return the identity that the folder of a run has, or None.

    Raises:
        DataError: Its data.json is damaged.
    """
    return saved_digests(output_dir).get(KEY)


def check_identity(saved: str | None, source: Path) -> None:
    """Check that a checkpoint is of the run in whose folder it is.

    Args:
        saved: The identity in the checkpoint, None if it has none.
        source: Its file.

    Raises:
        DataError: data.json of the folder is damaged.
        ModelError: The checkpoint is of another run, or of none while the folder is of a run with an identity.
    """
    expected = identity_of(source.parent)
    if expected is None and saved is not None:
        log.warning(
            "%s: is of the run %s, and the folder does not say of which run it is, as data.json is missing or of a "
            "former version; training continues with this checkpoint",
            source,
            saved,
        )
    elif saved != expected:
        whose = f"of another run, {saved}," if saved is not None else "of a former version or of another program,"
        raise ModelError(
            f"{source}: is {whose} and the run of this folder is {expected}; put back the checkpoint of this run, or "
            "copy the whole folder of the other one to continue that"
        )
