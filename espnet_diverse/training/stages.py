"""The two stages that ESPnet carries out: collecting statistics, and training.

The user's configuration says what the model is and how it learns; where files are and what follows from them is filled
in here. The directory of a run holds all that loading the model takes: vocabulary, feature statistics, config.yaml.
"""

import copy
import shutil
from pathlib import Path

import numpy as np

from espnet_diverse.corpora.audio import RATE, inspect_audio
from espnet_diverse.corpora.files import staged_directory, write_text
from espnet_diverse.corpora.kaldi import read_data_dir
from espnet_diverse.corpora.validate import validate
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.text import Vocabulary
from espnet_diverse.training import session
from espnet_diverse.training.config import Config, save
from espnet_diverse.training.tasks import TASKS

DATA = {"asr": (("wav.scp", "speech", "sound"), ("text", "text", "text"))}
"""What each task reads: file of the data directory, ESPnet's name for it, its type."""

_FILLED_IN = (
    *("output_dir", "ngpu", "collect_stats", "token_list", "token_type", "bpemodel"),
    *(f"{phase}_{what}" for phase in ("train", "valid") for what in ("data_path_and_name_and_type", "shape_file")),
)
# ESPnet's plots take 10 seconds an epoch. Of fold_length (80000 samples, 150 tokens), used by `batch_type: folded`
# alone, and normalize the values are those of ESPnet's recipes.
_DEFAULTS = {
    "model": "diverse",
    "normalize": "global_mvn",
    "fold_length": [80000, 150],
    "use_matplotlib": False,
    "num_att_plot": 0,
    "resume": True,
}


def collect_stats(
    config: Config, train_dir: Path, valid_dir: Path, tokens_dir: Path, output_dir: Path, task: str = "asr"
) -> None:
    """Write shapes of all utterances and sums of their features, in train/ and valid/ under `output_dir`.

    Raises:
        ConfigError: The configuration is wrong.
        DataError: A data directory is wrong, all faults of it listed, or the statistics are not finite.
    """
    vocabulary = Vocabulary.load(tokens_dir)
    filled = _fill(config, task, vocabulary, tokens_dir, {"train": train_dir, "valid": valid_dir})
    session.check(TASKS[task], filled)
    for data_dir in (train_dir, valid_dir):
        _check_data(data_dir)
    with staged_directory(output_dir) as staging, session.logged(staging / "stats.log"):
        # Normalising needs the statistics that are collected here.
        filled.update(collect_stats=True, normalize=None, normalize_conf={}, ngpu=0, output_dir=str(staging))
        session.run(TASKS[task], filled)
        for phase in ("train", "valid"):
            _check_finite(staging / phase / "feats_stats.npz")
            lines = (staging / phase / "text_shape").read_text(encoding="utf-8").splitlines()
            sized = "".join(f"{line},{len(vocabulary)}\n" for line in lines)  # `batch_type: numel` counts elements
            write_text(staging / phase / _text_shape(vocabulary), sized)


def train(
    config: Config,
    data_dirs: tuple[Path, Path],
    tokens_dir: Path,
    stats_dir: Path,
    output_dir: Path,
    ngpu: int = 0,
    task: str = "asr",
) -> None:
    """Train, or go on from the last finished epoch.

    Args:
        config: What the user configures, as `merge` returns it; saved as train.yaml.
        data_dirs: Data directories for training and validation.
        tokens_dir: Vocabulary.
        stats_dir: What `collect_stats` wrote.
        output_dir: Directory of the run.
        ngpu: Number of GPUs.
        task: A name in `DATA`.

    Raises:
        ConfigError: The configuration is wrong.
        DataError: Data, vocabulary or statistics are missing or wrong.
        TrainingError: Training came to a state that must not be used.
    """
    session.check_gpus(ngpu)
    vocabulary = Vocabulary.load(tokens_dir)
    phases = dict(zip(("train", "valid"), data_dirs, strict=True))
    filled = _fill(config, task, vocabulary, output_dir, phases)
    filled.update(ngpu=ngpu, output_dir=str(output_dir.absolute()))
    if filled["normalize"] == "global_mvn":
        filled.add({"normalize_conf": {"stats_file": str((output_dir / "feats_stats.npz").absolute())}}, {})
    for phase in phases:
        shapes = [stats_dir / phase / name for name in ("speech_shape", _text_shape(vocabulary))]
        filled[f"{phase}_shape_file"] = [str(_existing(path)) for path in shapes]
    session.check(TASKS[task], filled)
    _check_finite(stats_dir / "train" / "feats_stats.npz")
    for data_dir in data_dirs:
        validate(data_dir, read_audio=False)
    output_dir.mkdir(parents=True, exist_ok=True)
    vocabulary.save(output_dir)
    _copy(stats_dir / "train" / "feats_stats.npz", output_dir / "feats_stats.npz")
    save(config, output_dir / "train.yaml")
    with session.logged(output_dir / "train.log"):
        session.run(TASKS[task], filled)


def _fill(config: Config, task: str, vocabulary: Vocabulary, tokens_dir: Path, phases: dict[str, Path]) -> Config:
    """Add what follows from the files: paths are absolute, so that ESPnet finds them from any working directory."""
    for key in _FILLED_IN:
        if key in config:
            raise ConfigError(f"{config.origin(key)}: key {key!r} is filled in by the command line; take it out")
    filled = copy.deepcopy(config)
    filled.add({key: value for key, value in _DEFAULTS.items() if key not in config}, {})
    tokens_dir = tokens_dir.absolute()
    filled.update(
        token_list=str(tokens_dir / "tokens.txt"),
        token_type=vocabulary.token_type,
        bpemodel=None if vocabulary.model is None else str(tokens_dir / "bpe.model"),
    )
    for phase, data_dir in phases.items():
        triples = [(str(data_dir.absolute() / file), name, kind) for file, name, kind in DATA[task]]
        filled[f"{phase}_data_path_and_name_and_type"] = triples
    return filled


def _text_shape(vocabulary: Vocabulary) -> str:
    return f"text_shape.{vocabulary.token_type}"


def _check_data(path: Path) -> None:
    """Refuse a data directory that ESPnet would misread: it reads wav.scp and text itself and mends nothing."""
    validate(path)
    data = read_data_dir(path)
    prepared = "espnet-diverse prepare writes such directories"
    if data.segments:
        raise DataError(f"{path}: has segments, and training reads one audio file an utterance; {prepared}")
    for name, table in (("wav.scp", data.wav_scp), ("text", data.text)):
        if (path / name).read_text(encoding="utf-8") != "".join(f"{key} {value}\n" for key, value in table.items()):
            raise DataError(f"{path / name}: not sorted, or with other than plain single spaces and LF; {prepared}")
    # ESPnet checks in training that all rates are equal, but not which one it is, and draws a channel at random.
    utterance, audio = next(iter(data.wav_scp.items()))
    info = inspect_audio(Path(audio))
    if (info.rate, info.channels) != (RATE, 1):
        has = f"{utterance} has {info.rate} Hz and {info.channels} channels"
        raise DataError(f"{path / 'wav.scp'}: {has}, and allowed are {RATE} Hz and 1; {prepared}")


def _check_finite(path: Path) -> None:
    with np.load(_existing(path)) as statistics:
        bad = [name for name in statistics.files if not np.isfinite(statistics[name]).all()]
    if bad:
        raise DataError(
            f"{path}: {' and '.join(bad)} of the features are not finite; look for NaN samples in the audio"
        )


def _copy(source: Path, target: Path) -> None:
    partial = target.with_name(f".{target.name}.partial")
    shutil.copyfile(source, partial)
    partial.replace(target)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise DataError(f"{path}: no such file; espnet-diverse stats writes it")
    return path
