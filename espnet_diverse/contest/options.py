"""Options of a contest: the training that every method gets, and how the contest is carried out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import Options, number

if TYPE_CHECKING:
    from espnet_diverse.runs.config import Config


@dataclass(frozen=True)
class Budget(Options):
    """The training that every method gets; without a number of updates, as many as the epochs have.

    Methods with losses of consistency, whose updates take two passes, get half of the updates.
    """

    epochs: int | None = number(
        None, kind=int, least=1, help="number of epochs", shown="max_epoch of the configuration"
    )
    updates: int | None = number(None, kind=int, least=1, help="number of updates, divided among the epochs")
    patience: int | None = number(
        None, kind=int, least=1, help="end a run after more than this many epochs without an improvement", shown="never"
    )

    def changes(self, config: "Config") -> list[str]:
        """Changes of the configuration of a method.

        Raises:
            ConfigError: The number of epochs is not known or does not divide the number of updates, the configuration
                ends runs early, or a method of two passes has no number of updates to halve.
        """
        epochs = self.epochs or config.get("max_epoch")
        if epochs is None:
            raise ConfigError("no budget: the configuration has no max_epoch; give --epochs or --updates")
        if config.get("patience") is not None:
            message = f"{config.origin('patience')}: patience {config['patience']} would end some methods before others"
            raise ConfigError(f"{message}; remove it, or give --patience {config['patience']} for all methods")
        changes = [f"max_epoch={epochs}"]
        batches = config.get("num_iters_per_epoch")
        if self.updates:
            if self.updates % epochs:
                message = f"--updates {self.updates} cannot be shared by {epochs} epochs of equal length"
                raise ConfigError(f"{message}; give a multiple of it, or --epochs too")
            batches = self.updates // epochs * (config.get("accum_grad") or 1)
        twice = passes_twice(config)
        if twice and not batches:
            where = config.origin("model_conf", "consistency")
            message = f"{where}: each batch passes twice, which takes half of the updates"
            raise ConfigError(f"{message}; give --updates, the number of the other methods")
        if twice:
            batches = max(1, batches // 2)
        if twice or self.updates:
            changes.append(f"num_iters_per_epoch={batches}")
        if self.patience:
            changes.append(f"patience={self.patience}")
        return changes

    def __str__(self) -> str:
        parts = [f"{value} {name}" for name, value in (("updates", self.updates), ("epochs", self.epochs)) if value]
        early = f"ends after more than {self.patience} epochs without an improvement" if self.patience else ""
        return ", ".join([*(parts or ["the epochs of the configuration"]), *([early] if early else [])])


def passes_twice(config: Mapping[str, Any]) -> bool:
    """Return whether the losses of a method make two passes over each batch."""
    return bool((config.get("model_conf") or {}).get("consistency"))


@dataclass(frozen=True)
class Conduct(Options):
    """Options of carrying out a contest; none of them changes the score of a run."""

    jobs: int = number(1, least=1, help="runs at the same time")
    minutes: float | None = number(None, above=0, help="stop after this time; the same command continues")
    timing: int = number(10, least=0, metavar="N", help="batches of both trial epochs; 0: no trial")
    utterances: int = number(20, least=0, key="analyse", metavar="N", help="utterances to analyse heads on; 0 for none")
    drop_behind: float | None = number(
        None,
        above=0,
        metavar="POINTS",
        help="give a method no further seeds once it is this far behind the baseline on the first of --test_sets",
        shown="all get all seeds",
    )
