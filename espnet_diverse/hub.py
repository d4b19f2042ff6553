"""Models by name: repositories of the Hugging Face Hub, where ESPnet's public models are."""

import re
from pathlib import Path

from espnet_diverse.errors import ModelError

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_UNUSED = ["*.png", "*.pdf", "*.svg", "*.wav", "*.log", "*/att_ws/*", "*/images/*", "*/tensorboard/*"]


def is_name(model: str | Path) -> bool:
    """Whether `model` is the name of a repository, such as espnet/owsm_v3, and no path: nothing on disk begins so."""
    model = Path(model)
    return _NAME.fullmatch(str(model)) is not None and not model.exists() and not model.parent.exists()


def fetched(name: str) -> Path:
    """Folder of the files of a repository, in the cache of the Hugging Face Hub; the name of the folder is its version.

    With the network files are fetched that are not in the cache; without it those in the cache are used.

    Args:
        name: Name of the repository, `owner/model`.

    Raises:
        ModelError: huggingface_hub is not installed, or the files cannot be fetched and are not in the cache.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        what = f"{name}: no such model here; to fetch it from the Hugging Face Hub,"
        raise ModelError(f"{what} install the extra hub: pip install 'espnet_diverse[hub]'") from error
    try:
        return Path(snapshot_download(name, ignore_patterns=_UNUSED))
    except Exception as error:  # of many kinds: the network, the name, a permission, the disk
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        what = f"{name}: no such model here, nor can it be fetched from the Hugging Face Hub ({reason})"
        raise ModelError(f"{what}; check the name and the network, or give a directory or a packed model") from error
