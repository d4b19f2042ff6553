"""Decode a data directory: read, group into batches, search, write.

The batches of `utterances.py` are the same with and without utterances that cannot be read, and for any number of
processes or workers. (Each of several processes computes in one thread; a single process does so under
OMP_NUM_THREADS=1.) In other batches, scores agree up to rounding: for example if a batch fails in the search and its
utterances are searched one by one. `prediction.rounded_score` defines which digits are written.

Results are written to a journal in the folder `.decoding` of the output directory, batch by batch. If a call is stopped
or fails, the next call reads the journal and decodes the remaining utterances in the same batches. When all results are
complete, they are moved into place and the folder is removed.
"""

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import overload

from espnet_diverse.cluster.pool import Pool
from espnet_diverse.data.digests import digest
from espnet_diverse.data.faults import Fault, alike_once, refuse
from espnet_diverse.data.files.locks import folder_lock
from espnet_diverse.data.journal import Journal
from espnet_diverse.data.packed_table import PackedTable
from espnet_diverse.data.table_views import Joined, Mapped
from espnet_diverse.data.tables import entry_faults, parse_segment, scan_packed
from espnet_diverse.decoding.condition_ids import condition_indices
from espnet_diverse.decoding.directory.on_cluster import decode_on_cluster
from espnet_diverse.decoding.directory.processes import decode_in_processes
from espnet_diverse.decoding.directory.results import Result, line, replace_results, summary, write_json, write_results
from espnet_diverse.decoding.directory.utterances import Description, Job, Search, batches_of, decode_batch, readable
from espnet_diverse.errors import DataError
from espnet_diverse.portable import can_fork
from espnet_diverse.progress import progress

log = logging.getLogger(__name__)

UNFINISHED = ".decoding"
"""Folder in an output directory with the results of a call that has not finished."""


def decode(
    search: Search | Description,
    data_dir: Path,
    output_dir: Path,
    nj: int = 1,
    conditions: Mapping[str, str] | None = None,
    pool: Pool | None = None,
    made_by: str | None = None,
) -> Collection[Result]:
    """Decode a data directory, write the results and print a summary.

    Writes text, score, nbest.jsonl if several hypotheses are asked for, failures.json (reason by utterance) and
    decode.json (the numbers of `results.summary`). An utterance that fails does not affect the others; an utterance
    without a hypothesis gets an empty text.

    Args:
        search: Search with a loaded model; for workers of a cluster, its description.
        data_dir: Kaldi data directory. Its wav.scp and segments are read, its feats.scp for models that read features,
            or its src_text for text translation, and the tables of the conditions that the model depends on.
        output_dir: Directory to write to. Earlier results stay until all new ones replace them.
        nj: Number of processes on the CPU; they share the loaded model.
        conditions: Values by condition that hold for all utterances, instead of the tables.
        pool: Workers of a cluster that have loaded the search, used instead of `nj` processes.
        made_by: Digest of the model and its options, on which results depend besides data and conditions. Utterances
            that a stopped call with the same digest has decoded are not decoded again. With None all are decoded.

    Returns:
        Results sorted by utterance, read from a temporary file that is deleted together with them.

    Raises:
        DataError: A table is malformed, an utterance has a missing or unknown condition, no utterance could be decoded,
            or another process decodes into the directory.
        UserError: Processes were killed again and again.
    """
    jobs = list_jobs(search, data_dir, conditions or {})
    with folder_lock(output_dir):
        folder = output_dir / UNFINISHED
        folder.mkdir(exist_ok=True)
        key = os.urandom(32).hex() if made_by is None else _digest(made_by, data_dir, conditions or {})
        with closing(Journal(folder / "journal", key)) as journal:
            failures = _decode(search, jobs, journal, nj, pool)
        done = Mapped(journal.table(), Result.from_json)
        if done:
            results = Joined([done, {utterance: Result(utterance, failure=why) for utterance, why in failures.items()}])
            numbers = summary(results.values(), float(journal.note))
            staged = _empty(folder / "results")
            write_results(done, {**numbers, "device": search.device, **search.used}, staged, search.nbest > 1)
            write_json(staged / "failures.json", failures)
            replace_results(staged, output_dir)
        elif not (output_dir / "text").exists():
            write_json(output_dir / "failures.json", failures)
        shutil.rmtree(folder)
    lines = (f"{utterance} was not decoded: {failure}" for utterance, failure in failures.items())
    for one in alike_once(lines, listed="failures.json lists all"):
        log.warning("%s", one)
    if not done:
        utterance, failure = next(iter(failures.items()))
        raise DataError(f"{data_dir}: none of {len(jobs)} utterances could be decoded; first {utterance}: {failure}")
    print(line(numbers))
    return results.values()


def _digest(made_by: str, data_dir: Path, conditions: Mapping[str, str]) -> str:
    """Digest of all that results depend on; audio files count by their sizes, see `data.digests.digest`."""
    described = json.dumps([made_by, digest(data_dir), sorted(conditions.items())])
    return hashlib.sha256(described.encode()).hexdigest()


def _empty(folder: Path) -> Path:
    """The folder, created or emptied."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def _decode(
    search: Search | Description, jobs: Sequence[Job], journal: Journal, nj: int, pool: Pool | None
) -> dict[str, str]:
    """Add missing results of utterances to a journal; return the reasons why others have none, sorted by id.

    The note of the journal is the time that decoding took, in all calls, in seconds.
    """
    before, start = float(journal.note or 0), time.monotonic()
    count, failures = len(jobs) - len(journal), {}
    if journal:
        print(f"{len(journal)} of {len(jobs)} utterances were decoded by a call that was stopped; {count} are left")
    done = Mapped(journal.table(), Result.from_json)
    nj = min(nj, count) if search.device == "cpu" else 1
    if nj > 1 and not can_fork():
        log.warning("--nj %d: a process cannot share its model on this system; this one decodes alone", nj)
        nj = 1
    batches = _results(search, _with_results(jobs, done.values()), nj, pool)

    def recorded() -> Iterator[Result]:
        for results in batches:
            rows = [(result.utterance, result.to_json()) for result in results if result.failure is None]
            journal.add(rows, str(before + time.monotonic() - start))
            yield from results

    for result in progress(recorded(), "decode", count, "utterance"):
        if result.failure is not None:
            failures[result.utterance] = result.failure
    return dict(sorted(failures.items()))


def _with_results(jobs: Iterable[Job], done: Iterable[Result]) -> Iterator[Job | Result]:
    """Jobs, or their results where there are any; both are sorted by utterance."""
    results = iter(done)
    result = next(results, None)
    for job in jobs:
        if result is not None and result.utterance == job.utterance:
            yield result
            result = next(results, None)
        else:
            yield job


def list_jobs(search: Search | Description, data_dir: Path, conditions: Mapping[str, str]) -> Sequence[Job]:
    """List the utterances of a data directory: the rows of its segments, or else of the table of the inputs.

    Args:
        search: Search with a loaded model.
        data_dir: See `decode`.
        conditions: Values by condition that hold for all utterances, instead of the tables.

    Raises:
        DataError: A table is missing or malformed, a segment has an unknown recording, or an utterance has a missing or
            unknown condition.
    """
    sources, faults = _entries(data_dir / search.table)
    table = data_dir / "segments"
    if search.table != "wav.scp" or not table.exists():
        indices = condition_indices(search.conditions, data_dir, sources, conditions)
        return _Jobs(sources, lambda name, source: Job(name, source, None, indices[name], faults.get(name, "")))
    segments, wrong = _entries(table)
    strange = [
        Fault(str(table), utterance, "its recording is not in wav.scp")
        for utterance, value in segments.items()
        if parse_segment(value).recording not in sources and utterance not in wrong
    ]
    refuse(strange)
    indices = condition_indices(search.conditions, data_dir, segments, conditions)

    def job(name: str, value: str) -> Job:
        part = parse_segment(value)
        fault = wrong.get(name) or faults.get(part.recording, "")
        return Job(name, sources.get(part.recording, ""), part, indices[name], fault)

    return _Jobs(segments, job)


class _Jobs(Sequence[Job]):
    """A job for each row of a table, made on access."""

    def __init__(self, table: PackedTable, make: Callable[[str, str], Job]):
        self.table, self.make = table, make

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, index: int) -> Job: ...

    @overload
    def __getitem__(self, index: slice) -> list[Job]: ...

    def __getitem__(self, index: int | slice) -> Job | list[Job]:
        rows = range(len(self))[index]
        return self.make(*self.table.pair(rows)) if isinstance(rows, int) else [self[row] for row in rows]

    def __iter__(self) -> Iterator[Job]:
        return (self.make(name, value) for name, value in self.table.items())


def _entries(path: Path) -> tuple[PackedTable, dict[str, str]]:
    """The entries of a table, and the faults of some of them; a fault of the whole file is an error."""
    table, faults = scan_packed(path)
    refuse([fault for fault in faults if fault.where is None])
    if not faults:
        return table, {}
    row_reasons = {key: entry_faults(path.name, key, value) for key, value in table.items()}
    wrong = {key: "; ".join(reasons) for key, reasons in row_reasons.items() if reasons}
    reasons = {reason for several in row_reasons.values() for reason in several}  # of utterances, reported as failures
    for one in alike_once(str(fault) for fault in faults if fault.what not in reasons):
        log.warning("%s", one)
    return table, wrong


def _results(
    search: Search | Description, jobs: Iterable[Job | Result], nj: int, pool: Pool | None
) -> Iterator[list[Result]]:
    """Results of the utterances that have none yet, in groups: a batch, and failures to read utterances before it."""
    failed: list[Result] = []
    if pool is not None:
        decoded = decode_on_cluster(pool, search, jobs, failed)
    else:
        batches = batches_of(readable(search, jobs, failed), search)
        decoded = map(partial(decode_batch, search), batches) if nj <= 1 else decode_in_processes(search, batches, nj)
    for results in decoded:
        yield [*results, *failed]
        failed.clear()
    yield failed
