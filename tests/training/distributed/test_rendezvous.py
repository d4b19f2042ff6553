"""The meeting of processes that train together: who can reach it, and the fate of a stranger's messages."""

import base64
import json
import multiprocessing
import os
import pickle
import signal
import socket
from dataclasses import replace
from ipaddress import ip_address
from itertools import chain
from pathlib import Path

import pytest
import torch
from references.train_command import train
from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.api import RendezvousConnectionError, RendezvousStateError
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler
from torch.distributed.launcher.api import elastic_launch

from espnet_diverse.errors import TrainingError
from espnet_diverse.training.distributed import elastic, rendezvous
from espnet_diverse.training.distributed.processes import Processes
from espnet_diverse.training.distributed.rendezvous import KEY, group_at
from espnet_diverse.training.distributed.run import run

STATE = "torch.rendezvous.espnet_diverse"  # name in the store of the state that PyTorch's launches unpickle
LISTENING = "0A"  # state of a socket in /proc/net/tcp


def listening(processes):
    """Addresses on which `processes` listen, by the inodes of their sockets, each with its port."""
    links = [file.readlink() for pid in processes for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()]
    inodes = {str(link)[len("socket:[") : -1] for link in links if str(link).startswith("socket:[")}
    tables = (Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6"))
    rows = (line.split() for line in chain(*tables))
    return [address(row[1]) for row in rows if row[3] == LISTENING and row[9] in inodes]


def address(text):
    """An address and port as /proc/net/tcp and tcp6 have them: words of 32 bits in the order of bytes of the CPU."""
    words, port = text.split(":")
    octets = b"".join(bytes.fromhex(words[at : at + 8])[::-1] for at in range(0, len(words), 8))
    return str(ip_address(octets)), int(port, 16)


def is_loopback(host):
    host = ip_address(host)
    return (getattr(host, "ipv4_mapped", None) or host).is_loopback


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.usefixtures("forks")
def test_processes_of_one_machine_listen_on_loopback_alone(tiny_run, tmp_path, after, monkeypatch):
    """Process 1 looks, in the middle of the training; gloo has sockets in both processes."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "of several machines")  # as sites set it

    def look():
        launch = os.getppid()
        own = listening([os.getpid()])
        every = listening([launch, *children(launch)])
        (tmp_path / "seen").write_text(json.dumps({"own": own, "every": every}))

    after(3, look)
    assert train(tiny_run, tmp_path / "exp", "max_epoch=1", "batch_size=2", nproc=2) == 0
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen["own"] and len(seen["every"]) > len(seen["own"])  # so that it sees those of others
    assert [host for host, _ in seen["every"] if not is_loopback(host)] == []


@pytest.fixture
def endpoint():
    """A free port of loopback, which stands for that of machine 0."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def launch_of(machine, endpoint, folder):
    """The settings of PyTorch's launch on one of two machines with a process each."""
    processes = Processes(num_nodes=2, node_rank=machine, rdzv_endpoint=endpoint, max_restarts=1)
    return elastic._launch(processes, folder, folder)


def handler_of(*launch):
    """The handler with which PyTorch's launch meets the other machines."""
    config = launch_of(*launch)
    parameters = RendezvousParameters(config.rdzv_backend, config.rdzv_endpoint, config.run_id, 2, 2)
    parameters.config.update(config.rdzv_configs)
    return get_rendezvous_handler(parameters)


class Hostile:
    """Its pickle makes a folder when it is read."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_unsigned_state_is_not_unpickled(tmp_path, endpoint):
    handler = handler_of(0, endpoint, tmp_path)
    assert handler.num_nodes_waiting() == 0
    stranger = TCPStore("127.0.0.1", int(endpoint.rpartition(":")[2]))
    assert STATE in stranger.list_keys()  # so that a random name of it would be no secret
    stranger.set(STATE, base64.b64encode(pickle.dumps(Hostile(tmp_path / "executed"))).decode())
    with pytest.raises(RendezvousStateError, match="no machine of this training has signed"):
        handler_of(1, endpoint, tmp_path).num_nodes_waiting()
    assert not (tmp_path / "executed").exists()
    plain = get_rendezvous_handler(RendezvousParameters("c10d", endpoint, "espnet_diverse", 2, 2, is_host=False))
    with pytest.raises(AttributeError):  # PyTorch's own expects another object than it has got
        plain.num_nodes_waiting()
    assert (tmp_path / "executed").exists()


def test_unsigned_state_ends_training_with_one_line(tmp_path, monkeypatch):
    def hit(*args):
        raise RendezvousStateError("it is not signed")

    monkeypatch.setattr(elastic, "elastic_launch", lambda config, entry: hit)
    with pytest.raises(TrainingError, match="^--rdzv_endpoint a:1: it is not signed$"):
        run("mt", {"output_dir": str(tmp_path)}, Processes(num_nodes=2, rdzv_endpoint="a:1"))


def test_machine_0_listens_on_the_address_that_is_named_and_its_owner_alone_reads_the_key(tmp_path, endpoint):
    handler = handler_of(0, endpoint, tmp_path)
    host, port = endpoint.split(":")
    assert (host, int(port)) in (there := listening([os.getpid()]))
    assert [other for other, used in there if used == int(port)] == [host] and handler.get_backend() == "espnet_diverse"
    assert (tmp_path / KEY).stat().st_mode & 0o777 == 0o600
    other = handler_of(1, endpoint, tmp_path)
    assert other.num_nodes_waiting() == 0


def test_machines_that_do_not_see_the_same_folder_are_told(tmp_path, endpoint, monkeypatch):
    monkeypatch.setattr(rendezvous, "_KEY_SECONDS", 1)
    _handler = handler_of(0, endpoint, tmp_path)
    (other := tmp_path / "other").mkdir()
    for there in (False, True):
        if there:
            (other / KEY).write_bytes(b"of another run")
        with pytest.raises(RendezvousConnectionError, match=f"{other / KEY} is not the file of machine 0; give all"):
            handler_of(1, endpoint, other)


def test_a_name_that_leads_to_this_machine_alone_is_refused(tmp_path, monkeypatch):
    """As in the /etc/hosts of Debian."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.1.1", 29400))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(RendezvousConnectionError, match="^node1 is 127.0.1.1 on machine 0, which no other machine can"):
        handler_of(0, "node1:29400", tmp_path)


def add_up(endpoint):
    """Add up ones over all processes; process 1 kills itself at the first start, when it has met the others."""
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    group = group_at(endpoint)(distributed=True, dist_backend="gloo", dist_world_size=count, dist_rank=rank)
    group.init_torch_distributed()
    if rank and not (killed := Path(os.environ["KILLED"])).exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    torch.distributed.all_reduce(total := torch.ones(1))
    return int(total)


def start_machine(machine, endpoint, folder):
    found = elastic_launch(replace(launch_of(machine, endpoint, folder), start_method="fork"), add_up)(endpoint)
    (folder / str(machine)).write_text(str(list(found.values())))


@pytest.mark.recipes
def test_machines_meet_at_one_port_and_again_after_a_kill(tmp_path, endpoint, monkeypatch):
    monkeypatch.setenv("KILLED", str(tmp_path / "killed"))
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")  # as `elastic.launch` does
    fork = multiprocessing.get_context("fork")
    machines = [fork.Process(target=start_machine, args=[number, endpoint, tmp_path]) for number in range(2)]
    for machine in machines:
        machine.start()
    for machine in machines:
        machine.join()
    assert (tmp_path / "killed").exists()
    assert [(tmp_path / str(number)).read_text() for number in range(2)] == ["[2]", "[2]"]
