"""Jobs of preparing audio that can be sent to workers; what they write is tested in test_formatting.py."""

import pickle
import re

import pytest
from references import bad_audio, lying_headers

from espnet_diverse.audio.segments import Segment
from espnet_diverse.data.checks.validate import find_faults
from espnet_diverse.data.faults import FaultsError
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.writing.format_audio import AudioFormat, Job, Outcome, Spoken, all_lost, prefix
from espnet_diverse.data.writing.format_options import FormatOptions
from espnet_diverse.data.writing.formatting import format_data
from espnet_diverse.errors import ClusterError, DataError


@pytest.fixture
def job(tmp_path, write_wav):
    path = write_wav(tmp_path / "a.wav", rate=8000)
    return Job(
        None, [(str(path), [Spoken("a", "speaker", "words", None)]), ("/gone.wav", [Spoken("b", "b", "x", None)])]
    )


@pytest.mark.parametrize("times", [1, 2])
def test_a_job_that_was_sent_can_be_done_again(tmp_path, job, times):
    (staging := tmp_path / ".set").mkdir()
    audio_format = AudioFormat(FormatOptions((0.9, 1.0)), (0.9, 1.0), staging, tmp_path / "set")
    for _ in range(times):
        first, second = audio_format(job)
    assert pickle.dumps((audio_format, job, first, second))
    assert [kept.utterance for kept in first.kept] == ["sp0.9-a", "a"] and first.converted == "8000 Hz"
    assert first.kept[1].path == str(tmp_path / "set" / "wav" / "speaker" / "a.wav")
    assert sorted(path.name for path in staging.rglob("*.wav")) == ["a.wav", "sp0.9-a.wav"]
    assert second == Outcome("b", fault="/gone.wav: no such audio file; correct the path or get the file")


def test_an_utterance_dropped_for_its_length_is_not_converted(tmp_path, job):
    outcome, _ = AudioFormat(FormatOptions(max_seconds=0.2), (0.9, 1.0), tmp_path, tmp_path / "set")(job)
    assert set(outcome.dropped) == {"sp0.9-a", "a"} and outcome.converted == ""


def test_a_machine_without_the_folder_stops_the_command(tmp_path, job):
    audio_format = AudioFormat(FormatOptions(), (1.0,), tmp_path / ".set", tmp_path / "set")
    with pytest.raises(DataError, match="set: is not on this machine; write to a folder that all machines share$"):
        audio_format(job)
    assert not (tmp_path / ".set").exists()


def test_a_job_that_kills_its_workers_is_a_fault_of_its_utterances(job):
    error = ClusterError("its worker was killed 6 times")
    assert all_lost(job, error) == [Outcome(name, fault=str(error)) for name in ("a", "b")]


def test_other_speeds_have_other_ids():
    assert [prefix(speed) for speed in (1.0, 0.9, 1.1)] == ["", "sp0.9-", "sp1.1-"]


WAYS = ({}, {"rate": 8000}, {"audio_format": "flac"}, {"audio_format": "ark"}, {"speeds": (0.9, 1.0, 1.1)})


AFTER_THE_SEGMENT = ("NaN at the end", "mp3 truncated")  # what is wrong there does not enter an utterance
BAD = bad_audio.KINDS | lying_headers.KINDS


@pytest.mark.parametrize("kind", BAD)
def test_a_recording_that_validate_refuses_is_refused_in_every_way_of_preparing(kind, tmp_path):
    """Once it is written again, nothing shows that half of the samples were left out."""
    entry = BAD[kind](tmp_path / "x")
    path = entry if kind in lying_headers.KINDS else str(tmp_path / "x")
    sets = [DataDir({"a": path}, {"a": "word"}, {"a": "s"})]
    (fault,) = (fault.what for fault in find_faults(sets[0]) if fault.kind == "audio")
    assert kind in bad_audio.KINDS or "its header leaves out " in fault
    if kind not in AFTER_THE_SEGMENT:
        sets.append(DataDir({"r": path}, {"a": "word"}, {"a": "s"}, {"a": Segment("r", 0.0, 0.4)}))
    for options in WAYS:
        for data in sets:
            with pytest.raises(FaultsError) as caught:
                format_data({"train": data}, tmp_path / "out", FormatOptions(**options))
            assert [_uncounted(each.what) for each in caught.value.faults] == [_uncounted(fault)], options


def _uncounted(fault):
    """A fault without the number of samples that were read, of a recording or of a segment of it."""
    return re.sub(r"of \d+ samples", "of samples", fault)
