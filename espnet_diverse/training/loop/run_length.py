"""The number of updates of a run, for schedules that are a share of it, such as `gamma_updates: 0.1`, and warm-ups."""

import logging
from collections.abc import Sequence

from espnet2.schedulers.abs_scheduler import AbsBatchStepScheduler
from espnet2.train.trainer import TrainerOptions
from torch import nn

from espnet_diverse.attention.update_counter import counters_by_share, set_updates_of_run
from espnet_diverse.errors import ConfigError

log = logging.getLogger(__name__)


def tell_length_of_run(model: nn.Module, batches: int | None, options: TrainerOptions) -> None:
    """Set the number of updates of the run, `max_epoch` times an epoch's, for the schedules of a model.

    It is set again in each epoch, so that a resumed run with another `max_epoch` has its own.

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
            "number of batches is not known; give a number of updates instead"
        )
    set_updates_of_run(model, _updates(batches, options))


def warn_of_warmup(schedulers: Sequence, batches: int | None, options: TrainerOptions) -> None:
    """Warn where a run ends before the learning rate reaches its peak.

    Args:
        schedulers: Schedulers of the learning rates, or None for each.
        batches: Number of batches of an epoch; None where it is not known.
        options: The options of ESPnet's trainer.
    """
    for scheduler in schedulers:
        steps = getattr(scheduler, "warmup_steps", 0) if isinstance(scheduler, AbsBatchStepScheduler) else 0
        if batches is not None and steps > (updates := _updates(batches, options)):
            log.warning(
                "%d epochs make %d updates, and the learning rate rises for scheduler_conf.warmup_steps %d: it does "
                "not reach its peak; set warmup_steps to about %d, or train longer",
                *(options.max_epoch, updates, steps, max(1, updates // 10)),
            )


def _updates(batches: int, options: TrainerOptions) -> int:
    return max(1, options.max_epoch * (batches // options.accum_grad))
