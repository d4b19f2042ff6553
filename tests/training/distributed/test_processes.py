"""Training in several processes equals training in one, from shares of every batch and in spite of kills."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
import torch

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError
from espnet_diverse.training.distributed.processes import Processes

EXACT = [  # plain gradient descent without noise, so that the weights are sums of gradients; losses per token
    *("optim=sgd", "optim_conf={lr: 0.5}", "model_conf.length_normalized_loss=true"),
    *("frontend_conf.positional_dropout_rate=0", "encoder_conf.dropout_rate=0", "decoder_conf.dropout_rate=0"),
    *("encoder_conf.positional_dropout_rate=0", "decoder_conf.positional_dropout_rate=0"),
    *("encoder_conf.attention.noise_std=0", "decoder_conf.attention.noise_std=0"),
    *("decoder_conf.cross_attention.noise_std=0", "decoder_conf.cross_attention.core=sdma"),
]


@pytest.fixture(scope="module")
def command(tiny_translation, tmp_path_factory):
    """A function that returns a folder, and the command that trains the translation model of the tests in it."""
    run, root = tiny_translation, tmp_path_factory.mktemp("processes")

    def training(name, epochs, *options):
        settings = [word for setting in [*EXACT, f"max_epoch={epochs}"] for word in ("--set", setting)]
        paths = ["--stats_dir", str(run.stats_dir), "--output_dir", str(root / name)]
        return root / name, ["train", *run.config, *run.data(), *paths, *settings, *options]

    return training


@pytest.fixture(scope="module")
def one(command):
    """The folder of a run of three epochs in one process."""
    folder, training = command("one", 3)
    assert main(training) == 0
    return folder


def workers() -> list[int]:
    """Process ids of the processes that train, the oldest first."""
    children = [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    found = []
    for pid in children:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            found += [pid] if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes() else []
    return sorted(found)


def kill_once(after: Path) -> None:
    """Kill a process once the file `after` is there."""
    while not after.exists():
        time.sleep(0.01)
    os.kill(workers()[-1], signal.SIGKILL)


def kill_often(times: int, saved: Path, killed: list[int], ended: threading.Event) -> None:
    """Kill a process of each start: within 20 seconds, but soon after the first save, however fast the machine is."""
    random = Random(3)
    before_kill: list[int] = []  # the processes of the last start, of which one may still be there
    while len(killed) < times and not ended.is_set():
        started = [pid for pid in workers() if pid not in before_kill]
        if len(started) == 2:
            before, latest = last_change(saved), time.monotonic() + random.uniform(0, 20)
            while last_change(saved) == before and time.monotonic() < latest:
                time.sleep(0.02)
            if not ended.wait(random.uniform(0, 0.2)):
                with suppress(ProcessLookupError):
                    victim = random.choice(started)
                    os.kill(victim, signal.SIGKILL)
                    killed.append(victim)
                    before_kill = started
        time.sleep(0.05)


def last_change(path: Path) -> int:
    """When a file was changed; 0 if it is not there."""
    return path.stat().st_mtime_ns if path.exists() else 0


def close(folder, other, epoch):
    """Check that two runs have the same weights after an epoch, but for the order of sums."""
    ours, theirs = (torch.load(each / f"{epoch}epoch.pth") for each in (folder, other))
    for name, weight in theirs.items():
        torch.testing.assert_close(ours[name], weight, rtol=1e-5, atol=1e-6)
    count = "encoder.encoders.0.self_attn.core.updates.count"
    assert int(ours[count]) == int(theirs[count]) > 0


@pytest.mark.recipes
@pytest.mark.slow
def test_two_processes_match_one_even_if_one_is_killed(command, one):
    """The first epoch runs in one process, so that the run continues with another number of processes."""
    two, training = command("two", 1)
    assert main(training) == 0
    _, training = command("two", 3, "--nproc", "2", "--allow_changed", "max_epoch")
    killer = threading.Thread(target=kill_once, args=[two / "2epoch.pth"], daemon=True)
    killer.start()
    assert main(training) == 0
    killer.join()
    close(two, one, 3)
    log = (two / "train.log").read_text()
    assert log.count("training is resumed from") == 2 and log.count("2epoch results") == 1
    assert "(restart 1)" in log and (two / "train.process1.log").exists()


@pytest.mark.trust
@pytest.mark.timeout(1800)  # ten starts, of half a minute each on a busy machine
def test_ten_kills_lose_nothing(command):
    """Each start does a few of the 56 updates at most, for it is killed after its first save, if not before."""
    whole, training = command("whole", 8)
    assert main(training) == 0
    # Two restarts more than kills: on a busy machine two of nine such runs lost a start that was not killed.
    folder, training = command("killed", 8, "--nproc", "2", "--max_restarts", "12", "--set", "save_interval_steps=2")
    killed: list[int] = []
    ended = threading.Event()
    arguments = [10, folder / "checkpoint.pth", killed, ended]
    killer = threading.Thread(target=kill_often, args=arguments, daemon=True)
    killer.start()
    assert main(training) == 0
    ended.set()
    killer.join()
    close(folder, whole, 8)
    print(f"{len(killed)} kills at random, nothing lost")
    assert len(killed) == 10


@pytest.mark.trust
def test_more_processes_match_one(command):
    """With batches that have an utterance for each process, in all of the runs."""
    folders = []
    for count in (1, 3, 4):
        folder, training = command(f"of {count}", 3, "--nproc", str(count), "--set", "min_batch_size=4")
        assert main(training) == 0
        folders.append(folder)
    for folder in folders[1:]:
        close(folder, folders[0], 3)
    assert (folders[-1] / "train.process3.log").exists()


@pytest.mark.trust
def test_two_machines_match_one_process(command, one):
    """Both machines are this one; the second waits at the meeting point until the first has written the vocabulary."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        meeting = f"localhost:{free.getsockname()[1]}"
    machines, training = command("machines", 3, "--num_nodes", "2", "--rdzv_endpoint", meeting)
    with subprocess.Popen([sys.executable, "-m", "espnet_diverse", *training, "--node_rank", "1"]) as second:
        assert main(training) == 0
        assert second.wait() == 0
    close(machines, one, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ngpu": 99}, "--ngpu 99 is not possible"),
        ({"nproc": 0}, "nproc must be at least 1, but is 0"),
        ({"max_restarts": -1}, "max_restarts must be at least 0, but is -1"),
        ({"num_nodes": 2, "node_rank": 2, "rdzv_endpoint": "a:1"}, "node_rank must be below num_nodes 2, but is 2"),
        ({"num_nodes": 2}, "rdzv_endpoint must be HOST:PORT of machine 0, with a port from 1 to 65535, but is ''"),
        ({"num_nodes": 2, "rdzv_endpoint": "host:x"}, "but is 'host:x'"),
        ({"rdzv_endpoint": "host:99999"}, "a port from 1 to 65535, but is 'host:99999'"),
        ({"num_nodes": 2, "rdzv_endpoint": "host:0"}, "a port from 1 to 65535, but is 'host:0'"),
    ],
)
def test_numbers_of_processes_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ConfigError) as caught:
        Processes(**options)
    assert message in str(caught.value)


def test_gpus_have_one_process_each(monkeypatch):
    monkeypatch.setattr("espnet_diverse.training.espnet_command.check_gpus", lambda ngpu: None)
    with pytest.raises(ConfigError, match="nproc.* ngpu 2, which starts a process for each GPU"):
        Processes(ngpu=2, nproc=2)
