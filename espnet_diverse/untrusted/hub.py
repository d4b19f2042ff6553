"""Models by name: repositories of the Hugging Face Hub, where ESPnet's public models are.

A repository must be given as hf:owner/name. A mistyped path is never treated as a repository: otherwise the owner of
`exp` on the Hub could supply the model of `exp/sdma`.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from espnet_diverse.errors import ConfigError, ModelError, first_line
from espnet_diverse.untrusted.foreign_yaml import shortened

PREFIX = "hf:"
OR_NAME = f"{PREFIX}owner/name for a repository of the Hugging Face Hub"
"""The end of a message about a path that does not exist."""
INSTALL = "install the extra hub: pip install 'espnet_diverse[hub]'"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_MOST_BYTES, _MOST_FILES = 1 << 35, 10_000  # of a repository; the largest public models of speech have 10 GB
_UNUSED = ["*.png", "*.pdf", "*.svg", "*.wav", "*.log", "*/att_ws/*", "*/images/*", "*/tensorboard/*"]
_ENCODER = ["config.json", "tokenizer.json", "model*.safetensors", "model.safetensors.index.json"]


def is_name(text: str) -> bool:
    """Return whether a text has the form owner/name."""
    return _NAME.fullmatch(text) is not None


def name_of(model: str | Path) -> str | None:
    """The name owner/name of a repository if `model` is hf:owner/name; None if it is a path.

    Raises:
        ModelError: The text after hf: is not a name.
    """
    name = str(model).removeprefix(PREFIX)
    if name == str(model):
        return None
    if not is_name(name):
        raise ModelError(f"{model}: {name!r} is not the name of a repository; give {OR_NAME}")
    return name


def encoder_folder(
    model: str | Path,
    only: Sequence[str] = _ENCODER,
    cache: str | None = None,
    or_cached: bool = False,
    offline: bool = False,
) -> Path:
    """Folder of a pretrained encoder: `model` itself, or the folder with the files of hf:owner/name.

    Args:
        model: The folder, or hf:owner/name.
        only: Patterns of the files that are fetched.
        cache: Folder of the cache; by default, the cache of the Hugging Face Hub.
        or_cached: Whether `model` may also be owner/name, which is searched for in the cache only.
        offline: Whether hf:owner/name is searched for in the cache only.

    Raises:
        ConfigError: There is no such folder.
        ModelError: See `fetched`.
    """
    name = name_of(model)
    if name and not offline:
        return fetched(name, only, cache)
    if not name and Path(model).is_dir():
        return Path(model)
    in_cache = offline or or_cached
    if in_cache and (folder := _cached(name or str(model), only, cache)):
        return folder
    todo = f"give the folder of a pretrained encoder, or {OR_NAME}"
    if offline:
        todo = "put it there, so that its config.json and preprocessor_config.json can be read"
    where = ", and not in the cache of the Hub" if in_cache else ""
    raise ConfigError(f"{shortened(model)}: no such folder{where}; {todo}")


def _cached(name: str, only: Sequence[str], cache: str | None) -> Path | None:
    """Folder of the files of a repository in the cache, or None; the network is not used."""
    if not is_name(name):
        return None
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, allow_patterns=only, cache_dir=cache, local_files_only=True))
    except (ImportError, OSError):  # errors of huggingface_hub are subclasses
        return None


def fetched(name: str, only: Sequence[str] | None = None, cache: str | None = None) -> Path:
    """Folder of the files of a repository, in the cache of the Hugging Face Hub; the name of the folder is its version.

    With a network, files that are not in the cache are fetched; without one, the files in the cache are used.

    Args:
        name: Name of the repository, owner/name.
        only: Patterns of the files that are fetched; by default all but pictures, sound and logs.
        cache: Folder of the cache; by default, the cache of the Hugging Face Hub.

    Raises:
        ModelError: huggingface_hub is not installed, there are more than 10,000 files or 34 GB, or they cannot be
            fetched and are not in the cache.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ModelError(f"{PREFIX}{name}: to fetch it from the Hugging Face Hub, {INSTALL}") from error
    _check_size(name, only)
    try:
        return Path(snapshot_download(name, allow_patterns=only, ignore_patterns=_UNUSED, cache_dir=cache))
    except Exception as error:  # of many kinds: the network, the name, a permission, the disk
        reason = first_line(error)
        message = f"{PREFIX}{name}: cannot be fetched from the Hugging Face Hub ({reason})"
        raise ModelError(f"{message}; check the name and the network, or give a directory or a packed model") from error


def _check_size(name: str, only: Sequence[str] | None) -> None:
    from huggingface_hub import HfApi
    from huggingface_hub.utils import filter_repo_objects

    try:
        listed = HfApi().model_info(name, files_metadata=True).siblings or []
    except Exception:  # of many kinds; `fetched` then uses the cache or reports what is wrong
        return
    files = list(filter_repo_objects(listed, allow_patterns=only, ignore_patterns=_UNUSED, key=lambda f: f.rfilename))
    size = sum(file.size or 0 for file in files)
    if size > _MOST_BYTES or len(files) > _MOST_FILES:
        reason = f"{PREFIX}{name}: has {len(files)} files of {size / 1e9:.0f} GB"
        most = f"at most {_MOST_FILES} files of {_MOST_BYTES / 1e9:.0f} GB are fetched"
        raise ModelError(f"{reason}, and {most}; download the model's files by `hf download` and give their directory")
