"""Decoding in several processes of this machine, which share the loaded model."""

import logging
import os
import signal
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.process import BaseProcess
from threading import Thread

import torch

from espnet_diverse.decoding.directory.results import Result
from espnet_diverse.decoding.directory.utterances import Read, Search, decode_batch
from espnet_diverse.errors import UserError

log = logging.getLogger(__name__)


def decode_in_processes(search: Search, batches: Iterator[list[Read]], nj: int) -> Iterator[list[Result]]:
    """Decode batches in `nj` processes; batches are read only as they are needed, and results come in order.

    If a process is killed, its pool breaks. The remaining utterances then go to another pool.

    Raises:
        UserError: The other pool lost a process too, before it had decoded any of them.
    """
    pending: deque[list[Read]] = deque()
    done, broken_at = 0, -1
    while True:
        try:
            with _processes(search, nj) as pool:
                for results in _in_order(pool, pending, batches, 2 * nj):
                    done += len(results)
                    yield results
            return
        except BrokenProcessPool as error:
            reason = f"a process of --nj {nj} was killed, perhaps because memory ran out"
            if broken_at == done:
                raise UserError(
                    f"{reason}, and another one when {pending[0][0].job.utterance} and later ones were tried again; "
                    "run the same command again with a smaller --nj or --batch_size, which decodes what is left"
                ) from error
            broken_at = done
            log.warning("%s; %d batches are tried again", reason, len(pending))


def _in_order(
    pool: ProcessPoolExecutor, pending: deque[list[Read]], batches: Iterator[list[Read]], ahead: int
) -> Iterator[list[Result]]:
    """Decode the pending batches and those that follow; a batch is pending until its results are there."""
    futures = deque(pool.submit(_Worker.decode, batch) for batch in pending)
    while True:
        while len(futures) <= ahead and (batch := next(batches, None)) is not None:
            pending.append(batch)
            futures.append(pool.submit(_Worker.decode, batch))
        if not futures:
            return
        results = futures.popleft().result()
        pending.popleft()
        yield results


@contextmanager
def _processes(search: Search, nj: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that decode; they are ended at once if the block is left by an exception, for example by Ctrl-C."""
    existing = set(active_children())
    pool = ProcessPoolExecutor(nj, get_context("fork"), _Worker.start, (search,))
    try:
        yield pool
    except BaseException:
        for process in set(active_children()) - existing:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


class _Worker:
    """State of a worker process, set once by the pool's initializer; the main process never sets it."""

    search: Search

    @classmethod
    def start(cls, search: Search) -> None:
        """Initialise the process. The search comes from the forked parent, so it is neither copied nor pickled."""
        cls.search = search
        Thread(target=_end_with, args=(parent_process(),), daemon=True).start()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which ends this one
        torch.set_num_threads(1)  # so that no OpenMP region is entered, which a forked process must not do

    @classmethod
    def decode(cls, batch: list[Read]) -> list[Result]:
        """Decode a batch in this process."""
        return decode_batch(cls.search, batch)


def _end_with(parent: BaseProcess) -> None:
    """End this process when `parent` is killed, because the parent then cannot end it."""
    parent.join()
    os._exit(1)
