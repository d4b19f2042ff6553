"""The files beside the weights that a run needs: vocabularies and statistics of the features."""

import shutil
from pathlib import Path

_VOCABULARY = ("tokens.txt", "tokens.yaml", "bpe.model", "tokenizer.json")


def copy_files(config: dict, model_dir: Path, output_dir: Path) -> None:
    """Copy the files that loading the model needs, and change `config` to the copies.

    Args:
        config: Configuration of the run, as `read_config` returns it.
        model_dir: Directory of the run.
        output_dir: Directory of the copy.
    """
    for folder in (model_dir, model_dir / "src_tokens"):
        for name in _VOCABULARY:
            if (folder / name).is_file():
                _copy(folder / name, output_dir / folder.relative_to(model_dir) / name)
    normalise = config.get("normalize_conf") or {}
    for section, key in ((config, "bpemodel"), (config, "src_bpemodel"), (normalise, "stats_file")):
        if section.get(key):
            source = Path(section[key])
            inside = source.resolve().is_relative_to(model_dir.resolve())
            place = source.resolve().relative_to(model_dir.resolve()) if inside else Path(source.name)
            section[key] = str(_copy(source, output_dir.absolute() / place))


def _copy(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return target
