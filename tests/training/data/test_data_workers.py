"""Batches of a loader whose workers are killed: anywhere, with a lock in their hands, and with half a batch sent."""

import os
import signal
import socket
import struct
import sys
import threading
import time

import pytest
import torch
from references.killed_workers import killed as kill
from torch.utils.data import DataLoader
from torch.utils.data._utils import signal_handling
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from espnet_diverse.errors import TrainingError
from espnet_diverse.training.data import data_workers
from espnet_diverse.training.data.data_workers import LoaderBatches
from espnet_diverse.training.loop.epoch_batches import EpochBatches


class Noisy(torch.utils.data.Dataset):
    """Items with noise that workers draw; `fault` is called in the worker once, before item 6."""

    def __init__(self, fault=None, marker=None):
        self.fault, self.marker = fault, marker

    def __len__(self):
        return 12

    def __getitem__(self, index):
        if index == 6 and self.fault and not self.marker.exists():
            self.marker.touch()
            self.fault()
        return [f"u{index}"], {"x": torch.rand(1) + index}


def of_worker(name):
    """A variable of the loop that PyTorch runs in a worker."""
    frame = sys._getframe()
    while frame.f_code.co_name != "_worker_loop":
        frame = frame.f_back
    return frame.f_locals[name]


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def killed_with_the_lock():
    of_worker("done_event")._cond.acquire()
    killed()


def killed_with_half_a_batch_sent():
    queue = of_worker("data_queue")
    queue._wlock.acquire()
    queue._writer._send(struct.pack("!i", 100) + b"half")
    killed()


def collate(items):
    return [name for names, _ in items for name in names], {"x": torch.stack([batch["x"] for _, batch in items])}


def loader(dataset, workers=1):
    return DataLoader(dataset, batch_size=1, num_workers=workers, prefetch_factor=1, collate_fn=collate)


def read(loader, kill_at=(), start=0):
    """Values of the batches from `start` on; the worker is killed before the batches `kill_at` are read."""
    torch.manual_seed(0)
    found, to_kill = [], list(kill_at)
    batches = LoaderBatches(loader, "train epoch 1 of 1", start)
    for _, batch in batches:
        found.append(batch["x"].flatten())
        if batches.number in to_kill:
            to_kill.remove(batches.number)
            for child in torch.multiprocessing.active_children():
                os.kill(child.pid, signal.SIGKILL)
    return torch.cat(found)


@pytest.mark.parametrize("start", [0, 2])
def test_a_killed_worker_is_started_again_where_it_was(start, caplog):
    straight, after = read(loader(Noisy()), start=start), torch.rand(1)
    assert len(straight) == 12 - start
    again = read(loader(Noisy()), [4], start)
    assert torch.equal(again, straight) and torch.equal(torch.rand(1), after)
    assert caplog.text.count("a worker that reads data was killed; it is started again") == 1


@pytest.mark.timeout(60)  # a reader that waits for the killed worker would wait for ever
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("fault", [killed, killed_with_the_lock, killed_with_half_a_batch_sent])
def test_a_worker_may_be_killed_anywhere(fault, workers, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(_MultiProcessingDataLoaderIter._try_get_data, "__defaults__", (0.2,))  # PyTorch looks soon
    straight, after = read(loader(Noisy(), workers)), torch.rand(1)
    again = read(loader(Noisy(fault, tmp_path / "marker"), workers))
    assert torch.equal(again, straight) and torch.equal(torch.rand(1), after)
    assert caplog.text.count("a worker that reads data was killed; it is started again") == 1


def test_a_killed_worker_may_take_long_to_end_after_its_pipes_have_closed(caplog, monkeypatch):
    straight, cut = read(loader(Noisy())), []
    get = _MultiProcessingDataLoaderIter._try_get_data

    def cut_off(iterator, *args):
        if not cut:
            cut.append(threading.Timer(0.5, os.kill, (iterator._workers[0].pid, signal.SIGKILL)))
            cut[0].start()
            raise ConnectionResetError
        return get(iterator, *args)

    monkeypatch.setattr(_MultiProcessingDataLoaderIter, "_try_get_data", cut_off)
    assert torch.equal(read(loader(Noisy())), straight)
    assert caplog.text.count("a worker that reads data was killed; it is started again") == 1


def test_an_error_that_no_killed_worker_explains_stays(monkeypatch):
    def fail(*_):
        raise ConnectionResetError("of something else")

    monkeypatch.setattr(data_workers, "_END", 0.1)
    monkeypatch.setattr(_MultiProcessingDataLoaderIter, "_try_get_data", fail)
    with pytest.raises(ConnectionResetError, match="of something else"):
        read(loader(Noisy()))


@pytest.mark.timeout(60)
def test_another_worker_whose_batch_is_cut_off_prints_nothing(caplog, capfd, monkeypatch):
    straight = read(loader(Noisy(), 2))
    torch.manual_seed(0)
    batches, own, done = LoaderBatches(loader(Noisy(), 2), "train epoch 1 of 1"), os.getpid(), []
    detach, begin_again = socket.socket.detach, LoaderBatches._begin_again

    def killing(connection):
        """Kill the second worker where this process has just connected to the first one."""
        if os.getpid() == own and not done:
            done.append(True)
            kill(batches._workers[1].pid)
        return detach(connection)

    def late(*args):
        time.sleep(0.3)  # in which the first worker could print
        begin_again(*args)

    monkeypatch.setattr(socket.socket, "detach", killing)
    monkeypatch.setattr(LoaderBatches, "_begin_again", late)
    assert torch.equal(torch.cat([batch["x"].flatten() for _, batch in batches]), straight)
    assert caplog.text.count("a worker that reads data was killed; it is started again") == 1
    assert capfd.readouterr().err == ""


@pytest.mark.timeout(60)
def test_a_worker_that_is_killed_twice_ends_training():
    with pytest.raises(TrainingError, match="a worker that reads data was killed again; the machine may be out of mem"):
        read(loader(Noisy()), [2, 6])


@pytest.fixture
def signalled(monkeypatch):
    """The signals that a handler of the program has got, in a process whose first loader is still to come."""
    got = []
    monkeypatch.setattr(signal_handling, "_SIGCHLD_handler_set", False)
    before = signal.signal(signal.SIGCHLD, lambda number, _: got.append(number))
    yield got
    signal.signal(signal.SIGCHLD, before)


def test_the_handler_of_the_program_stays_and_is_told_of_workers_too(signalled, caplog):
    own = signal.getsignal(signal.SIGCHLD)
    read(loader(Noisy()), [4])
    assert signal.getsignal(signal.SIGCHLD) is own and set(signalled) == {signal.SIGCHLD}
    assert caplog.text.count("a worker that reads data was killed; it is started again") == 1


def test_the_handler_of_pytorch_is_set_aside_until_the_epoch_ends(signalled):
    own = signal.getsignal(signal.SIGCHLD)
    of_program = iter(loader(Noisy()))
    pytorchs = signal.getsignal(signal.SIGCHLD)
    assert pytorchs is not own
    with EpochBatches(loader(Noisy()), "train epoch 1 of 1") as batches:
        seen = [signal.getsignal(signal.SIGCHLD) for _ in batches.groups(1)]
    assert len(seen) == 12 and pytorchs not in seen
    assert signal.getsignal(signal.SIGCHLD) is pytorchs
    del of_program


def test_no_signal_handler_is_left():
    before = signal.getsignal(signal.SIGCHLD)
    read(loader(Noisy()))
    assert signal.getsignal(signal.SIGCHLD) == before
