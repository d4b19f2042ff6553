"""Which files a trained model consists of; none is loaded, and neither PyTorch nor ESPnet is imported."""

from pathlib import Path

from espnet_diverse.errors import ModelError
from espnet_diverse.training.config import load

INSIDE = "language_model"
"""Folder of a language model in the directory of a run: that of a packed model of ESPnet is unpacked to it."""
NGRAM = "ngram.bin"
"""N-gram model in that folder, in any format of KenLM, which knows them by their content."""


def weights_name(task: str) -> str:
    """Name of the average that commands use by default, in the directory of a run."""
    return "valid.loss.ave.pth" if task == "lm" else "valid.acc.ave.pth"


def find_weights(model_dir: Path, model_file: str | Path | None = None, task: str = "asr") -> Path:
    """Path of `model_file`, given as a path or as a name in `model_dir`; by default that of the task.

    If `model_dir` has no such .pth file, its file of the same name that ends in .safetensors comes before the path.

    Raises:
        ModelError: There is neither; the message lists the model files of the directory.
    """
    model_file = Path(model_file or weights_name(task))
    safe = [model_dir / model_file.with_suffix(".safetensors")] if model_file.suffix == ".pth" else []
    for path in (model_dir / model_file, *safe, model_file):
        if path.is_file():
            return path
    files = (path.name for suffix in ("pth", "safetensors", "ckpt") for path in model_dir.glob(f"*.{suffix}"))
    present = " ".join(sorted(files)) or "none"
    raise ModelError(f"{model_dir / model_file}: no such model file; model files there: {present}")


def model_files(model_dir: Path, model_file: str | Path | None = None, task: str | None = None) -> list[Path]:
    """Files that a command reads of a model: config.yaml, the weights, and those of its own language model.

    Args:
        model_dir: Directory of the run; it may be missing, for example before training.
        model_file: Weights, see `find_weights`; by default those of the task.
        task: Name of the task; by default the one in config.yaml.
    """
    config, own = model_dir / "config.yaml", model_dir / INSIDE
    weights = Path(model_file or weights_name(task or _task(config)))
    try:
        weights = find_weights(model_dir, weights)
    except ModelError:  # not trained yet, or the command will say what is wrong
        weights = weights if weights.parent.parts else model_dir / weights
    if (own / "config.yaml").is_file():
        return [config, weights, *model_files(own, task="lm")]
    return [config, weights, *([own / NGRAM] if (own / NGRAM).is_file() else [])]


def _task(config: Path) -> str:
    try:
        return str(load(config).get("task", "asr"))
    except ModelError:
        return "asr"
