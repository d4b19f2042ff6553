"""The statistics of a run: shapes, and sums over all frames, from which ESPnet computes means and variances."""

import zipfile
import zlib
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from espnet_diverse.audio.reading import open_file
from espnet_diverse.data.files.atomic_files import check_no_file
from espnet_diverse.data.tables import pack_table
from espnet_diverse.errors import DataError, abridged
from espnet_diverse.runs.audio_rate import audio_rate, reads_features
from espnet_diverse.runs.config import differences, load
from espnet_diverse.training.data.run_data import existing
from espnet_diverse.untrusted.whole_files import check_arrays

NAMES = ("count", "sum", "sum_square")
_WRITTEN = (
    *("config.yaml", "stats.log", "kept_features.json"),
    *(
        f"{phase}/{name}"
        for phase in ("train", "valid")
        for name in ("*_shape", "*_shape.*", "*_stats.npz", "*_keys", "kept_features", "kept_features.bin")
    ),
)
"""Files that `stats` writes, as patterns."""
_ROUNDING = 1e-7  # a variance below this share of the squared mean is rounding: the sums are in float32

_EXACT = ("WAV", "WAVEX", "FLAC")  # containers whose headers have the exact number of samples


def check_target(output_dir: Path) -> None:
    """Check that `stats` may write to `output_dir`: nothing, an empty directory, or earlier statistics are there.

    Raises:
        DataError: It is a file, or a directory with anything that `stats` has not written.
    """
    check_no_file(output_dir)
    written = {path for pattern in _WRITTEN for path in output_dir.glob(pattern)}
    if not any(path.name.endswith("_shape") for path in written):
        written = set()
    foreign = (path for path in output_dir.rglob("*") if path not in written and (path.is_symlink() or path.is_file()))
    if path := next(foreign, None):
        reason = f"has {path.relative_to(output_dir)}, which `stats` has not written"
        raise DataError(f"{output_dir}: {reason}; move it away or choose another path")


def check_source(shapes: Path, table: Path) -> None:
    """Check that statistics are of the data that they are used for: the same utterances, the first as long as it was.

    `stats` leaves out no utterance. The length reveals statistics of audio of another rate.

    Args:
        shapes: Shape file of the statistics.
        table: Table with the same data, such as wav.scp, whose audio is at the rate of the model.

    Raises:
        DataError: The statistics are of other data.
    """
    entries, shape_entries = pack_table(table), pack_table(shapes)
    differing = (pair for pair in zip_longest(entries, shape_entries) if pair[0] != pair[1])
    if pair := next(differing, None):
        utterance = min(name for name in pair if name is not None)
        where = table if utterance == pair[0] else shapes
        _refuse_source(shapes, table, f"utterance {utterance!r} is in {where} alone")
    if table.name == "wav.scp":
        utterance, entry = entries.pair(0)
        length = shape_entries[utterance].partition(",")[0]
        with open_file(Path(entry)) as file:
            if file.info.container in _EXACT and str(file.info.frames) != length:
                has = f"{length} samples in {shapes} and {file.info.frames} in {entry}"
                _refuse_source(shapes, table, f"utterance {utterance!r} has {has}")


def _refuse_source(shapes: Path, table: Path, reason: str) -> NoReturn:
    message = f"{shapes.parent}: has statistics of other data than {table.parent}"
    raise DataError(f"{message}: {reason}; run espnet-diverse stats again, with this data")


def read_statistics(path: Path) -> Mapping[str, NDArray]:
    """Return the arrays of a file of statistics.

    Raises:
        DataError: The file is missing or damaged, or lacks an array.
    """
    try:
        check_arrays(existing(path))
        with np.load(path) as arrays:
            statistics = {name: arrays[name] for name in arrays.files}
    except (OSError, EOFError, ValueError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: is damaged or not a file of statistics; run espnet-diverse stats again") from error
    lacking = [name for name in NAMES if name not in statistics]
    if lacking:
        raise DataError(f"{path}: has no {' '.join(lacking)}; run espnet-diverse stats again")
    return statistics


def check_statistics(path: Path, normalised: bool = True, shown_path: Path | None = None) -> None:
    """Check that sums of features are finite, and that features can be normalised with them.

    Args:
        path: File of the statistics.
        normalised: Whether features are normalised with them.
        shown_path: Its path in messages, if it is moved later.

    Raises:
        DataError: The file is missing or damaged, a sum is not finite, or the variance of a feature that is normalised
            is not positive.
    """
    arrays, path = read_statistics(path), shown_path or path
    bad = [name for name in NAMES if not np.isfinite(arrays[name]).all()]
    if bad:
        raise DataError(f"{path}: {' and '.join(bad)} of the features are not finite; check the audio for NaN samples")
    count, total, square = (arrays[name].astype(np.float64) for name in NAMES)
    if not (count > 0).all():
        raise DataError(f"{path}: its count is {count.min():g} frames; run espnet-diverse stats again")
    mean = total / count
    variance = square / count - mean**2
    constant = np.flatnonzero(variance <= _ROUNDING * mean**2)
    if normalised and constant.size:
        shown = abridged(f"{index} ({variance.flat[index]:.3g})" for index in constant)
        raise DataError(
            f"{path}: the variance of feature {shown} is zero or negative, so it cannot be normalised; check "
            "the audio for silence, lower n_mels, or set normalize=null"
        )


def check_features(path: Path, config: Mapping) -> None:
    """Check that statistics are of the features that a model normalises with them, if it does.

    Args:
        path: File of the statistics, in the folder of a phase; `stats` leaves its configuration next to it.
        config: Configuration of the model.

    Raises:
        DataError: They are of other features, or the file is missing or damaged.
        ModelError: The configuration of `stats` is damaged.
    """
    if config.get("normalize") != "global_mvn":
        return
    stats_dir, size = path.parents[1], read_statistics(path)["sum"].size
    collected = stats_dir / "config.yaml"  # which `stats` of ESPnet writes too
    changes = differences(_features(load(collected)), _features(config)) if collected.is_file() else {}
    expected = _size(config)
    if expected not in (None, size):
        changes = changes or {"size": f"{size} -> {expected}"}
    if changes:
        listed = "; ".join(f"{key}: {change}" for key, change in changes.items())
        todo = "run espnet-diverse stats again, with this configuration"
        raise DataError(f"{stats_dir}: has statistics of other features: {listed}; {todo}")


def _features(config: Mapping) -> dict:
    """The options that decide which features a model normalises."""
    if config.get("input_size") is not None:
        return {"input_size": config["input_size"]}
    options = _chosen(config.get("frontend_conf") or {}) | {"fs": audio_rate(config)}
    frontend = str(config.get("frontend") or "default").lower()
    volume = config.get("speech_volume_normalize")
    return {"frontend": frontend, "frontend_conf": options, "speech_volume_normalize": volume}


def _chosen(options: Mapping) -> dict:
    """Options of a frontend without the architectures of pretrained encoders, which a build adds."""
    chosen = {name: value for name, value in options.items() if name != "architecture"}
    if isinstance(parts := chosen.get("frontends"), list):  # of a fused frontend
        chosen["frontends"] = [_chosen(part) for part in parts]
    return chosen


def _size(config: Mapping) -> int | None:
    """Number of features of a frame; None where only the net that computes them has it."""
    if reads_features(config):
        return config["input_size"]
    is_default = config.get("input_size") is None and config.get("frontend", "default") == "default"
    return (config.get("frontend_conf") or {}).get("n_mels", 80) if is_default else None


def differ(path: Path, copy: Path) -> bool:
    """Return whether statistics differ by more than the order in which they were summed explains.

    Raises:
        DataError: As for `read_statistics`.
    """
    new, old = read_statistics(path), read_statistics(copy)
    return new.keys() != old.keys() or any(
        new[name].shape != old[name].shape or not np.allclose(new[name], old[name], rtol=1e-4) for name in new
    )
