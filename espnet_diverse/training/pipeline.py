"""The stages that make a model as functions of Python: a vocabulary, statistics, training, the average of epochs.

Each stage is a dataclass whose fields are the options of the command of its name. Its record in the stage cache is that
of the command: what one of them has finished, the other skips. Modules are imported where a stage needs them, so that
--help answers at once.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING, dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.process_state import environment
from espnet_diverse.stage_runs import PROGRAM, Stage, recorded
from espnet_diverse.training.options import TrainingOptions

if TYPE_CHECKING:
    from espnet_diverse.data.threads import Workers
    from espnet_diverse.runs.config import Config
    from espnet_diverse.training.data.run_data import RunData
    from espnet_diverse.training.distributed.processes import Processes

_VALID = ("dev", "valid")
_SHAPES = {"mt": ("text_shape", "src_text_shape"), **dict.fromkeys(("lm", "cls", "electra"), ("text_shape",))}


@dataclass(frozen=True, kw_only=True)
class OptionStage(Stage):
    """A stage whose dataclass has the options of a command, by name."""

    @classmethod
    def of(cls, values: Mapping[str, Any], **others: Any) -> Self:
        """The stage with those of some values that are fields of it; None stands for the default."""
        names = {option.name for option in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in names and value is not None}, **others)

    def arguments(self) -> list[str]:
        """The command, and the options that are not the default."""
        defaults = {option.name: None if option.default is MISSING else option.default for option in fields(self)}
        return [PROGRAM, self.stage, *recorded(vars(self), defaults)]

    def command(self) -> list[str]:
        """The command line that does the same."""
        words = [PROGRAM, self.stage]
        for option in fields(self):
            value = getattr(self, option.name)
            if value in (None, [], option.default):
                continue
            if option.name == "set":
                words += [f"--set={change}" for change in value]
            elif option.name == "processes":
                words += [word for name, number in value.items() for word in (f"--{name}", str(number))]
            elif option.name == "model_dir":
                words += [str(value)]
            elif value is True:
                words += [f"--{option.name}"]
            else:
                words += [f"--{option.name}", *map(str, value if isinstance(value, list | tuple) else [value])]
        return words


def texts_of(train_dir: Path, task: str, src_tokens_dir: str | PathLike[str] | None = None) -> list[Path]:
    """Texts of a training set that a vocabulary must cover: the source text too, where both have one vocabulary.

    Args:
        train_dir: The training set.
        task: Task of the model.
        src_tokens_dir: Vocabulary of the source text alone, or None.
    """
    source = [train_dir / "src_text"] if task in ("mt", "cls") and not src_tokens_dir else []
    return [train_dir / "text", *(path for path in source if path.is_file())]


@dataclass(frozen=True, kw_only=True)
class Characters(OptionStage):
    """The vocabulary of the characters of texts."""

    text: Sequence[Path]
    output_dir: Path
    stage = "tokens"

    def inputs(self) -> list[Path]:
        """The texts."""
        return list(self.text)

    def outputs(self) -> list[Path]:
        """The files of the vocabulary."""
        return [self.output_dir / name for name in ("tokens.txt", "tokens.yaml")]

    def check_options(self, before: Sequence[Stage]) -> None:
        """Check the directory to write."""
        from espnet_diverse.text.vocabulary import check_target

        check_target(self.output_dir)

    def run(self) -> int:
        """Build and save the vocabulary."""
        from espnet_diverse.data.output_paths import check_outputs
        from espnet_diverse.data.tables import pack_texts
        from espnet_diverse.text.vocabulary import Vocabulary

        check_outputs(self.outputs(), self.inputs())
        texts = [pack_texts(path) for path in self.text]
        vocabulary = Vocabulary.train((line for table in texts for line in table.values()), "char")
        vocabulary.save(self.output_dir)
        print(f"{self.output_dir}: {len(vocabulary)} tokens (char)")
        return 0


@dataclass(frozen=True, kw_only=True)
class Configured(OptionStage):
    """A stage with a configuration, data and vocabularies.

    Attributes:
        config: Names of fragments, joined by commas.
        set: Changes of the configuration, as key.sub=value.
        init_param: Pretrained parameters to start from.
        train_dir, valid_dir, tokens_dir, task, src_tokens_dir: As for `RunData`.
    """

    config: str = ""
    set: Sequence[str] = ()
    init_param: Sequence[str] = ()
    train_dir: Path
    valid_dir: Path
    tokens_dir: Path
    task: str = "asr"
    src_tokens_dir: Path | None = None

    @property
    def fragments(self) -> list[str]:
        """Names of the fragments."""
        return self.config.split(",") if self.config else []

    def merged(self) -> "Config":
        """The configuration."""
        from espnet_diverse.runs.config import merge

        return merge(self.fragments, self.set)

    def data(self) -> "RunData":
        """Data and vocabularies."""
        from espnet_diverse.training.data.run_data import RunData

        return RunData(self.train_dir, self.valid_dir, self.tokens_dir, self.task, self.src_tokens_dir)

    def inputs(self) -> list[Path]:
        """Fragments, data directories, vocabularies and pretrained parameters."""
        from espnet_diverse.runs.config import find
        from espnet_diverse.training.initial_weights import known_weights

        folders = filter(None, (self.tokens_dir, self.src_tokens_dir))
        tokens = [folder / name for folder in folders for name in ("tokens.txt", "tokens.yaml")]
        pretrained = map(known_weights, self.init_param)
        return [*find(self.fragments), self.train_dir, self.valid_dir, *tokens, *pretrained]

    def check_options(self, before: Sequence[Stage]) -> None:
        """Check the configuration."""
        from espnet_diverse.training.config.early_check import check_early

        check_early(self.fragments, self.set, self.task)


@dataclass(frozen=True, kw_only=True)
class Statistics(Configured):
    """Shapes of all utterances and, for speech, the mean and variance of the features."""

    output_dir: Path
    stage = "stats"

    def outputs(self) -> list[Path]:
        """Files that training needs."""
        return _statistics(self.output_dir, self.task)

    def check_options(self, before: Sequence[Stage]) -> None:
        """Check the configuration and the directory to write."""
        from espnet_diverse.training.data.statistics import check_target

        check_target(self.output_dir)
        super().check_options(before)

    def check_texts(self) -> None:
        """Check that the vocabularies fit the texts, see `stages.check_vocabulary`."""
        from espnet_diverse.training.data.run_data import Tokens
        from espnet_diverse.training.stages import check_vocabulary

        data = self.data()
        check_vocabulary(self.merged(), data, Tokens.load(data))

    def run(self, workers: "AbstractContextManager[Workers | None]" = nullcontext()) -> int:  # noqa: B008, stateless
        """Collect the statistics.

        Args:
            workers: Workers that read audio, started when all else is checked; by default this machine's.
        """
        from espnet_diverse.data.output_paths import check_outputs, check_unread
        from espnet_diverse.training.data.statistics import check_target

        check_outputs(self.outputs(), self.inputs())
        check_unread(self.output_dir, self.inputs())
        check_target(self.output_dir)
        config = self.merged()  # before the import of ESPnet, which takes seconds
        from espnet_diverse.training.initial_weights import set_initial
        from espnet_diverse.training.stages import collect_stats

        if config.get("keep_features"):
            set_initial(config, self.init_param)
        data = self.data()
        with workers if data.speech else nullcontext() as pool:  # for text there is little to do
            collect_stats(config, data, self.output_dir, pool)
        return 0


@dataclass(frozen=True, kw_only=True)
class Training(Configured):
    """Training, which continues where it was interrupted.

    Attributes:
        stats_dir: Directory of the statistics.
        output_dir: Directory of the run.
        allow_changed, restart, verify: As for `stages.train`.
        kernels: Library of the matrix products, one of `cpu.machine.KERNELS`; by default the environment's.
        processes: Arguments of `Processes` by name.
    """

    stats_dir: Path
    output_dir: Path
    allow_changed: Sequence[str] = ()
    restart: bool = False
    verify: bool = False
    kernels: str | None = None
    processes: Mapping[str, Any] = field(default_factory=dict)
    stage = "train"

    def inputs(self) -> list[Path]:
        """Files and data directories that are read."""
        return [*super().inputs(), *_statistics(self.stats_dir, self.task)]

    def outputs(self) -> list[Path]:
        """Files that are written."""
        return [self.output_dir / name for name in ("config.yaml", "train.yaml", "checkpoint.pth")]

    def check_machine(self, before: Sequence[Stage]) -> None:
        """Check that the pretrained parameters are here and that the processes can be started."""
        from espnet_diverse.training.initial_weights import weights_file

        folders = {path.parent.absolute() for stage in before for path in stage.outputs()}
        for parameters in self.init_param:
            source = Path(parameters.partition(":")[0]).absolute()
            if source in folders or source.parent in folders:  # an earlier stage writes it
                continue
            path = weights_file(parameters)
            if not path.is_file():
                message = f"--init_param {parameters}: there is no file {path}"
                raise ModelError(f"{message}; give the weights of a trained model")
        self._processes()

    def _processes(self) -> "Processes":
        from espnet_diverse.training.distributed.processes import Processes

        return Processes(**self.processes)

    def run(self) -> int:
        """Train."""
        from espnet_diverse.cpu.allocator import IN_TRAINING, keep_freed_memory
        from espnet_diverse.cpu.machine import KERNELS_VARIABLE
        from espnet_diverse.data.output_paths import check_outputs

        check_outputs(self.outputs(), [self.train_dir, self.valid_dir])  # the configuration may be the run's own
        keep_freed_memory(IN_TRAINING)
        config = self.merged()  # before the import of ESPnet, which takes seconds
        from espnet_diverse.training.initial_weights import set_initial
        from espnet_diverse.training.stages import train

        set_initial(config, self.init_param)
        how = self.allow_changed, self.restart, self.verify
        with environment(**{KERNELS_VARIABLE: self.kernels}):
            train(config, self.data(), self.stats_dir, self.output_dir, self._processes(), *how)
        return 0


@dataclass(frozen=True, kw_only=True)
class Averaging(OptionStage):
    """The average of the best epochs of a run.

    Attributes:
        model_dir: Directory of the run.
        metric: Criterion that ranks the epochs; by default the first of `preferred_metrics`.
        number: Number of epochs.
    """

    model_dir: Path
    metric: str | None = None
    number: int = TrainingOptions.number
    stage = "average"

    def inputs(self) -> list[Path]:
        """The checkpoint, which names the epochs to average."""
        return [self.model_dir / "checkpoint.pth"]

    def outputs(self) -> list[Path]:
        """The average."""
        from espnet_diverse.runs.model_files import known_config, weights_name

        name = f"{self.metric}.ave.pth" if self.metric else weights_name(known_config(self.model_dir))
        return [self.model_dir / name]

    def check_options(self, before: Sequence[Stage]) -> None:
        """Check that a training among the stages before keeps epochs by the metric.

        Raises:
            ConfigError: The metric is none of the criteria of its configuration.
        """
        if self.number < 1:
            raise ConfigError(f"{self.number} epochs cannot be averaged; give a number of at least 1")
        runs = [stage for stage in before if isinstance(stage, Training) and stage.output_dir == self.model_dir]
        if not runs or self.metric is None:
            return
        named = [f"{phase}.{name}" for phase, name, _ in runs[-1].merged().get("best_model_criterion") or ()]
        if named and self.metric not in named:
            raise ConfigError(
                f"unknown metric {self.metric!r}; best_model_criterion of this run has: {' '.join(named)}"
            )

    def run(self) -> int:
        """Average, and print the path of the result."""
        from espnet_diverse.training.checkpoints.averaging import average

        print(average(self.model_dir, self.metric, self.number))
        return 0


def model_stages(output_dir: Path, shared: Mapping[str, Any], training: Mapping[str, Any], number: int) -> list[Stage]:
    """The stages that make a model: statistics, training and the average of the best epochs.

    Args:
        output_dir: Directory of the run.
        shared: Fields of `Configured`.
        training: Further fields of `Training`.
        number: Number of epochs to average.
    """
    stats_dir, statistics = output_dir / "stats", Statistics(**shared, output_dir=output_dir / "stats")
    if statistics.merged().get("keep_features"):
        statistics = replace(statistics, init_param=training.get("init_param", ()))
    return [
        statistics,
        Training(**shared, stats_dir=stats_dir, output_dir=output_dir, **training),
        Averaging(model_dir=output_dir, number=number),
    ]


def sets_of(data_dir: Path) -> dict[str, Path]:
    """The data directories train and dev, or valid, of a folder, as fields of `Configured`.

    Raises:
        DataError: The folder lacks one of them.
    """
    if sets := _sets_in(data_dir):
        return sets
    todo = "write them with espnet-diverse prepare, which divides data into sets"
    if _sets_in(data_dir.absolute().parent):
        todo = f"give the folder of all sets, {data_dir.parent}"
    raise DataError(f"{data_dir}: needs two data directories, train and dev; {todo}")


def _sets_in(folder: Path) -> dict[str, Path]:
    """The data directories to train and to validate on of a folder; empty if it lacks one of them."""
    valid = [folder / name for name in _VALID if (folder / name).is_dir()]
    return {"train_dir": folder / "train", "valid_dir": valid[0]} if valid and (folder / "train").is_dir() else {}


def _statistics(stats_dir: Path, task: str) -> list[Path]:
    """Files that the statistics stage writes and training needs."""
    names = _SHAPES.get(task, ("speech_shape", "feats_stats.npz"))
    return [stats_dir / phase / name for phase in ("train", "valid") for name in names]
