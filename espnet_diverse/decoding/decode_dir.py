"""Decode a data directory: read, group into batches, search, write.

What an utterance gives must not depend on which others cannot be read. Kernels choose the order of a sum by the shapes
of their operands, so the last digits depend on what is in a batch. So utterances are read first, and those that can be
decoded are grouped in their order: by length within a window, so that batches hold little padding, and never with more
utterances or frames than the search says. The batches are then the same with and without utterances that cannot be
read, and for any number of processes. (Each of several processes computes in one thread; a single process does so
under OMP_NUM_THREADS=1.) In other batches, scores agree up to rounding: for example where a batch fails in the search
and its utterances are searched one by one. `results.rounded_score` says which digits are written.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from espnet.nets.pytorch_backend.transformer.subsampling import TooShortUttError
from numpy.typing import NDArray

from espnet_diverse.data.tables import read_table
from espnet_diverse.decoding.condition_ids import KnownConditions, condition_indices
from espnet_diverse.decoding.grouping import each_result, grouped
from espnet_diverse.decoding.results import FILES, Outcome, Text, line, summary, write_json, write_outcomes
from espnet_diverse.errors import DataError
from espnet_diverse.progress import progress

_WINDOW = 16  # batches


class Search(Protocol):
    """What a search must have to decode a data directory.

    Attributes:
        device: "cpu" or "cuda".
        conditions: What its model knows of conditions.
        table: The table of the data directory that has what is decoded.
        batch_size: Utterances that it wants at a time.
        batch_frames: Frames, with those of padding, that it takes at a time if there are several utterances.
    """

    device: str
    conditions: KnownConditions
    table: str
    batch_size: int
    batch_frames: int

    def read(self, value: str) -> tuple[NDArray, float]:
        """What an entry of the table names, by frames, and its seconds, 0 of a text."""

    def batch(self, sources: Sequence[NDArray], conditions: Sequence[Mapping[str, int]]) -> list[list[Text]]:
        """The best texts of each of several utterances, best first, for its indices by condition."""


class _Job(NamedTuple):
    """An utterance to be decoded, its audio file or source text, and its indices by condition."""

    utterance: str
    source: str
    conditions: Mapping[str, int]


class _Read(NamedTuple):
    """An utterance that was read."""

    job: _Job
    frames: NDArray
    seconds: float


def decode(
    search: Search, data_dir: Path, output_dir: Path, nj: int = 1, conditions: Mapping[str, str] | None = None
) -> list[Outcome]:
    """Decode a data directory; write text, score, failures.json (utterance: reason) and decode.json (the numbers of
    `outcomes.summary`), and print a summary.

    An utterance that fails costs no other one. One without a hypothesis gets an empty text. Outcomes are sorted.

    Args:
        search: How to decode.
        data_dir: Kaldi data directory; its wav.scp is read, of text translation its src_text, and its task tables where
            the model needs them.
        output_dir: Where to write.
        nj: Processes to decode with, on the CPU; they share the loaded model.
        conditions: Names by condition that hold for all utterances, in place of the tables.

    Raises:
        DataError: The table is wrong, an utterance lacks a task or has an unknown one, or none could be decoded.
    """
    jobs = _jobs(search, data_dir, conditions or {})
    output_dir.mkdir(parents=True, exist_ok=True)
    for name in FILES:  # of an earlier run, which this one may not replace
        (output_dir / name).unlink(missing_ok=True)
    start = time.monotonic()
    found = progress(_outcomes(search, jobs, nj), "decode", len(jobs), "utterance")
    outcomes = sorted(found, key=lambda outcome: outcome.utterance)
    elapsed = time.monotonic() - start
    failures = {outcome.utterance: outcome.failure for outcome in outcomes if outcome.failure is not None}
    write_json(output_dir / "failures.json", failures)
    if len(failures) == len(jobs):
        utterance, failure = next(iter(failures.items()))
        raise DataError(f"{data_dir}: none of {len(jobs)} utterances could be decoded; first {utterance}: {failure}")
    numbers = summary(outcomes, elapsed)
    write_outcomes(outcomes, {**numbers, "device": search.device}, output_dir)
    for utterance, failure in failures.items():
        logging.warning("%s was not decoded: %s", utterance, failure)
    print(line(numbers))
    return outcomes


def _jobs(search: Search, data_dir: Path, conditions: Mapping[str, str]) -> list[_Job]:
    if search.table == "wav.scp" and (data_dir / "segments").exists():
        raise DataError(f"{data_dir}: has segments; cut them with espnet-diverse prepare, or take the file away")
    sources = read_table(data_dir / search.table)
    indices = condition_indices(search.conditions, data_dir, sources, conditions)
    return [_Job(utterance, source, indices[utterance]) for utterance, source in sources.items()]


_search: Search  # a global, so that forked workers have it without copying or importing anything


def _outcomes(search: Search, jobs: Sequence[_Job], nj: int) -> Iterator[Outcome]:
    global _search
    _search = search
    nj = min(nj, len(jobs)) if search.device == "cpu" else 1
    failed: list[Outcome] = []
    batches = _batches(_good(search, jobs, failed), search)
    for outcomes in map(_decode, batches) if nj <= 1 else _spread(_decode, batches, nj):
        yield from outcomes
        while failed:
            yield failed.pop()
    yield from failed


def _good(search: Search, jobs: Iterable[_Job], failed: list[Outcome]) -> Iterator[_Read]:
    """Read the utterances; those that cannot be go to `failed`."""
    for job in jobs:
        try:
            yield _Read(job, *search.read(job.source))
        except Exception as error:  # whatever it is, it must not cost the other utterances
            failed.append(_failure(job, error))


def _batches(utterances: Iterator[_Read], search: Search) -> Iterator[list[_Read]]:
    while window := list(islice(utterances, _WINDOW * search.batch_size)):
        yield from grouped(window, lambda one: len(one.frames), search.batch_size, search.batch_frames)


def _decode(batch: list[_Read]) -> list[Outcome]:
    def searched(some: Sequence[_Read]) -> list[list[Text]]:
        return _search.batch([one.frames for one in some], [one.job.conditions for one in some])

    results = zip(batch, each_result(searched, batch), strict=True)
    return [_failure(one.job, x) if isinstance(x, Exception) else _outcome(one, x) for one, x in results]


def _outcome(one: _Read, best: list[Text]) -> Outcome:
    if not best:
        return Outcome(one.job.utterance, seconds=one.seconds)
    text, tokens, score = best[0]
    return Outcome(one.job.utterance, text, score, seconds=one.seconds, tokens=len(tokens))


def _failure(job: _Job, error: Exception) -> Outcome:
    if isinstance(error, DataError | TooShortUttError):
        return Outcome(job.utterance, failure=str(error))
    logging.error("decoding %s failed", job.utterance, exc_info=error)
    return Outcome(job.utterance, failure=f"{type(error).__name__}: {error}")


def _spread(function: Callable, items: Iterator, nj: int) -> Iterator:
    """`map` in processes, which takes items only as they are needed."""
    # With one thread a worker enters no OpenMP region, which a forked process must not.
    with ProcessPoolExecutor(nj, get_context("fork"), torch.set_num_threads, (1,)) as pool:
        pending: deque = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > 2 * nj:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
