"""Batches in which small languages are sampled more often: sampling with a temperature.

Arivazhagan et al. 2019, "Massively multilingual neural machine translation in the wild", section 3.2: an utterance is
of category l with probability

    p_l = n_l^(1/T) / sum_k n_k^(1/T)

where n_l is the number of utterances of category l in the training data. T = 1 keeps the distribution of the data; the
larger T, the closer the distribution is to uniform. Epochs have as many batches as without sampling.
"""

import logging
import math
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from espnet2.iterators.sequence_iter_factory import SequenceIterFactory
from espnet2.samplers.abs_sampler import AbsSampler

from espnet_diverse.data.tables import read_table
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.option_checks import OptionError, read
from espnet_diverse.training.condition_names import condition_table, conditions_of
from espnet_diverse.training.text_batches import build_batch_sampler

BATCHES = ("mixed", "single")


@dataclass(frozen=True)
class Sampling:
    """The section `sampling` of the configuration.

    Attributes:
        by: Condition whose values are the categories, or several conditions, whose combinations are the categories.
        temperature: Temperature T, at least 1; with .inf all categories are equally likely.
        batches: "mixed", or "single" for batches that each have utterances of one category.
    """

    by: str | Sequence[str]
    temperature: float = 1.0
    batches: str = "mixed"

    def __post_init__(self):
        object.__setattr__(self, "by", conditions_of(self.by))
        if not isinstance(self.temperature, int | float) or not self.temperature >= 1:
            message = f"temperature {self.temperature!r} is not allowed; give a number of at least 1"
            raise OptionError("temperature", message)
        if self.batches not in BATCHES:
            message = f"batches {self.batches!r} is not allowed; give one of {' '.join(BATCHES)}"
            raise OptionError("batches", message)

    def categories(self, data_dir: Path) -> dict[str, str]:
        """Category of each utterance of a data directory.

        Raises:
            DataError: The table of a condition is missing.
        """
        tables = [condition_table(data_dir, condition) for condition in self.by]
        for table in tables:
            if not table.is_file():
                raise DataError(f"sampling: {table}: no such table; add it, or change `by`")
        columns = [read_table(table) for table in tables]
        return {utterance: "-".join(column[utterance] for column in columns) for utterance in columns[0]}


def probabilities(counts: Mapping[str, int], temperature: float) -> dict[str, float]:
    """Probability p_l of each category l, given its number of utterances n_l."""
    powers = {category: count ** (1 / temperature) for category, count in counts.items()}
    return {category: power / sum(powers.values()) for category, power in powers.items()}


class BalancedSampler(AbsSampler):
    """Batches of utterances that are sampled again for every epoch; ESPnet's samplers divide them into batches.

    Within a category every utterance is drawn once before one is drawn again.

    Args:
        categories: Category of each utterance.
        sampling: Options of sampling.
        shapes: For each of ESPnet's shape files, "length" or "length,width" of each utterance.
        options: Arguments of `build_batch_sampler`, except the shape files.
        shard: Rank of this process and number of processes; of every batch, the process with rank r of n takes the
            utterances r, r + n, r + 2 n, ...
    """

    def __init__(
        self,
        categories: Mapping[str, str],
        sampling: Sampling,
        shapes: Sequence[Mapping[str, str]],
        options: Mapping[str, object],
        shard: tuple[int, int] = (0, 1),
    ):
        self.shapes, self.options, self.shard = shapes, dict(options), shard
        self.single = sampling.batches == "single"
        self.members: dict[str, list[str]] = {}
        for utterance in shapes[0]:
            self.members.setdefault(categories[utterance], []).append(utterance)
        counts = {category: len(members) for category, members in sorted(self.members.items())}
        self.probabilities = probabilities(counts, sampling.temperature)
        self.count = len(self._cut(list(shapes[0])))

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.generate(0))

    def __repr__(self) -> str:
        shares = ", ".join(f"{category} {share:.3f}" for category, share in self.probabilities.items())
        return f"{type(self).__name__}(N-batch={self.count}, {shares})"

    def generate(self, seed: int) -> list[tuple[str, ...]]:
        """The batches of an epoch; ESPnet passes the sum of the epoch and the seed of training."""
        rank, world = self.shard
        random = np.random.default_rng(seed)
        batches: list[tuple[str, ...]] = []
        while len(batches) < self.count:
            drawn = self._draw(random)
            groups = drawn.values() if self.single else [[utterance for group in drawn.values() for utterance in group]]
            cut = [batch for group in groups if group for batch in self._cut(group)]
            batches += [cut[index] for index in random.permutation(len(cut)) if len(cut[index]) >= world]
        return [batch[rank::world] for batch in batches[: self.count]]

    def _draw(self, random: np.random.Generator) -> dict[str, list[str]]:
        """Utterances of each category; in total as many as the training data has."""
        wanted = random.multinomial(len(self.shapes[0]), list(self.probabilities.values()))
        drawn = {}
        for category, number in zip(self.probabilities, wanted, strict=True):
            members = self.members[category]
            rounds = [random.permutation(len(members)) for _ in range(math.ceil(number / len(members)))]
            drawn[category] = [members[index] for index in np.concatenate([*rounds, []]).astype(int)[:number]]
        return drawn

    def _cut(self, utterances: list[str]) -> list[tuple[str, ...]]:
        """Divide utterances, some of which occur more than once, into batches with ESPnet's sampler."""
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / str(number) for number in range(len(self.shapes))]
            for file, shapes in zip(files, self.shapes, strict=True):
                file.write_text("".join(f"{index} {shapes[name]}\n" for index, name in enumerate(utterances)), "utf-8")
            sampler = build_batch_sampler(**self.options, shape_files=[str(file) for file in files])
            return [tuple(utterances[int(index)] for index in batch) for batch in sampler]


def read_sampling(section: object) -> Sampling | None:
    """The section `sampling` of a configuration; None if there is none.

    Raises:
        ConfigError: The section is not a mapping, or an option is unknown, missing or not allowed.
    """
    if section is None:
        return None
    if not isinstance(section, dict) or "by" not in section:
        raise ConfigError(f"{section!r} is not allowed; give a mapping of options with `by`")
    return read(Sampling, section, "sampling")


def balanced_batches(args: Namespace, iter_options, build_dataset: Callable) -> SequenceIterFactory:
    """Replacement of ESPnet's `build_sequence_iter_factory` for training with `sampling`.

    Args:
        args: Arguments of ESPnet's training command.
        iter_options: Result of ESPnet's `build_iter_options`.
        build_dataset: Function that makes the dataset of a set of utterances.
    """
    world = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if iter_options.distributed else (0, 1)
    options = {
        "type": iter_options.batch_type,
        "batch_size": iter_options.batch_size,
        "batch_bins": iter_options.batch_bins,
        "fold_lengths": args.fold_length,
        "sort_in_batch": args.sort_in_batch,
        "sort_batch": args.sort_batch,
        "drop_last": args.drop_last_iter,
        "min_batch_size": world[1] if iter_options.distributed else args.min_batch_size,
    }
    sampling = read_sampling(args.sampling)
    categories = sampling.categories(Path(iter_options.data_path_and_name_and_type[0][0]).parent)
    shapes = [read_table(Path(file), "shape") for file in iter_options.shape_files]
    sampler = BalancedSampler(categories, sampling, shapes, options, world)
    logging.info("[train] Batch sampler: %s", sampler)
    return SequenceIterFactory(
        dataset=build_dataset(set(shapes[0])),
        batches=sampler,
        seed=args.seed,
        num_iters_per_epoch=iter_options.num_iters_per_epoch,
        shuffle=False,  # the sampler has drawn them in random order
        num_workers=args.num_workers,
        collate_fn=iter_options.collate_fn,
        pin_memory=args.ngpu > 0,
    )
