"""The two stages that ESPnet carries out: collecting statistics, and training.

The user's configuration defines the model and its training; paths, and options that follow from the data, are filled in
here. The directory of a run has all files that loading the model needs: vocabulary, feature statistics, config.yaml.
"""

import copy
import logging
import shutil
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from pathlib import Path

from espnet_diverse.data.files.atomic_files import check_no_file, remove_leftovers, staged_directory, staged_file
from espnet_diverse.data.tables import pack_table
from espnet_diverse.data.threads import Workers
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.progress import progress
from espnet_diverse.runs.audio_rate import audio_rate, reads_features
from espnet_diverse.runs.checkpoint import CHECKPOINT
from espnet_diverse.runs.condition_names import condition_table, fill_in
from espnet_diverse.runs.config import Config, located, save
from espnet_diverse.runs.config_checks import check, doubts
from espnet_diverse.runs.logs import logged
from espnet_diverse.runs.tasks import source_table
from espnet_diverse.training import espnet_command
from espnet_diverse.training.checkpoints import resumption, run_identity, run_kernels
from espnet_diverse.training.checkpoints.data_record import DataRecord
from espnet_diverse.training.checkpoints.run_lock import one_run, run_lock
from espnet_diverse.training.config.settings import DEFAULTS, check_settings
from espnet_diverse.training.data.batch_types import TYPES, BatchOptions, read_shapes
from espnet_diverse.training.data.feature_sums import collect_sums
from espnet_diverse.training.data.padding import padding, report
from espnet_diverse.training.data.run_data import (
    FOLD_LENGTH,
    RunData,
    Tokens,
    check_data,
    check_inputs,
    existing,
)
from espnet_diverse.training.data.sampling import read_sampling
from espnet_diverse.training.data.statistics import check_features, check_source, check_statistics, check_target
from espnet_diverse.training.distributed.processes import Processes
from espnet_diverse.training.distributed.run import run
from espnet_diverse.training.kept_features import of_tables, read_instead, with_kept
from espnet_diverse.training.learning_curves import draw_curves
from espnet_diverse.training.loop.non_finite import NAME as NONFINITE
from espnet_diverse.training.loop.tasks import TASKS

log = logging.getLogger(__name__)

_UNKNOWN = 1  # index of <unk>
_MOST_UNKNOWN = 0.1  # with a larger share of <unk>, the vocabulary must be of another text


@one_run()
def collect_stats(config: Config, data: RunData, output_dir: Path, workers: Workers | None = None) -> None:
    """Write the shapes of all utterances and, for speech, sums of their features to `output_dir`/{train,valid}.

    Args:
        config: The user's configuration, as `merge` returns it.
        data: Data and vocabularies.
        output_dir: Directory to write.
        workers: Workers that read audio and compute features; by default threads and this process.

    Raises:
        ConfigError: The configuration is wrong.
        DataError: Data directories have faults, statistics are not finite, or `output_dir` has other files than these.
        ClusterError: Workers are lost, or killed by some utterances.
        TrainingError: Another thread of this process trains or collects statistics.
    """
    check_target(output_dir)
    tokens = Tokens.load(data)
    filled = _fill(config, data, tokens)
    rate = _rate(filled, data)
    check(TASKS[data.task], filled)
    _check_data(filled, data, rate, nj=workers or 4)
    normalised, original = filled.get("normalize") == "global_mvn", copy.deepcopy(filled)
    with staged_directory(output_dir) as staging, logged(staging / "stats.log"):
        if data.speech:
            check_vocabulary(config, data, tokens)  # before hours of features; ESPnet writes the lengths
            # Normalisation needs the statistics that are collected here.
            filled.update(collect_stats=True, normalize=None, normalize_conf={}, ngpu=0, output_dir=str(staging))
            if normalised:
                filled.update(keep_features=None)  # otherwise they are not computed here, but kept below
            on_workers = {"collect": partial(collect_sums, workers, data.task, filled)} if workers else {}
            espnet_command.run(TASKS[data.task], filled, **on_workers)
        for phase, data_dir in data.phases().items():
            folder = staging / phase
            if data.speech:
                final = output_dir / phase / "feats_stats.npz"
                check_statistics(folder / final.name, normalised and phase == "train", final)
            for file, name, kind in data.entries(config):
                if kind == "text":
                    if not data.speech:
                        folder.mkdir(exist_ok=True)
                        _write_lines(folder / f"{name}_shape", _lengths(data_dir / file, phase, tokens, name))
                    _write_sizes(folder / f"{name}_shape", folder / tokens.shape(name), tokens, name)
        padded = _padding(original, data, tokens, staging)
        log.info("batches of the training set:\n%s", padded)
        if original.get("keep_features"):
            if normalised:
                original.add({"normalize_conf": {"stats_file": str(staging / "train" / "feats_stats.npz")}}, {})
            digests = of_tables(DataRecord(original, None).digests())
            espnet_command.keep_features(TASKS[data.task], original, staging, digests, output_dir)
    print(padded, end="", flush=True)


def _padding(config: Config, data: RunData, tokens: Tokens, stats_dir: Path) -> str:
    """A report on the padding of the training set; `tokens` is for text alone."""
    names = [name for _, name, _ in data.entries(config)]
    _, shapes = read_shapes([str(stats_dir / "train" / tokens.shape(name)) for name in names])
    options = BatchOptions.of(espnet_command.arguments(TASKS[data.task], config))
    types = [kind for kind in TYPES if not (data.speech and kind == "tokens")]
    return report(padding(dict(zip(names, shapes, strict=True)), options, types))


@one_run()
def train(
    config: Config,
    data: RunData,
    stats_dir: Path,
    output_dir: Path,
    processes: Processes | None = None,
    allow_changed: Collection[str] = (),
    restart: bool = False,
    verify: bool = False,
) -> None:
    """Train, or continue where the run in `output_dir` was last saved.

    A run is continued if settings, data, vocabularies, statistics and shapes of parameters are its own. All of them are
    compared before anything in `output_dir` is written.

    Args:
        config: The user's configuration, as `merge` returns it; saved as train.yaml.
        data: Data and vocabularies.
        stats_dir: Directory that `collect_stats` wrote.
        output_dir: Directory of the run.
        processes: The processes that train; by default this one, on the CPU.
        allow_changed: What may differ from the earlier training of a continued run: `resumption.ALLOWED`, and keys of
            the configuration.
        restart: Whether to train from scratch and delete the checkpoints in `output_dir`, if a model can be built.
        verify: Whether to read all audio to compare it, and not only files whose size or time has changed.

    Raises:
        ConfigError: The configuration is wrong, or differs from the continued run's.
        DataError: Data, vocabulary or statistics are missing or wrong, or differ from the continued run's, or the
            statistics are of other data.
        ModelError: A model that `init_param` names is missing or does not fit, or the checkpoints of the run are
            damaged or of another model.
        TrainingError: Training failed, see `Trainer.run`; or another process or thread trains in `output_dir`.
    """
    check_no_file(output_dir)
    processes = processes or Processes()
    tokens = Tokens.load(data)
    filled, rate = _of_run(config, data, tokens, stats_dir, output_dir)
    shape = f"rate {rate}, size {filled.get('input_size')}"
    record = DataRecord(filled, None if restart else output_dir, shape, verify)
    _check_run_data(filled, data, rate, not record.is_unchanged())
    filled["ngpu"] = processes.ngpu
    if statistics := stats_dir / "train" / "feats_stats.npz" if data.speech else None:
        check_statistics(statistics, filled.get("normalize") == "global_mvn")
    if processes.node_rank:  # machine 0 compares and writes
        _run(filled, data.task, stats_dir, processes)
        return
    tables = with_kept(filled, stats_dir, record.digests())
    with run_lock(output_dir) as sign_lock:
        changed, newest, identity = list[str](), None, run_identity.new_identity(output_dir)
        if restart and resumption.weight_files(output_dir):
            _build(filled, data, tokens, statistics)  # before they are deleted
        if restart or not resumption.is_resumed(output_dir):
            resumption.check_allowed(allow_changed, filled)
        else:
            resumption.check_task(data.task, output_dir)
            changed = resumption.check_settings(config, output_dir, allow_changed)
            resumption.check_unchanged(output_dir, tables, tokens, statistics, allow_changed)
            newest, identity = resumption.check_state(output_dir, *_build(filled, data, tokens, statistics))
        if statistics:
            check_features(statistics, filled)
        if newest is not None:  # ESPnet continues from CHECKPOINT alone, whose latest save may be damaged
            newest.replace(output_dir / CHECKPOINT)
        sign_lock()
        _sweep(output_dir, restart)
        tokens.save(output_dir)
        if statistics:
            _copy(statistics, output_dir / statistics.name)
        record.save({**tables, **({run_identity.KEY: identity} if identity else {})}, output_dir)
        save(config, output_dir / "train.yaml")
        with logged(output_dir / "train.log"):
            if changed:
                log.warning("%s: training continues with changed settings: %s", output_dir, "; ".join(changed))
            for message in doubts(TASKS[data.task], filled):
                log.warning("%s", message)
            if not processes.ngpu:
                run_kernels.keep(output_dir, resumed=newest is not None)
            _run(filled, data.task, stats_dir, processes)
            draw_curves(output_dir)


def _run(config: Config, task: str, stats_dir: Path, processes: Processes) -> None:
    if config.get("keep_features"):
        read_instead(config, stats_dir)
    run(task, config, processes)


def _of_run(
    config: Config, data: RunData, tokens: Tokens, stats_dir: Path, output_dir: Path
) -> tuple[Config, int | None]:
    """The checked configuration of training, with the paths of the run, and the sampling rate of its audio."""
    filled = _fill(config, data, tokens.moved(output_dir))
    filled["output_dir"] = str(output_dir.absolute())
    if filled.get("normalize") == "global_mvn":
        filled.add({"normalize_conf": {"stats_file": str((output_dir / "feats_stats.npz").absolute())}}, {})
    for phase in data.phases():
        shapes = [stats_dir / phase / tokens.shape(name) for _, name, _ in data.entries(config)]
        filled[f"{phase}_shape_file"] = [str(existing(path)) for path in shapes]
    rate = _rate(filled, data)
    check(TASKS[data.task], filled)
    return filled, rate


def _check_run_data(config: Config, data: RunData, rate: int | None, read_audio: bool) -> None:
    """Check data for training; with `read_audio` also the headers of audio, whose samples `stats` has read."""
    _check_data(config, data, rate, decode=False, read_audio=read_audio)
    for phase, data_dir in data.phases().items():
        check_source(Path(config[f"{phase}_shape_file"][0]), data_dir / data.entries(config)[0][0])


def _build(config: Config, data: RunData, tokens: Tokens, statistics: Path | None) -> espnet_command.Built:
    """Build what would be trained, which shows that it can be, and what a checkpoint must fit."""
    return espnet_command.build(TASKS[data.task], _with_files(config, tokens, statistics))


def _with_files(config: Config, tokens: Tokens, statistics: Path | None) -> Config:
    """The configuration of a run with the vocabularies and statistics that it would copy, instead of its copies."""
    changed = copy.deepcopy(config)
    changed.update(tokens.keys())  # the run's may be gone, like its statistics
    if changed.get("normalize") == "global_mvn":
        changed.add({"normalize_conf": {"stats_file": str(statistics)}}, {})
    return changed


def run_config(config: Config, data: RunData, stats_dir: Path, output_dir: Path) -> Config:
    """The checked configuration of a training that is not started; nothing is written.

    Args:
        config: The user's configuration, as `merge` returns it.
        data: Data and vocabularies.
        stats_dir: Directory that `collect_stats` wrote.
        output_dir: Directory that a run would have.

    Raises:
        UserError: As for `train`.
    """
    tokens = Tokens.load(data)
    filled, _ = _of_run(config, data, tokens, stats_dir, output_dir)
    return _with_files(filled, tokens, stats_dir / "train" / "feats_stats.npz")


def _sweep(output_dir: Path, restart: bool) -> None:
    """Remove temporary files of processes that were killed, and with `restart` what a run has saved."""
    remove_leftovers(output_dir)
    for path in (*resumption.weight_files(output_dir), output_dir / NONFINITE) if restart else ():
        path.unlink(missing_ok=True)


def _fill(config: Config, data: RunData, tokens: Tokens) -> Config:
    """`config` with the options that follow from the data and the vocabularies."""
    check_settings(config)
    filled = copy.deepcopy(config)
    for data_dir in data.phases().values():
        check_inputs(data_dir, data.task, reads_features(config), source_table(config))
    entries = data.entries(config)
    defaults = DEFAULTS | {"fold_length": [FOLD_LENGTH[table] for table, _, _ in entries]}
    if data.speech:
        defaults["normalize"] = "global_mvn"
    filled.add({key: value for key, value in defaults.items() if key not in config}, {})
    filled.update(tokens.keys())
    conditions = fill_in(filled, data.train_dir, data.valid_dir)
    if conditions and filled["model"] != "diverse":
        has = f"model {filled['model']!r} does not support {conditions[0]}"
        raise ConfigError(f"{config.origin('model')}: {has}, on which parts of it depend; set model: diverse")
    if (sampling := read_sampling(config.get("sampling"))) is not None:
        sampling.categories(data.train_dir)
    for phase, data_dir in data.phases().items():
        files = data.files(config, phase)
        files += [(condition_table(data_dir, condition), condition, "text") for condition in conditions]
        triples = [(str(existing(file.absolute(), "prepare")), name, kind) for file, name, kind in files]
        filled[f"{phase}_data_path_and_name_and_type"] = triples
    return filled


def _rate(config: Config, data: RunData) -> int | None:
    """Sampling rate of the audio that the model reads; None without audio."""
    with located(config, "frontend_conf"):
        return audio_rate(config) if data.speech else None


def _check_data(
    config: Config,
    data: RunData,
    rate: int | None,
    decode: bool = True,
    nj: int | Workers = 4,
    read_audio: bool = True,
) -> None:
    """Check both data directories, and name the faults of both in one error."""
    faults: list[str] = []
    for phase, data_dir in data.phases().items():
        tables = [Path(file) for file, _, _ in config[f"{phase}_data_path_and_name_and_type"]]
        try:
            check_data(data_dir, tables, rate, decode, config.get("input_size"), nj, read_audio)
        except DataError as error:
            faults.append(str(error))
    if faults:
        raise DataError("; ".join(dict.fromkeys(faults)))  # one where both are the same directory


def _copy(source: Path, target: Path) -> None:
    with staged_file(target, durable=True) as partial:
        shutil.copyfile(source, partial)


def check_vocabulary(config: Config, data: RunData, tokens: Tokens) -> None:
    """Check that the vocabularies fit the texts, which is all that is read.

    Raises:
        DataError: A vocabulary lacks too many characters of the training texts.
    """
    for phase, data_dir in data.phases().items():
        for file, name, _ in (entry for entry in data.entries(config) if entry[2] == "text"):
            deque(_lengths(data_dir / file, phase, tokens, name), maxlen=0)


def _lengths(text: Path, phase: str, tokens: Tokens, name: str) -> Iterator[str]:
    """Yield each utterance with its number of tokens; check that the vocabulary fits such texts.

    Texts of validation with other characters are still evaluated, with a warning.
    """
    texts, (vocabulary, folder) = pack_table(text), tokens.of(name)
    total, unknown = 0, 0
    for utterance, line in progress(texts.items(), f"{phase} {name}", len(texts), "line"):
        indices = vocabulary.encode(line)
        total, unknown = total + len(indices), unknown + indices.count(_UNKNOWN)
        yield f"{utterance} {len(indices)}"
    if unknown > _MOST_UNKNOWN * total:
        has = f"the vocabulary {folder} lacks {unknown} of its {total} tokens"
        if phase == "valid":
            log.warning("%s: %s, which count as errors; is it a set of the training data?", text, has)
            return
        raise DataError(
            f"{text}: {has}; make a vocabulary of this text with espnet-diverse tokens, and give it by --tokens_dir"
        )


def _write_sizes(source: Path, target: Path, tokens: Tokens, name: str) -> None:
    """Write the lengths of texts with the size of their vocabulary, as `batch_type: numel` needs."""
    size = len(tokens.of(name)[0])
    with source.open(encoding="utf-8") as lines:
        _write_lines(target, (f"{line.rstrip()},{size}" for line in lines))


def _write_lines(target: Path, lines: Iterable[str]) -> None:
    """Write lines one after another into the directory that is being made."""
    with target.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
