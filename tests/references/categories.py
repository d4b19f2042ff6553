"""Utterances of three categories with their shapes, and samplers of them."""

from espnet_diverse.training.data.batch_types import BatchOptions, Shapes
from espnet_diverse.training.data.sampling import BalancedSampler, Sampling

SIZES = {"ar": 4, "de": 16, "ru": 64}
CATEGORIES = {f"{name}{number:02d}": name for name, count in SIZES.items() for number in range(count)}
IDS = list(CATEGORIES)
SHAPES = [
    {utterance: str(1000 + 10 * number) for number, utterance in enumerate(CATEGORIES)},
    dict.fromkeys(CATEGORIES, "5,10"),
]
OPTIONS = {
    **{"type": "numel", "batch_size": 8, "batch_bins": 10000, "fold_lengths": [1500, 100], "min_batch_size": 1},
    **{"sort_in_batch": "descending", "sort_batch": "ascending"},
}


def sampler(temperature, batches="mixed", shard=(0, 1), **options):
    sampling, shapes = Sampling("lang", temperature, batches), [Shapes.parsed(each.values()) for each in SHAPES]
    return BalancedSampler(IDS, CATEGORIES, sampling, shapes, BatchOptions(**OPTIONS | options), shard)


def names(batch):
    return [IDS[row] for row in batch]


def listed(batches):
    return [names(batch) for batch in batches]
