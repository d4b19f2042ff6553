"""The position of training in an epoch, which a checkpoint stores."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Position:
    """A place within an epoch, between two updates.

    Attributes:
        epoch: Number of the epoch.
        batches: Number of batches that are done.
        digest: Digest of all batches of the epoch, see `EpochBatches.digest`.
        processes: Number of processes that share the batches.
        statistics: `run_state.statistics_of` the epoch so far.
    """

    epoch: int
    batches: int
    digest: int
    processes: int
    statistics: dict
