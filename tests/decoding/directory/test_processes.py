"""Decoding in several processes, also when they are killed or interrupted."""

import os
import queue
import signal
import threading
import time
from functools import partial
from multiprocessing import active_children
from types import SimpleNamespace

import numpy as np
import pytest
from references.numbered import Numbered, numbered, read

from espnet_diverse.decoding.directory import processes
from espnet_diverse.decoding.directory.decode_dir import UNFINISHED, decode
from espnet_diverse.decoding.directory.utterances import Job, Read
from espnet_diverse.decoding.prediction import Text
from espnet_diverse.errors import UserError


@pytest.mark.parametrize("nj", [1, 2])
def test_the_search_is_not_kept_in_the_main_process(tmp_path, nj):
    before = {*vars(processes)}
    decode(Numbered(), numbered(tmp_path / "data", [9, 8, 7]), tmp_path / "out", nj=nj)
    assert vars(processes).keys() == before and not hasattr(processes._Worker, "search")


def test_a_process_decodes_with_one_thread_and_ends_with_its_parent(monkeypatch, request):
    parent, ended, threads = threading.Event(), queue.Queue(), []
    monkeypatch.setattr(processes._Worker, "search", None, raising=False)
    monkeypatch.setattr(processes, "parent_process", lambda: SimpleNamespace(join=parent.wait))
    monkeypatch.setattr(os, "_exit", ended.put)
    monkeypatch.setattr("torch.set_num_threads", threads.append)
    request.addfinalizer(partial(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT)))
    processes._Worker.start(Texts())
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN and threads == [1]
    job = Job("u1", "3", None, {})
    (result,) = processes._Worker.decode([Read(job, np.zeros(3), 1.0)])
    assert (result.utterance, result.text) == ("u1", "3 frames") and ended.empty()
    parent.set()
    assert ended.get(timeout=30) == 1


class Texts(Numbered):
    """A search that says how many frames there are."""

    def batch(self, sources, conditions):
        return [[Text(f"{len(source)} frames", [], -1.0)] for source in sources]


class Killed(Numbered):
    """A search that is killed at utterances of 7 frames: as often as files are in `folder`, each of which it takes."""

    def __init__(self, folder):
        self.folder = folder

    def batch(self, sources, conditions):
        if 7 in map(len, sources) and (left := list(self.folder.iterdir())):
            left[0].unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        handler = signal.getsignal(signal.SIGINT)
        return [[Text(f"{len(source)} {handler == signal.SIG_IGN}", [], -1.0)] for source in sources]


def test_batches_of_a_killed_process_are_decoded_by_another(tmp_path, caplog):
    folder = tmp_path / "left"
    folder.mkdir()
    data_dir = numbered(tmp_path / "data", range(1, 120))
    for name in ("a", "b"):
        (folder / name).touch()
        decode(Killed(folder), data_dir, tmp_path / name, nj=3)
        assert list(read(tmp_path / name / "text").values()) == [f"{frames} True" for frames in range(1, 120)]
    assert caplog.text.count("a process of --nj 3 was killed, perhaps because memory ran out; ") == 2
    assert "batches are tried again" in caplog.text


def test_processes_that_are_killed_again_and_again_are_an_error(tmp_path):
    folder = tmp_path / "left"
    folder.mkdir()
    for name in range(20):
        (folder / str(name)).touch()
    said = "a process of --nj 2 was killed, .* and another one when u006 and later ones were tried again; "
    said += "run the same command again with a smaller --nj or --batch_size"
    with pytest.raises(UserError, match=said):
        decode(Killed(folder), numbered(tmp_path / "data", [1, 2, 3, 4, 5, 6, 7]), tmp_path / "out", nj=2)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [UNFINISHED] and not active_children()


class Slow(Numbered):
    """A search that takes minutes."""

    def batch(self, sources, conditions):
        time.sleep(300)


def test_an_interrupt_ends_the_processes(tmp_path, request):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        decode(Slow(), numbered(tmp_path / "data", [1, 2, 3, 4, 5, 6, 7]), tmp_path / "out", nj=2)
    assert time.monotonic() - begin < 100 and not active_children()
