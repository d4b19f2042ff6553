"""The queue of a model, with a transcriber that answers when it may."""

import threading
import time
from concurrent.futures import CancelledError

import pytest

from espnet_diverse.serve.batches import Batches, Job, Kind
from espnet_diverse.serve.limits import Limits
from espnet_diverse.serve.refusals import RefusedError
from espnet_diverse.transcription.transcript import Request

PLAIN, WORDS = Kind(), Kind(True)


class Transcriber:
    """Answers each request with its name; `groups` has the names that came together."""

    def __init__(self):
        self.groups, self.kinds = [], []
        self.begun, self.may = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, requests, kind):
        self.groups.append([request.audio for request in requests])
        self.kinds.append(kind)
        self.begun.release()
        assert self.may.acquire(timeout=20)
        for request in requests:
            if request.audio == "broken":
                raise RuntimeError("of the model")
            try:
                request.on_progress(0.5, 1.0)
                yield f"text of {request.audio}"
            except Exception as error:
                yield error


@pytest.fixture
def transcriber():
    return Transcriber()


@pytest.fixture
def batches(transcriber):
    batches = Batches(transcriber, Limits(waiting=6, queued_seconds=100.0), most=4, wait=0.0)
    yield batches
    batches.close()
    transcriber.may.release(100)


def submitted(batches, *names, kind=PLAIN, seconds=1.0):
    jobs = [Job(Request(name), kind, seconds) for name in names]
    for job in jobs:
        batches.submit(job)
    return jobs


def begun(batches, transcriber):
    """A job that is being searched, so that the next ones gather."""
    (job,) = submitted(batches, "first")
    assert transcriber.begun.acquire(timeout=20)
    return job


def test_requests_queued_during_a_search_are_batched(batches, transcriber):
    first = begun(batches, transcriber)
    others = submitted(batches, *"abcdef")
    assert not batches.is_idle
    transcriber.may.release(3)
    assert [job.result.result(20) for job in (first, *others)] == [f"text of {n}" for n in ("first", *"abcdef")]
    assert transcriber.groups == [["first"], [*"abcd"], [*"ef"]]
    while not batches.is_idle:
        time.sleep(0.01)


def test_a_queue_is_not_idle_while_a_group_leaves_it(transcriber):
    class Slow(Batches):
        """A queue whose groups take a moment from the waiting jobs to the running ones."""

        leaving = threading.Event()
        count = 0

        @property
        def _running(self):
            return self.count

        @_running.setter
        def _running(self, count):
            if count:
                self.leaving.set()
                time.sleep(0.2)
            self.count = count

    batches = Slow(transcriber, Limits(), wait=0.0)
    submitted(batches, "a")
    assert batches.leaving.wait(20)
    assert not batches.is_idle
    batches.close()
    transcriber.may.release()


def test_the_first_waits_for_others_but_not_for_long(transcriber):
    transcriber.may.release(100)
    patient = Batches(transcriber, Limits(), most=3, wait=0.5)
    began = time.monotonic()
    for job in submitted(patient, *"ab"):
        job.result.result(20)
    assert transcriber.groups == [["a", "b"]] and 0.4 < time.monotonic() - began < 5
    patient.close()
    patient = Batches(transcriber, Limits(), most=3, wait=100.0)
    for job in submitted(patient, *"cde"):
        job.result.result(20)
    assert transcriber.groups[1:] == [["c", "d", "e"]]
    patient.close()


def test_recordings_of_one_kind_are_searched_together(batches, transcriber):
    begun(batches, transcriber)
    submitted(batches, "a")
    submitted(batches, "b", kind=WORDS)
    submitted(batches, "c")
    (last,) = submitted(batches, "d", kind=WORDS)
    transcriber.may.release(3)
    last.result.result(20)
    assert transcriber.groups == [["first"], ["a", "c"], ["b", "d"]]
    assert transcriber.kinds == [PLAIN, PLAIN, WORDS]


def test_short_recordings_do_not_wait_for_long_ones(batches, transcriber):
    begun(batches, transcriber)
    (long,) = submitted(batches, "long", seconds=60.0)
    submitted(batches, "short")
    transcriber.may.release(2)
    long.result.result(20)
    assert transcriber.groups[1] == ["short", "long"]


def test_a_full_queue_refuses(batches, transcriber):
    first = begun(batches, transcriber)
    waiting = submitted(batches, *"abcdef")
    with pytest.raises(RefusedError, match="6 requests are already waiting; try again later") as caught:
        submitted(batches, "g")
    assert caught.value.status == 429
    batches.give_up(waiting[0])
    submitted(batches, "g")
    transcriber.may.release(9)
    assert first.result.result(20) == "text of first"


def test_the_seconds_of_all_that_waits_are_bounded(batches, transcriber):
    begun(batches, transcriber)
    submitted(batches, "a", seconds=1000.0)  # alone it may be longer
    with pytest.raises(RefusedError, match="1 requests are already waiting"):
        submitted(batches, "b")


def test_abandoned_requests_are_not_searched(batches, transcriber):
    first = begun(batches, transcriber)
    a, b = submitted(batches, *"ab")
    batches.give_up(a)
    batches.give_up(first)
    transcriber.may.release(2)
    assert b.result.result(20) == "text of b" and transcriber.groups == [["first"], ["b"]]
    with pytest.raises(CancelledError):
        a.result.result(20)
    assert type(first.result.exception(20)).__name__ == "_GivenUpError"


def test_the_queue_continues_when_all_were_given_up(transcriber):
    transcriber.may.release(9)
    patient = Batches(transcriber, Limits(), wait=0.3)
    patient.give_up(*submitted(patient, "a"))
    time.sleep(0.5)
    (b,) = submitted(patient, "b")
    assert b.result.result(20) == "text of b" and transcriber.groups == [["b"]]
    patient.close()


def test_a_failed_search_fails_its_recordings_and_no_others(batches, transcriber):
    begun(batches, transcriber)
    broken, late = submitted(batches, "broken", "late")
    transcriber.may.release(2)
    for job in (broken, late):
        with pytest.raises(RuntimeError, match="of the model"):
            job.result.result(20)
    transcriber.may.release(1)
    assert submitted(batches, "a")[0].result.result(20) == "text of a"


def test_the_thread_ends_with_the_queue(transcriber):
    before = set(threading.enumerate())
    batches = Batches(transcriber, Limits(), wait=0.0)
    (thread,) = set(threading.enumerate()) - before
    (job,) = submitted(batches, "a")
    batches.close()
    transcriber.may.release()
    assert job.result.result(20) == "text of a"
    thread.join(20)
    assert not thread.is_alive()
