"""Decoding that is stopped and resumed: finished batches are kept, and results are replaced by complete ones."""

import json
import os
import random
import shutil
import signal
import socket
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from references.numbered import Numbered, numbered

from espnet_diverse.data.output_paths import check_no_data
from espnet_diverse.decoding.directory.decode_dir import decode
from espnet_diverse.decoding.directory.results import FILES
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.prediction import Text
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.errors import DataError, UserError

FORK = get_context("fork")


class Counting(Numbered):
    """A search that finds the number of frames of each utterance, and logs its batches to a file.

    Args:
        log: The file; a line for each batch.
        stop_at: Number of frames of an utterance at which the process is killed, or that raises an interrupt.
    """

    batch_frames = 10_000

    def __init__(self, log, batch_size=3, seconds=0.0, stop_at=None, stop=lambda: os.kill(os.getpid(), signal.SIGKILL)):
        self.log, self.batch_size, self.seconds, self.stop_at, self.stop = log, batch_size, seconds, stop_at, stop

    def batch(self, sources, conditions):
        lengths = [len(source) for source in sources]
        if self.stop_at in lengths:
            self.stop()
        with self.log.open("a") as file:
            file.write(" ".join(map(str, lengths)) + "\n")
        time.sleep(self.seconds)
        return [[Text(f"{len(source)}", ["t"], -0.01 * sum(lengths))] for source in sources]


def asked(log):
    """Numbers of frames that a search was asked for, and of which the log is emptied."""
    lengths = [int(length) for length in log.read_text().split()] if log.exists() else []
    log.unlink(missing_ok=True)
    return lengths


def interrupt():
    raise KeyboardInterrupt


def files(folder):
    """Contents of the results in a folder, decode.json without its measurements."""
    found = {name: (folder / name).read_text() for name in FILES if (folder / name).exists()}
    numbers = json.loads(found.pop("decode.json", "{}"))
    return found | {name: number for name, number in numbers.items() if "_" not in name}


@pytest.fixture
def data_dir(tmp_path):
    """150 utterances of 1 to 150 frames in no order, and some that cannot be read."""
    frames = list(np.random.default_rng(0).permutation(np.arange(1, 151)))
    return numbered(tmp_path / "data", [*frames[:60], "gone", *frames[60:], "lost"])


@pytest.fixture
def whole(data_dir, tmp_path):
    """The results of a call that was not stopped."""
    decode(Counting(tmp_path / "log"), data_dir, tmp_path / "whole", made_by="a")
    assert sorted(asked(tmp_path / "log")) == list(range(1, 151))
    assert set(files(tmp_path / "whole")) >= {"text", "score", "failures.json", "utterances", "device"}
    assert {path.name for path in (tmp_path / "whole").iterdir()} == {*FILES} - {"nbest.jsonl"}
    return files(tmp_path / "whole")


@pytest.mark.parametrize("nj", [1, pytest.param(2, marks=pytest.mark.recipes)])
def test_a_call_killed_repeatedly_resumes_with_the_same_results(data_dir, whole, tmp_path, nj):
    chance, out, log, done = random.Random(nj), tmp_path / "out", tmp_path / "log", set()
    while len(done) < 60:  # at most 12 of 150 each time
        process = FORK.Process(target=decode, args=(Counting(log, seconds=0.1), data_dir, out, nj, None, None, "a"))
        process.start()
        wait_for(log)
        time.sleep(chance.uniform(0.1, 0.3))
        kill(process)
        assert not done & set(asked(log)) and not (out / "text").exists()
        done = set(kept(out))
    decode(Counting(log), data_dir, out, nj, made_by="a")
    assert sorted(asked(log)) == sorted(set(range(1, 151)) - done) and files(out) == whole
    decode(Counting(log), data_dir, out, made_by="a")
    assert len(asked(log)) == 150  # a call after a complete one begins again


def wait_for(log):
    """Wait until a search has been asked for something, however busy the machine is."""
    end = time.monotonic() + 60
    while not log.exists():
        assert time.monotonic() < end
        time.sleep(0.01)


def kept(folder):
    """Numbers of frames of the utterances that the next call need not decode."""
    rows = [line.partition(" ")[2] for path in folder.rglob("journal") for line in path.read_text().splitlines()]
    return [int(json.loads(row)[1]) for row in rows if row.startswith("[")]


def kill(process):
    """Kill a process, and wait until its children have ended by themselves; their number."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.join()
    end = time.monotonic() + 60
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < end
        time.sleep(0.02)
    return len(children)


def test_the_processes_of_a_killed_call_end(data_dir, tmp_path):
    process = FORK.Process(target=decode, args=(Counting(tmp_path / "log", seconds=60), data_dir, tmp_path / "out", 2))
    process.start()
    wait_for(tmp_path / "log")
    begin = time.monotonic()
    assert kill(process) == 2 and time.monotonic() - begin < 30


def test_scores_of_a_model_match_a_call_that_was_not_stopped(tiny_run, tmp_path, monkeypatch, any_sums):
    search = load_predictor(tiny_run.model_dir, options=SearchOptions(beam_size=3, ctc_weight=0.4, batch_size=2))
    data_dir, batch = tmp_path / "data", search.batch
    shutil.copytree(tiny_run.train_dir, data_dir)
    with (data_dir / "wav.scp").open("a") as table:
        table.write("train-03-gone /no/such.wav\n")
    decode(search, data_dir, tmp_path / "whole", made_by="a")
    for number in range(6):
        batches = []

        def stopping(sources, *rest, number=number, batches=batches):
            batches.append(sources)
            return interrupt() if len(batches) > number else batch(sources, *rest)

        monkeypatch.setattr(search, "batch", stopping)
        with pytest.raises(KeyboardInterrupt):
            decode(search, data_dir, tmp_path / f"{number}", made_by="a")
        batches.clear()
        monkeypatch.setattr(search, "batch", lambda *given, batches=batches: batches.append(given) or batch(*given))
        decode(search, data_dir, tmp_path / f"{number}", made_by="a")
        assert len(batches) == 6 - number and files(tmp_path / f"{number}") == files(tmp_path / "whole")


@pytest.mark.parametrize("changed", ["model or options", "conditions", "data", "none is known"])
def test_nothing_of_another_model_or_of_other_options_or_data_is_taken(data_dir, tmp_path, changed):
    out, log = tmp_path / "out", tmp_path / "log"
    made_by = None if changed == "none is known" else "a"
    with pytest.raises(KeyboardInterrupt):
        decode(Counting(log, stop_at=7, stop=interrupt), data_dir, out, made_by=made_by)
    assert 0 < len(asked(log)) < 150 and kept(out)
    if changed == "data":
        (data_dir / "wav.scp").write_text((data_dir / "wav.scp").read_text() + "u999 151\n")
    conditions = {"lang": "de"} if changed == "conditions" else {}
    decode(Counting(log), data_dir, out, 1, conditions, made_by="b" if changed == "model or options" else made_by)
    assert len(asked(log)) == 151 if changed == "data" else 150
    assert {path.name for path in out.iterdir()} == {*FILES} - {"nbest.jsonl"}


def test_earlier_results_stand_until_there_are_new_ones(data_dir, whole, tmp_path, monkeypatch):
    out, log, replace = tmp_path / "whole", tmp_path / "log", Path.replace
    (out / "nbest.jsonl").write_text("of a call with --nbest 2")
    before = files(out)
    with pytest.raises(KeyboardInterrupt):
        decode(Counting(log, stop_at=7, stop=interrupt), data_dir, out, made_by="b")
    assert files(out) == before
    for name in ("gone", "text", "decode.json"):  # nothing can be decoded, or there is no room for results

        def refuse(path, target, name=name):
            return interrupt() if Path(target).name == name else replace(path, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", refuse)
            if name == "gone":
                with pytest.raises(DataError, match="none of 1 utterances could be decoded; first u000: gone: no such"):
                    decode(Counting(log), numbered(tmp_path / "bad", ["gone"]), out, made_by="b")
            else:
                with pytest.raises(KeyboardInterrupt):
                    decode(Counting(log), data_dir, out, made_by="b")
        assert name == "decode.json" or files(out) == before
    asked(log)
    decode(Counting(log), data_dir, out, made_by="b")
    assert asked(log) == [] and files(out) == whole  # all was decoded when the last files were to take their place


@pytest.mark.parametrize("name", FILES)
def test_a_stop_while_results_take_their_place_is_made_good(data_dir, whole, tmp_path, monkeypatch, name):
    """The command takes the folder for hypotheses; it refuses to write into a data directory."""
    out, replace, unlink = tmp_path / "out", Path.replace, Path.unlink

    def stopping(move):
        return lambda path, *given, **options: (
            interrupt() if (given[0] if given else path) == out / name else move(path, *given, **options)
        )

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "replace", stopping(replace))
        patch.setattr(Path, "unlink", stopping(unlink))
        decode(Counting(tmp_path / "log"), data_dir, out, made_by="a")
    check_no_data(out)
    asked(tmp_path / "log")
    decode(Counting(tmp_path / "log"), data_dir, out, made_by="a")
    assert asked(tmp_path / "log") == [] and files(out) == whole


def test_processes_that_are_killed_again_and_again_lose_nothing_that_was_done(data_dir, whole, tmp_path):
    out, log = tmp_path / "out", tmp_path / "log"
    for _ in range(2):
        with pytest.raises(UserError, match="u0.. and later ones .*run the same command again .*--batch_size"):
            decode(Counting(log, stop_at=7), data_dir, out, nj=2, made_by="a")
    done = set(kept(out))
    assert 10 < len(done) < 150
    asked(log)
    decode(Counting(log, batch_size=2), data_dir, out, made_by="a")
    assert sorted(asked(log)) == sorted(set(range(1, 151)) - done) and files(out)["text"] == whole["text"]


def test_of_two_calls_in_one_folder_one_is_refused_and_the_other_right(data_dir, whole, tmp_path):
    def call(barrier, said):  # the one that writes waits until the other has been refused
        search = Counting(tmp_path / "log", stop_at=7, stop=lambda: refused.wait(50))
        barrier.wait()
        try:
            decode(search, data_dir, tmp_path / "out", made_by="a")
        except DataError as error:
            refused.set()
            said.put((os.getpid(), str(error)))
        else:
            said.put((os.getpid(), None))

    barrier, said, refused = FORK.Barrier(2), FORK.Queue(), FORK.Event()
    processes = [FORK.Process(target=call, args=(barrier, said)) for _ in range(2)]
    for process in processes:
        process.start()
    answers = dict(said.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    ((loser, why),) = ((process, error) for process, error in answers.items() if error is not None)
    (other,) = answers.keys() - {loser}
    assert f"{tmp_path / 'out'}: process {other} on {socket.gethostname()} writes here now" in why
    assert files(tmp_path / "out") == whole and len(asked(tmp_path / "log")) == 150
