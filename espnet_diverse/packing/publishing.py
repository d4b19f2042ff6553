"""Publishing a packed model as a repository of the Hugging Face Hub, where hf:owner/name finds it."""

import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.untrusted.hub import INSTALL, is_name


def check_push(name: str) -> None:
    """Refuse what `push` could not do, before a model is packed.

    Raises:
        ConfigError: The name is not owner/name, or huggingface_hub is not installed.
    """
    if not is_name(name):
        raise ConfigError(f"push_to {name!r} is not the name of a repository; give owner/name")
    try:
        import huggingface_hub  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"push_to {name}: to publish a model, {INSTALL}") from error


def push(packed: Path, name: str, private: bool = False) -> str:
    """Upload the files of a packed model, with its model card, in one commit.

    The account is that of `hf auth login` or of the variable HF_TOKEN.

    Args:
        packed: Packed model, written by `pack`.
        name: Name of the repository, owner/name; it is made if there is none.
        private: Whether a repository that is made is private; one that exists stays as it is.

    Returns:
        The address of the commit.

    Raises:
        ModelError: The Hub cannot be reached, or refuses the upload.
    """
    from huggingface_hub import HfApi

    with TemporaryDirectory() as folder, zipfile.ZipFile(packed) as archive:
        archive.extractall(folder)
        try:
            api = HfApi()
            api.create_repo(name, private=private, exist_ok=True)
            return str(api.upload_folder(folder_path=folder, repo_id=name, commit_message=f"Upload {packed.name}"))
        except Exception as error:  # of many kinds: the network, the name, a permission
            reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
            raise ModelError(
                f"{packed}: is packed, and cannot be published as {name} ({reason}); check the name, the network and "
                "the token of `hf auth login`, then run the same command"
            ) from error
