"""The number of updates of a run, for schedules that are a share of it, such as `gamma_updates: 0.1`."""

from espnet2.train.trainer import TrainerOptions
from torch import nn

from espnet_diverse.attention.update_counter import counters_by_share, set_updates_of_run
from espnet_diverse.errors import ConfigError


def tell_length_of_run(model: nn.Module, batches: int | None, options: TrainerOptions) -> None:
    """Set the number of updates of the run, `max_epoch` times those of an epoch, for the schedules of a model.

    It is told anew in each epoch, so that a resumed run with another `max_epoch` goes on with its own.

    Args:
        model: The model that is trained.
        batches: Number of batches of an epoch; None where it is not known.
        options: The options of ESPnet's trainer.

    Raises:
        ConfigError: A schedule needs the number, and the number of batches of an epoch is not known.
    """
    counters = counters_by_share(model)
    if not counters:
        return
    if batches is None:
        raise ConfigError(
            f"a schedule of {counters[0].share} is a share of the updates of the run, and with this iterator_type the "
            "number of batches is not known; give a number of updates in its place"
        )
    set_updates_of_run(model, max(1, options.max_epoch * (batches // options.accum_grad)))
