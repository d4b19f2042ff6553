"""Batches of a run: all utterances in ESPnet's batches, or sampled utterances without their ids."""

import logging
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from espnet2.samplers.abs_sampler import AbsSampler

from espnet_diverse.training.data.batch_types import BatchOptions, Shapes, make_batches, read_shapes
from espnet_diverse.training.data.row_dataset import RowBatches, RowDataset, RowIterFactory
from espnet_diverse.training.data.sampling import BalancedSampler, read_sampling, too_small

log = logging.getLogger(__name__)


def row_batches(args: Namespace, iter_options, mode: str, check: Callable[..., None]) -> RowIterFactory:
    """Replacement of ESPnet's `build_sequence_iter_factory`: the same batches, or sampled ones, without their ids.

    Args:
        args: Arguments of ESPnet's training command.
        iter_options: Result of ESPnet's `build_iter_options`.
        mode: "train", "valid" or "plot_att".
        check: ESPnet's `check_task_requirements`.

    Raises:
        ConfigError: A batch has fewer utterances than there are processes.
        DataError: The shape files do not belong together.
    """
    shard = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if iter_options.distributed else (0, 1)
    ids, shapes = read_shapes(iter_options.shape_files)
    options = BatchOptions.of(args, iter_options, shard[1])
    balanced = mode == "train" and args.sampling is not None
    sampler: AbsSampler
    if balanced:
        sampling = read_sampling(args.sampling)
        categories = sampling.categories(Path(iter_options.data_path_and_name_and_type[-1][0]).parent)
        sampler = BalancedSampler(ids, categories, sampling, shapes, options, shard)
    else:
        sampler = _plain_batches(shapes, options, shard, iter_options.num_batches)
    log.info("[%s] Batch sampler: %s", mode, sampler)
    dataset = RowDataset.of(args, iter_options, ids)
    check(dataset, args.allow_variable_data_keys, train=iter_options.train)
    return RowIterFactory(
        shard=shard,
        dataset=dataset,
        batches=sampler,
        seed=args.seed,
        num_iters_per_epoch=iter_options.num_iters_per_epoch,
        shuffle=iter_options.train and not balanced,  # the sampler has drawn them in random order
        shuffle_within_batch=args.shuffle_within_batch and not balanced,
        num_workers=args.num_workers,
        collate_fn=iter_options.collate_fn,
        pin_memory=args.ngpu > 0,
    )


def _plain_batches(
    shapes: Sequence[Shapes], options: BatchOptions, shard: tuple[int, int], number: int | None
) -> RowBatches:
    """All utterances in batches, or the first `number` of batches."""
    rank, world = shard
    batches = make_batches(shapes, options)[:number]
    sizes = [len(batch) for batch in batches]
    if min(sizes) < world:
        raise too_small(min(sizes), world)
    stats = f"{len(sizes)}, mean={np.mean(sizes):.1f}, min={min(sizes)}, max={max(sizes)}"
    name = (
        f"RowBatches({options.type}, N-batch={stats}, batch_size={options.batch_size}, batch_bins={options.batch_bins})"
    )
    return RowBatches([batch[rank::world] for batch in batches], name)
