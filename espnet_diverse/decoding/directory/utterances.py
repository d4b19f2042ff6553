"""Utterances of a data directory: read, group into batches, search.

Utterances that cannot be read must not change the batches of the others, because the batch changes the last digits of a
score: kernels choose the order of a sum by the shapes of their operands. So utterances are read first, and the readable
ones are grouped in their order: by length within a window, so that batches hold little padding, and never with more
utterances or frames than the search allows.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from numpy.typing import NDArray

from espnet_diverse.audio.segments import Segment
from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.directory.results import Result
from espnet_diverse.decoding.grouping import each_result, grouped
from espnet_diverse.decoding.prediction import Text
from espnet_diverse.errors import ClusterError, DataError
from espnet_diverse.upstream.layers import TooShortUttError

log = logging.getLogger(__name__)

_WINDOW = 16  # batches


class Search(Protocol):
    """Interface of a search that can decode a data directory: `Predictor`, or ESPnet's `Search`.

    Attributes:
        device: "cpu", "cuda" or "cuda:N".
        conditions: The conditions that the model depends on.
        table: Table of the data directory that names the inputs.
        batch_size: Number of utterances in a batch.
        batch_frames: Maximum number of frames, padding included, of a batch of several utterances.
        nbest: Number of hypotheses that are requested; there may be fewer.
        used: Entries of decode.json about the weights and a language model.
    """

    device: str
    conditions: KnownConditions
    table: str
    batch_size: int
    batch_frames: int
    nbest: int
    used: Mapping[str, str | float]

    def read(self, value: str, segment: Segment | None = None) -> tuple[NDArray, float]:
        """Read the input that an entry of the table names, or a segment of a recording.

        Returns:
            Frames, and the duration in seconds, 0 for text and features.
        """

    def batch(self, sources: Sequence[NDArray], conditions: Sequence[Mapping[str, int]]) -> list[list[Text]]:
        """The n-best texts of each utterance, best first, given its condition indices."""


class Description(NamedTuple):
    """Properties of a search that workers of a cluster have loaded, for grouping; see `Search`."""

    device: str
    conditions: KnownConditions
    table: str
    batch_size: int
    batch_frames: int
    nbest: int = 1
    used: Mapping[str, str | float] = {}


class Job(NamedTuple):
    """An utterance to decode.

    Attributes:
        utterance: Its id.
        source: Its entry of the table of the inputs.
        segment: The part of the recording; None is all of it.
        conditions: Its condition indices.
        fault: What is wrong with its entry, or "".
    """

    utterance: str
    source: str
    segment: Segment | None
    conditions: Mapping[str, int]
    fault: str = ""


class Read(NamedTuple):
    """An utterance that was read: its frames and the duration in seconds."""

    job: Job
    frames: NDArray
    seconds: float

    @property
    def length(self) -> int:
        """Number of frames."""
        return len(self.frames)


class Measured(NamedTuple):
    """An utterance that a worker of a cluster can read, and its number of frames."""

    job: Job
    length: int


def readable(search: Search, jobs: Iterable[Job | Result], failed: list[Result]) -> Iterator[Read | Result]:
    """Read utterances; unreadable ones are added to `failed`, and results are passed on."""
    for job in jobs:
        if isinstance(job, Result):
            yield job
            continue
        if job.fault:
            failed.append(Result(job.utterance, failure=job.fault))
            continue
        try:
            yield Read(job, *search.read(job.source, job.segment))
        except Exception as error:  # of any kind, so that the other utterances are still decoded
            failed.append(failure_of(job, error))


def batches_of[Utterance: (Read, Measured)](
    utterances: Iterator[Utterance | Result], search: Search | Description
) -> Iterator[list[Utterance]]:
    """Group utterances in their order: by length within a window, never more than the search allows.

    The result of an utterance that was decoded before stands in for it, so that the batches of the others stay the
    same, and is then left out.
    """
    while window := list(islice(utterances, _WINDOW * search.batch_size)):
        for batch in grouped(window, lambda one: one.length, search.batch_size, search.batch_frames):
            if remaining := [one for one in batch if not isinstance(one, Result)]:
                yield remaining


def decode_batch(search: Search, batch: list[Read]) -> list[Result]:
    """Results of a batch, in order."""

    def texts(some: Sequence[Read]) -> list[list[Text]]:
        return search.batch([one.frames for one in some], [one.job.conditions for one in some])

    several = search.nbest > 1
    results = zip(batch, each_result(texts, batch), strict=True)
    return [failure_of(one.job, x) if isinstance(x, Exception) else _result(one, x, several) for one, x in results]


def _result(one: Read, best: list[Text], several: bool) -> Result:
    if not best:
        return Result(one.job.utterance, seconds=one.seconds, length=one.length)
    text, tokens, score = best[0]
    nbest = tuple((entry.text, entry.score) for entry in best) if several else ()  # also of a single hypothesis
    return Result(one.job.utterance, text, score, None, one.seconds, len(tokens), nbest, one.length)


def failure_of(job: Job, error: Exception) -> Result:
    """The result of an utterance that could not be decoded; an unexpected error is logged with its traceback."""
    if isinstance(error, DataError | ClusterError | TooShortUttError):
        return Result(job.utterance, failure=str(error))
    log.error("decoding %s failed", job.utterance, exc_info=error)
    return Result(job.utterance, failure=f"{type(error).__name__}: {error}")
