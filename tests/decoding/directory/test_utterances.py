"""Utterances of a data directory, read in batches that do not depend on unreadable ones."""

import logging

from references.numbered import Numbered

from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.directory.utterances import (
    Description,
    Job,
    Measured,
    batches_of,
    decode_batch,
    failure_of,
    readable,
)
from espnet_diverse.decoding.prediction import Text
from espnet_diverse.errors import ClusterError, DataError


class Search(Numbered):
    """It finds the number of frames."""

    batch_size = 2

    def batch(self, sources, conditions):
        return [[Text(str(len(source)), ["t"], -1.0)] for source in sources]


def jobs(*values):
    return [Job(f"u{number}", value, None, {}) for number, value in enumerate(values)]


def test_unreadable_utterances_do_not_change_the_batches():
    failed = []
    lengths = list(map(str, range(1, 50)))
    whole = list(batches_of(readable(Search(), jobs(*lengths), failed), Search()))
    assert failed == [] and [one.length for one in whole[0]] == [32, 31] and len(whole) == 25
    flawed = [value for length in lengths for value in (length, "gone")]
    others = list(batches_of(readable(Search(), jobs(*flawed), failed), Search()))
    assert [[one.length for one in batch] for batch in others] == [[one.length for one in batch] for batch in whole]
    assert len(failed) == 49 and {result.failure for result in failed} == {"gone: no such file"}


def test_lengths_alone_give_the_same_batches():
    lengths = [9, 40, 8, 60, 7, 33, 101]
    read = batches_of(readable(Search(), jobs(*map(str, lengths)), []), Search())
    description = Description("cpu", KnownConditions(), "wav.scp", 2, 100)
    measured = (Measured(job, int(job.source)) for job in jobs(*map(str, lengths)))
    assert [[one.job for one in batch] for batch in read] == [
        [one.job for one in batch] for batch in batches_of(measured, description)
    ]


def test_a_batch_gives_a_result_for_each_utterance():
    (batch,) = batches_of(readable(Search(), jobs("3", "5"), []), Search())
    assert [(one.utterance, one.text, one.seconds) for one in decode_batch(Search(), batch)] == [
        ("u1", "5", 5.0),
        ("u0", "3", 3.0),
    ]


def test_expected_failures_are_not_logged_and_others_are(caplog):
    (job,) = jobs("1")
    with caplog.at_level(logging.ERROR):
        assert failure_of(job, DataError("gone")).failure == "gone"
        assert failure_of(job, ClusterError("its worker was killed 6 times")).failure == "its worker was killed 6 times"
        assert caplog.text == ""
        assert failure_of(job, MemoryError("no room")).failure == "MemoryError: no room"
    assert "decoding u0 failed" in caplog.text
