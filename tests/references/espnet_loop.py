"""ESPnet's own trainer, with the random numbers of our loop, as an oracle of the weights that it gives."""

from itertools import islice

from espnet2.train import trainer
from torch import distributed

from espnet_diverse.training.data.seeds import seed_noise, seed_update
from espnet_diverse.training.loop.cpu_layers import fast_on_cpu


def seeded(loader, options, epoch):
    """The batches of an epoch; before each update the generators are seeded."""
    batches, number = iter(loader), 0
    rank = distributed.get_rank() if distributed.is_initialized() else 0
    while group := list(islice(batches, options.accum_grad)):
        seed_update(options.seed, epoch, number, rank)
        yield from group
        number += len(group)


def seeded_noise(seed, add_noise):
    """ESPnet's function that adds noise to gradients, of which it draws the same in all processes."""

    def add(model, iteration, **how):
        seed_noise(seed, iteration)
        add_noise(model, iteration, **how)

    return add


class ESPnetTrainer(trainer.Trainer):
    """ESPnet's trainer, on the same layers of a CPU; the first iterator of a parameter that our tasks give is kept."""

    @classmethod
    def train_one_epoch(cls, model, iterator, options, reporter, **parts):
        for optimizer in parts["optimizers"]:
            optimizer.zero_grad()  # what the last batches of the epoch before have left
        with fast_on_cpu(model):
            batches = seeded(iterator, options, reporter.get_epoch())
            return super().train_one_epoch(model=model, iterator=batches, options=options, reporter=reporter, **parts)

    @classmethod
    def validate_one_epoch(cls, model, **parts):
        with fast_on_cpu(model):
            super().validate_one_epoch(model=model, **parts)
