"""Files of a trained model; none is loaded, and neither PyTorch nor ESPnet is imported."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from espnet_diverse.errors import ModelError
from espnet_diverse.option_checks import similar_path
from espnet_diverse.runs.config import load
from espnet_diverse.runs.criteria import preferred_metrics
from espnet_diverse.untrusted.hub import OR_NAME, name_of
from espnet_diverse.untrusted.whole_files import read_json

INSIDE = "language_model"
"""Folder of a language model in the directory of a run; a packed ESPnet model's language model is unpacked to it."""
NGRAM = "ngram.bin"
"""N-gram model in that folder, in any KenLM format; KenLM recognises formats by content."""


FOREIGN_CONFIG = "config.json"
"""The configuration of a model of Hugging Face's layout."""
_AVERAGE = re.compile(r"(?P<metric>[^/]+)\.ave(?:_(?P<number>\d{1,9})best)?\.(?:pth|safetensors)")
_UNNUMBERED = 10**9  # a link to the average with the greatest number, or the only average


def weights_name(config: Mapping) -> str:
    """Name of the weights that commands use by default, in the directory of a run with this configuration."""
    return f"{preferred_metrics(config)[0]}.ave.pth"


def is_whisper(folder: Path) -> bool:
    """Return whether a folder has a Whisper model of Hugging Face's layout, and is not the directory of a run."""
    if (folder / "config.yaml").is_file():
        return False
    try:
        config = read_json(folder / FOREIGN_CONFIG)
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("model_type") == "whisper"


def check_exists(model: Path) -> None:
    """Refuse a path where there is no model; whether a repository of the Hub exists is not checked.

    Raises:
        ModelError: The path does not exist, or is a directory without config.yaml, a pipe or a device, or what follows
            hf: is not a repository name.
    """
    if name_of(model) is not None:
        return
    if not model.exists():
        near = similar_path(model)
        todo = f"did you mean {near}?" if near else f"give the directory of a run, a packed model, or {OR_NAME}"
        raise ModelError(f"{model}: no such model; {todo}")
    if not model.is_dir() and not model.is_file():
        raise ModelError(f"{model}: is a pipe or a device; give the directory of a run, a packed model, or {OR_NAME}")
    if model.is_dir() and not (model / "config.yaml").is_file() and not is_whisper(model):
        message = (
            "is not the directory of a run, because it has no config.yaml; give one, a packed model, or a Whisper model"
        )
        raise ModelError(f"{model}: {message}")


def find_weights(model_dir: Path, model_file: str | Path | None = None, config: Mapping | None = None) -> Path:
    """Path of `model_file`, given as a path or as a name in `model_dir`; by default an average of the run.

    The default is the first that exists, in the order of `preferred_metrics`: `METRIC.ave.pth`, or else ESPnet's
    `METRIC.ave_Nbest.pth` with the greatest N, as in a repository of models that has no links. If all averages are by
    one other metric, that metric is used. If `model_dir` has no such .pth file, its file of the same name that ends in
    .safetensors comes before the path.

    Args:
        model_dir: Directory of the run.
        model_file: Weights, as a path or a name.
        config: Configuration of the run; by default its config.yaml is read, if `model_file` is not given.

    Raises:
        ModelError: There is no such file, and the message lists the model files of the directory; or config.yaml is
            missing or damaged.
    """
    if model_file:
        name = str(model_file)
        candidates = [*_in_folder(model_dir, name), Path(model_file)]
    else:
        config = load(model_dir / "config.yaml") if config is None else config
        name, candidates = weights_name(config), _averages(model_dir, preferred_metrics(config))
    for path in candidates:
        if path.is_file():
            return path
    files = (path.name for suffix in ("pth", "safetensors", "ckpt") for path in model_dir.glob(f"[!.]*.{suffix}"))
    present = " ".join(sorted(files)) or "none"
    raise ModelError(f"{model_dir / name}: no such model file; model files there: {present}")


def _averages(model_dir: Path, metrics: Sequence[str]) -> list[Path]:
    """Averages in a directory by each of `metrics`, best first; if all averages are by one metric, by that one."""
    averages: dict[str, dict[int, Path]] = {}
    for path in model_dir.glob("*.ave*"):
        if name := _AVERAGE.fullmatch(path.name):
            number = _UNNUMBERED if name["number"] is None else int(name["number"])
            if path.suffix == ".pth" or number not in averages.get(name["metric"], {}):
                averages.setdefault(name["metric"], {})[number] = path
    named = metrics if len(averages) != 1 else averages
    return [path for metric in named for _, path in sorted(averages.get(metric, {}).items(), reverse=True)]


def _in_folder(model_dir: Path, name: str) -> list[Path]:
    path = model_dir / name
    return [path, path.with_suffix(".safetensors")] if path.suffix == ".pth" else [path]


def model_files(model_dir: Path, model_file: str | Path | None = None, task: str | None = None) -> list[Path]:
    """Files of a model that a command reads: config.yaml, the weights, and the files of its own language model.

    Args:
        model_dir: Directory of the run; it may be missing, for example before training.
        model_file: Weights, see `find_weights`.
        task: Name of the task where config.yaml does not give it.
    """
    config, language_model = model_dir / "config.yaml", model_dir / INSIDE
    known = {"task": task} | known_config(model_dir)
    try:
        weights = find_weights(model_dir, model_file, known)
    except ModelError:  # not trained yet, or the command will report what is wrong
        weights = Path(model_file or weights_name(known))
        weights = weights if weights.parent.parts else model_dir / weights
    if (language_model / "config.yaml").is_file():
        return [config, weights, *model_files(language_model, task="lm")]
    return [config, weights, *([language_model / NGRAM] if (language_model / NGRAM).is_file() else [])]


def known_config(model_dir: Path) -> dict:
    """The configuration of a run, or nothing where it cannot be read, for example before training."""
    try:
        return load(model_dir / "config.yaml")
    except ModelError:
        return {}
