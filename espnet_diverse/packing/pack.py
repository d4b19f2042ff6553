"""Packing the directory of a run into one file, which ESPnet can also read; see `runs/packed/archive.py`.

A packed model can be published as a repository of the Hugging Face Hub, where hf:owner/name finds it. Low-rank adapters
become part of the weights, except adapters by condition if no value of the condition is given.
"""

import sys
import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import espnet
import torch
import yaml

import espnet_diverse
from espnet_diverse.data.files.atomic_files import staged_file
from espnet_diverse.errors import ConfigError, ModelError, first_line
from espnet_diverse.nets.adapters.low_rank import adapted, merge_low_rank
from espnet_diverse.packing.model_card import Facts, card
from espnet_diverse.packing.pruning import prune_model, pruned_config
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.lora import without_adapter
from espnet_diverse.runs.model_files import INSIDE, NGRAM, find_weights
from espnet_diverse.runs.packed.archive import CARD, META, NAMES, NGRAM_FILE, SAFETENSORS, place
from espnet_diverse.runs.packed.run_files import VOCABULARY
from espnet_diverse.runs.tasks import load_model, read_config
from espnet_diverse.untrusted.foreign_config import OF_THE_MACHINE, named_files
from espnet_diverse.untrusted.hub import INSTALL, is_name
from espnet_diverse.untrusted.whole_files import read_bytes

WEIGHTS = {"both": (".pth", ".safetensors"), "pth": (".pth",), "safetensors": (".safetensors",)}
"""Suffixes of the weights by choice; ESPnet only reads .pth."""

_EPOCH = (1980, 1, 1, 0, 0, 0)  # date of all members, so that packing is reproducible


def pack(
    model_dir: Path,
    output: Path,
    facts: Facts,
    model_file: str | Path | None = None,
    weights: str = "both",
    conditions: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """Write a packed model with its model card and its own language model. A model that cannot be loaded is refused.

    Args:
        model_dir: Directory of the run.
        output: Path of the file; its name ends in .zip. A packed model that `pack` has written is replaced.
        facts: Statements for the model card.
        model_file: Weights, see `find_weights`; by default, the weights that commands use.
        weights: Format of the weights, a key of `WEIGHTS`.
        conditions: Values by condition that the packed model is for, see `prune_model`; by default all.

    Returns:
        `output`; the same model and facts give the same content.

    Raises:
        ConfigError: The name of `output` or the format of the weights is not allowed, another file is there, or a value
            of a condition is unknown or missing.
        ModelError: A file is missing or damaged, or the weights do not fit the configuration.
    """
    if output.suffix != ".zip":
        raise ConfigError(f"{output}: a packed model is a zip file; the name must end in .zip")
    if output.exists() and not _is_ours(output):
        raise ConfigError(f"{output}: exists, and `pack` has not written it; move it away or choose another path")
    if weights not in WEIGHTS:
        raise ConfigError(f"weights {weights!r} is unknown; known: {' '.join(WEIGHTS)}")
    config = read_config(model_dir / "config.yaml")
    task = config.get("task", "asr")
    source = find_weights(model_dir, model_file, config)
    model, _ = load_model(model_dir, source, task=task)
    if conditions:
        prune_model(model, conditions)
        config = pruned_config(config, model)
    merge_low_rank(model, by_condition=False)
    if next(adapted(model), None) is None:
        config = without_adapter(config)
    files = {checkpoint.SAFETENSORS: SAFETENSORS, ".pth": source.with_suffix(".pth").name}
    text = card(model_dir, config, model, facts, output.name, source.stem)
    named = _files(model_dir, config)
    meta = _meta(task, files[WEIGHTS[weights][0]])
    members = {
        CARD: text.encode(),
        "config.yaml": _yaml(config),
        **named,
        **{files[suffix]: _weights(model.state_dict(), suffix) for suffix in WEIGHTS[weights]},
    }
    if (model_dir / INSIDE / "config.yaml").is_file():
        members |= _language_model(model_dir / INSIDE, meta)
    elif (ngram := model_dir / INSIDE / NGRAM).is_file():
        meta["files"][NGRAM_FILE] = f"{INSIDE}/{NGRAM}"
        members |= {meta["files"][NGRAM_FILE]: ngram.read_bytes()}
    _write(output, {META: _yaml(meta), **members})
    return output


def _is_ours(path: Path) -> bool:
    """Return whether a file is a packed model written by `pack`; ESPnet's lack the version of this package."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(line.startswith(b"espnet_diverse:") for line in archive.read(META).splitlines())
    except (OSError, KeyError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return False


def _language_model(folder: Path, meta: dict) -> dict[str, bytes]:
    """Content of the files of a model's own language model, by member; the names are added to `meta`."""
    config, (config_key, weights_key) = read_config(folder / "config.yaml"), NAMES["lm"]
    source = find_weights(folder, config=config)
    model, _ = load_model(folder, source, task="lm")
    files = {f"{INSIDE}/{name}": content for name, content in _files(folder, config).items()}
    for section, key in named_files(config):
        section[key] = f"{INSIDE}/{section[key]}"
    meta["yaml_files"][config_key] = f"{INSIDE}/config.yaml"
    meta["files"][weights_key] = f"{INSIDE}/{source.with_suffix('.pth').name}"
    weights = {meta["files"][weights_key]: _weights(model.state_dict(), ".pth")}
    return {f"{INSIDE}/config.yaml": _yaml(config), **files, **weights}


def _files(model_dir: Path, config: dict) -> dict[str, bytes]:
    """Content of the vocabularies and of the files in config.yaml, by member; `config` is changed to these names."""
    members = {}
    for folder in (Path(), Path("src_tokens")):
        paths = {(folder / name).as_posix(): model_dir / folder / name for name in VOCABULARY}
        members |= {name: read_bytes(path) for name, path in paths.items() if path.is_file()}
    for section, key in named_files(config):
        path = Path(section[key])
        section[key] = place(key, path)
        members[section[key]] = read_bytes(path)
    config |= {key: value for key, value in OF_THE_MACHINE.items() if key in config}
    return members


def _meta(task: str, weights: str) -> dict:
    config_key, weights_key = NAMES[task]
    versions = {
        "python": sys.version,
        "torch": str(torch.__version__),
        "espnet": espnet.__version__,
        "espnet_diverse": espnet_diverse.__version__,
    }
    return {"files": {weights_key: weights}, "yaml_files": {config_key: "config.yaml"}, **versions}


def _yaml(content: Mapping) -> bytes:
    return yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True).encode()


def _weights(state: Mapping[str, torch.Tensor], suffix: str) -> bytes:
    content = BytesIO()
    checkpoint.write(dict(state), content, suffix)
    return content.getvalue()


def _write(output: Path, members: Mapping[str, bytes]) -> None:
    """Write the archive under a temporary name first; weights, which do not compress, are stored uncompressed."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with staged_file(output) as partial, zipfile.ZipFile(partial, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o644 << 16
            stored = name.endswith(tuple(WEIGHTS["both"]))
            archive.writestr(info, content, zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED)


def check_push(name: str) -> None:
    """Check that `push` is possible, before a model is packed.

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

    The account is set by `hf auth login` or the variable HF_TOKEN.

    Args:
        packed: Packed model, written by `pack`.
        name: Name of the repository, owner/name; it is created if it does not exist.
        private: Whether a new repository is private; an existing one stays as it is.

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
            reason = first_line(error)
            raise ModelError(
                f"{packed}: is packed, and cannot be published as {name} ({reason}); check the name, the network and "
                "the token of `hf auth login`, then run the same command"
            ) from error
