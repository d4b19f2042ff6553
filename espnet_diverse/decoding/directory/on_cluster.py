"""Decode utterances on the workers of a cluster, in the batches of a single process.

Workers read utterances twice: first for their lengths, from which the client forms the batches, then to decode them.
Reading costs little compared with the search, and only ids, lengths and results are sent.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice

from espnet_diverse.cluster.pool import Pool
from espnet_diverse.decoding.directory.results import Result
from espnet_diverse.decoding.directory.utterances import (
    Description,
    Job,
    Measured,
    Search,
    batches_of,
    decode_batch,
    failure_of,
    readable,
)

_MEASURED = 32  # utterances that a worker reads at a time for their lengths


def described(pool: Pool) -> Description:
    """The description of the search of the workers of a cluster.

    Raises:
        ClusterError: A worker cannot load it.
    """
    return pool.ask(_describe)


def _describe(search: Search) -> Description:
    return Description(*(getattr(search, name) for name in Description._fields))


def decode_on_cluster(
    pool: Pool, search: Description, jobs: Iterable[Job | Result], failed: list[Result]
) -> Iterator[list[Result]]:
    """Results by batch, as `utterances.decode_batch` gives them; utterances that cannot be read are added to `failed`.

    Results among the jobs are of utterances that were decoded before.

    Raises:
        ClusterError: See `Pool.map_pieces`.
    """
    batches = batches_of(_measured(pool, jobs, failed), search)
    sent: deque[list[Job]] = deque()

    def pieces() -> Iterator[list[Job]]:
        for batch in batches:
            sent.append([one.job for one in batch])
            yield sent[-1]

    for results in pool.map_pieces(_decode_jobs, pieces()):
        pairs = zip(sent.popleft(), results, strict=True)
        yield [failure_of(job, one) if isinstance(one, Exception) else one for job, one in pairs]


def _measured(pool: Pool, jobs: Iterable[Job | Result], failed: list[Result]) -> Iterator[Measured | Result]:
    """Utterances that workers can read, and results, in order; unreadable utterances are added to `failed`."""
    for are_results, run in groupby(jobs, lambda job: isinstance(job, Result)):
        if are_results:
            yield from run
        else:
            yield from _measured_run(pool, run, failed)


def _measured_run(pool: Pool, jobs: Iterator[Job], failed: list[Result]) -> Iterator[Measured]:
    sent: deque[list[Job]] = deque()

    def pieces() -> Iterator[list[Job]]:
        while piece := list(islice(jobs, _MEASURED)):
            sent.append(piece)
            yield piece

    # Urgent: without lengths there are no batches for the other workers.
    for lengths in pool.map_pieces(_measure, pieces(), urgent=True):
        for job, length in zip(sent.popleft(), lengths, strict=True):
            if isinstance(length, int):
                yield Measured(job, length)
            else:
                failed.append(length if isinstance(length, Result) else failure_of(job, length))


def _measure(search: Search, jobs: Sequence[Job]) -> list[int | Result]:
    """The number of frames of each utterance, or its failure."""
    failed: list[Result] = []
    lengths = {one.job.utterance: one.length for one in readable(search, jobs, failed)}
    failures = {result.utterance: result for result in failed}
    return [lengths.get(job.utterance, failures.get(job.utterance)) for job in jobs]


def _decode_jobs(search: Search, jobs: Sequence[Job]) -> list[Result]:
    """Read and decode a batch on a worker; a result for each utterance, in order."""
    failed: list[Result] = []
    read = list(readable(search, jobs, failed))
    results = {result.utterance: result for result in [*(decode_batch(search, read) if read else []), *failed]}
    return [results[job.utterance] for job in jobs]
