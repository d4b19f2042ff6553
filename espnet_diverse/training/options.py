"""Options of a training from Python or by `fine-tune`, and what follows from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from espnet_diverse.option_checks import Options, choice, flag
from espnet_diverse.option_checks import number as whole


@dataclass(frozen=True)
class MachineOptions(Options):
    """The processes of one machine; each takes a share of every batch.

    Attributes:
        ngpu: Number of GPUs to use, each by its own process; 0 for the CPU.
        nproc: Number of processes on the CPU.
    """

    ngpu: int = whole(0, help="GPUs of this machine, with one process each")
    nproc: int = whole(1, least=1, help="processes of this machine on the CPU")


@dataclass(frozen=True, kw_only=True)
class RunOptions(MachineOptions):
    """Options of any training; see also `MachineOptions`.

    Attributes:
        allow_changed: Keys that may differ from the run that is resumed, such as "max_epoch".
        restart: Whether to delete the checkpoints and weights of the run and train from scratch.
    """

    allow_changed: Sequence[str] = ()
    restart: bool = flag(False)

    def of_training(self) -> dict[str, Any]:
        """The fields of `pipeline.Training` that these options give."""
        processes = {"ngpu": self.ngpu, "nproc": self.nproc}
        return {"processes": processes, "allow_changed": several(self.allow_changed), "restart": self.restart}


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(RunOptions):
    """Options of `espnet_diverse.train`; see also `RunOptions`.

    Attributes:
        task: "asr", "st", "mt", "lm", "cls" or "electra".
        src_tokens_dir: Vocabulary of the source text; by default the vocabulary of the text.
        init_param: Pretrained parameters to start from, see `espnet-diverse train --help`.
        number: Number of best epochs to average.
    """

    task: str = choice("asr", "st", "mt", "lm", "cls", "electra", help="task of the model")
    src_tokens_dir: str | PathLike[str] | None = None
    init_param: Sequence[str] = ()
    number: int = whole(5, least=1, help="number of epochs")


@dataclass(frozen=True, kw_only=True)
class FineTuningOptions(RunOptions):
    """Options of `espnet_diverse.fine_tune`; see also `RunOptions`.

    Attributes:
        model_file: Weights, as a path or a name in the directory of the model.
        tokens_dir: Another vocabulary; tokens that the model knows keep their parameters.
        number: Number of best epochs to average.
    """

    model_file: str | None = None
    tokens_dir: str | PathLike[str] | None = None
    number: int = whole(3, least=1, help="number of best epochs to average")


def several(values: str | Sequence[str]) -> list[str]:
    """A list of the values, also of a single one."""
    return [values] if isinstance(values, str) else list(values)
