"""Batches in which small languages are sampled more often: sampling with a temperature.

Arivazhagan et al. 2019, "Massively multilingual neural machine translation in the wild", section 3.2: an utterance is
of category l with probability

    p_l = n_l^(1/T) / sum_k n_k^(1/T)

where n_l is the number of utterances of category l in the training data. T = 1 keeps the distribution of the data; the
larger T, the closer the distribution is to uniform. Epochs have as many batches as without sampling.
"""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from espnet2.samplers.abs_sampler import AbsSampler
from numpy.typing import NDArray

from espnet_diverse.attention.selection.selection_options import conditions_of
from espnet_diverse.data.packed_table import PackedTable
from espnet_diverse.data.tables import pack_table
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.option_checks import Options, choice, number, read
from espnet_diverse.runs.condition_names import condition_table
from espnet_diverse.training.data.batch_types import Batches, BatchOptions, Shapes, make_batches

_ROUNDS = 10  # of drawing an epoch


@dataclass(frozen=True)
class Sampling(Options):
    """The section `sampling` of the configuration.

    Attributes:
        by: Condition whose values are the categories, or several conditions, whose combinations are the categories.
        temperature: Temperature T, at least 1; with .inf all categories are equally likely.
        batches: "mixed", or "single" for batches that each have utterances of one category.
    """

    by: str | Sequence[str]
    temperature: float = number(1.0, least=1, most=math.inf)
    batches: str = choice("mixed", "single")

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "by", conditions_of(self.by))

    def categories(self, data_dir: Path) -> Mapping[str, str]:
        """Category of each utterance of a data directory.

        Raises:
            DataError: The table of a condition is missing.
        """
        tables = [condition_table(data_dir, condition) for condition in self.by]
        for table in tables:
            if not table.is_file():
                raise DataError(f"sampling: {table}: no such table; add it, or change `by`")
        return _Categories([pack_table(table) for table in tables])


class _Categories(Mapping[str, str]):
    """The values of several tables for each utterance, joined."""

    def __init__(self, columns: Sequence[PackedTable]):
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns[0])

    def __getitem__(self, utterance: str) -> str:
        return "-".join(column[utterance] for column in self.columns)


def probabilities(counts: Mapping[str, int], temperature: float) -> dict[str, float]:
    """Probability p_l of each category l, given its number of utterances n_l."""
    powers = {category: count ** (1 / temperature) for category, count in counts.items()}
    return {category: power / sum(powers.values()) for category, power in powers.items()}


class BalancedSampler(AbsSampler):
    """Batches of utterances that are sampled again for every epoch, and then divided into batches as without sampling.

    Within a category every utterance is drawn once before one is drawn again.

    Args:
        ids: Id of each utterance, in the order of `shapes`.
        categories: Category of each utterance.
        sampling: Options of sampling.
        shapes: Shapes of each kind of data.
        options: Options of the batches.
        shard: Rank of this process and number of processes; of every batch, the process with rank r of n takes the
            utterances r, r + n, r + 2 n, ...
    """

    def __init__(
        self,
        ids: Iterable[str],
        categories: Mapping[str, str],
        sampling: Sampling,
        shapes: Sequence[Shapes],
        options: BatchOptions,
        shard: tuple[int, int] = (0, 1),
    ):
        self.shapes, self.options, self.shard = shapes, options, shard
        self.single = sampling.batches == "single"
        rows: dict[str, array] = {}
        for row, utterance in enumerate(ids):
            rows.setdefault(categories[utterance], array("i")).append(row)
        self.members = {category: np.array(members, np.int32) for category, members in rows.items()}
        counts = {category: len(members) for category, members in sorted(self.members.items())}
        self.probabilities = probabilities(counts, sampling.temperature)
        self.total = sum(counts.values())
        self.count = len(self._cut(np.arange(self.total, dtype=np.int32)))

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return iter(self.generate(0))

    def __repr__(self) -> str:
        shares = ", ".join(f"{category} {share:.3f}" for category, share in self.probabilities.items())
        return f"{type(self).__name__}(N-batch={self.count}, {shares})"

    def generate(self, seed: int) -> Batches:
        """The batches of an epoch; ESPnet passes the sum of the epoch and the seed of training.

        Raises:
            ConfigError: Several rounds in a row gave no batch with an utterance for each process.
        """
        rank, world = self.shard
        random = np.random.default_rng(seed)
        batches: Batches = []
        rounds = 0  # in a row that gave no batch, which a single one may do by chance
        while len(batches) < self.count:
            drawn = self._draw(random)
            groups = drawn.values() if self.single else [random.permutation(np.concatenate(list(drawn.values())))]
            cut = [batch for group in groups if len(group) for batch in self._cut(group)]
            usable = [cut[index] for index in random.permutation(len(cut)) if len(cut[index]) >= world]
            rounds = 0 if usable else rounds + 1
            if rounds == _ROUNDS:
                raise too_small(max(map(len, cut)), world)
            batches += usable
        return [batch[rank::world] for batch in batches[: self.count]]

    def _draw(self, random: np.random.Generator) -> dict[str, NDArray[np.int32]]:
        """Rows of each category; in total as many as the training data has."""
        wanted = random.multinomial(self.total, list(self.probabilities.values()))
        drawn = {}
        for category, count in zip(self.probabilities, wanted, strict=True):
            members = self.members[category]
            rounds = [random.permutation(len(members)) for _ in range(math.ceil(count / len(members)))]
            drawn[category] = members[np.concatenate([*rounds, []]).astype(int)[:count]]
        return drawn

    def _cut(self, rows: NDArray[np.int32]) -> Batches:
        """Divide utterances, some of which occur more than once, into batches."""
        shapes = [Shapes(kind.lengths[rows], kind.width) for kind in self.shapes]
        return [rows[batch] for batch in make_batches(shapes, self.options)]


def read_sampling(section: object) -> Sampling | None:
    """The section `sampling` of a configuration; None if there is none.

    Raises:
        ConfigError: The section is not a mapping, or an option is unknown, missing or not allowed.
    """
    if section is None:
        return None
    if isinstance(section, Mapping) and "by" not in section:
        raise ConfigError("sampling needs by, one condition or several")
    return read(Sampling, section, "sampling")


def too_small(size: int, world: int) -> ConfigError:
    """The error for a batch of `size` utterances, fewer than the `world` processes."""
    todo = "give larger batches, or fewer processes"
    return ConfigError(f"a batch has {size} utterances, and {world} processes take shares of it; {todo}")
