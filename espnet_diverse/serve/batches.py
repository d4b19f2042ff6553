"""Callers that share a batch: recordings that arrive within some milliseconds are searched together.

One thread serves a model. While it searches a group, the next one gathers. Only the last digits of scores depend on the
batch, so callers get the texts that they would get alone. A recording whose caller has gone leaves the queue, or its
search is stopped.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from threading import Condition, Thread
from typing import NamedTuple

from espnet_diverse.errors import UserError
from espnet_diverse.serve.limits import Limits
from espnet_diverse.serve.refusals import busy
from espnet_diverse.transcription.transcript import Request, Transcript


class Kind(NamedTuple):
    """Common properties of recordings that are searched together: whether words get times, and hotwords."""

    word_timestamps: bool = False
    hotwords: tuple[str, ...] = ()


Transcribe = Callable[[Sequence[Request], Kind], Iterator[Transcript | Exception]]
"""Transcribes recordings of one kind; one result for each, in order."""


@dataclass(eq=False)
class Job:
    """A recording in the queue.

    Attributes:
        request: The recording, as samples; None when it is done, because a job and its callers refer to each other, and
            its memory should not wait for Python's garbage collector.
        kind: Kind of recordings that it may be searched with.
        seconds: Its length.
        result: Its transcript, or an exception.
        since: Time when it entered the queue.
        is_given_up: Whether nobody waits for it.
    """

    request: Request | None
    kind: Kind
    seconds: float
    result: Future[Transcript] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)
    is_given_up: bool = False

    def watched(self) -> Request:
        """The request, which stops within a batch if nobody waits for it any more."""
        assert self.request is not None  # until it is finished
        return replace(self.request, on_progress=self._check)

    def finish(self, result: Transcript | Exception) -> None:
        """Set the result, and release the recording."""
        self.request = None
        if isinstance(result, UserError | _GivenUpError):
            result = result.with_traceback(None)  # its frames hold the recording
        if isinstance(result, Exception):
            self.result.set_exception(result)
        else:
            self.result.set_result(result)

    def _check(self, done: float, length: float) -> None:
        if self.is_given_up:
            raise _GivenUpError


class _GivenUpError(Exception):
    """Nobody waits for the result."""


class Batches:
    """A queue of recordings for one model, and the thread that serves it.

    Args:
        transcribe: Transcribes recordings of one kind together.
        limits: Limits of the queue.
        most: Maximum number of recordings in a group.
        wait: Seconds that the first recording of a group waits for others.
    """

    def __init__(self, transcribe: Transcribe, limits: Limits, most: int = 32, wait: float = 0.01):
        self.transcribe, self.limits, self.most, self.wait = transcribe, limits, most, wait
        self._waiting: list[Job] = []
        self._running: list[Job] = []
        self._is_closed = False
        self._changed = Condition()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        """Whether no recording waits or is searched."""
        with self._changed:  # a group moves from waiting to running
            return not self._waiting and not self._running

    def submit(self, job: Job) -> None:
        """Put a recording into the queue.

        Raises:
            RefusedError: The queue is full.
        """
        with self._changed:
            seconds = sum(one.seconds for one in self._waiting)
            is_long = bool(self._waiting) and seconds + job.seconds > self.limits.queued_seconds
            if len(self._waiting) >= self.limits.waiting or is_long:
                raise busy(f"{len(self._waiting)} requests are already waiting; try again later", "queue")
            self._waiting.append(job)
            self._changed.notify()

    def give_up(self, job: Job) -> None:
        """Take a recording out of the queue, or stop its search."""
        with self._changed:
            job.is_given_up = True
            if job in self._waiting:
                self._waiting.remove(job)
                job.result.cancel()
                job.request = None

    def close(self) -> None:
        """End the thread when the queue is empty."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _run(self) -> None:
        while not (self._is_closed and not self._waiting):
            if group := self._group():
                self._serve(group)
            self._running = []

    def _group(self) -> list[Job]:
        """The next recordings to search together; empty if all were given up, or at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            if self._waiting:
                remaining = self._waiting[0].since + self.wait - time.monotonic()
                self._changed.wait_for(lambda: len(self._waiting) >= self.most, max(0.0, remaining))
            kind = self._waiting[0].kind if self._waiting else None
            group = [job for job in self._waiting if job.kind == kind][: self.most]
            self._waiting = [job for job in self._waiting if job not in group]
            self._running = group
            return [job for job in group if job.result.set_running_or_notify_cancel()]

    def _serve(self, group: list[Job]) -> None:
        group = sorted(group, key=lambda job: job.seconds)  # results come in order, so that none waits for a longer one
        try:
            results = self.transcribe([job.watched() for job in group], group[0].kind)
            for job, result in zip(group, results, strict=True):
                job.finish(result)
        except Exception as error:  # of any kind, because the thread must continue
            for job in group:
                if not job.result.done():
                    job.finish(error)
