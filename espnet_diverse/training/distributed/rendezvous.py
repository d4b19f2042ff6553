"""Rendezvous of the processes of a training, which assigns ranks and exchanges addresses.

The launches, one on each machine, share a state by PyTorch's dynamic rendezvous, which keeps it as a pickle in a store.
The processes that they start share their addresses in a store, too. On one machine both stores are files in a private
folder, and all sockets use the loopback interface. On several machines both are one TCPStore, at the address and port
that the user names. It has no authentication: whoever reaches the port can read and change its content. The launches
therefore sign their state with a key, a file in the folder of the run that only its owner can read, and unpickle
nothing else.
"""

import hashlib
import hmac
import os
import secrets
import socket
import time
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

import torch
from espnet2.train.distributed_utils import DistributedOption
from torch import distributed
from torch.distributed import FileStore, PrefixStore, Store, TCPStore
from torch.distributed.elastic.rendezvous.api import (
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousParameters,
    RendezvousStateError,
    rendezvous_handler_registry,
)
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousBackend, Token, create_handler

from espnet_diverse.untrusted.whole_files import read_bytes

KEY = ".machines.key"
"""File in the folder of a run on several machines: the key with which their launches sign."""

_BACKEND = "espnet_diverse"
_DAY = 86_400  # seconds between signs of life, each of which a file keeps; a single machine needs none
_START = timedelta(minutes=10)  # for all machines to be started
_KEY_SECONDS = 120  # until a file of machine 0 is seen; network file systems may take a minute
_SIGNATURE = hashlib.sha256().digest_size


def on_one_machine(folder: Path) -> dict:
    """The arguments of `LaunchConfig` for a single machine; `folder` is private and empty."""
    configs = {"store_type": "file", "keep_alive_interval": _DAY}
    local = "localhost"  # the name of this machine may lead nowhere
    return {
        "rdzv_backend": "c10d",
        "rdzv_endpoint": str(folder / "launch"),
        "rdzv_configs": configs,
        "local_addr": local,
    }


def on_several_machines(endpoint: str, is_first: bool, output_dir: Path) -> dict:
    """The arguments of `LaunchConfig` for several machines, which all see `output_dir`.

    Args:
        endpoint: Address and port of the first machine, as HOST:PORT.
        is_first: Whether this is the first machine.
        output_dir: Directory of the run.
    """
    configs = {"is_host": is_first, "key_file": str(output_dir / KEY)}
    return {"rdzv_backend": _BACKEND, "rdzv_endpoint": endpoint, "rdzv_configs": configs}


def group_at(place: Path | str) -> type[DistributedOption]:
    """Return a class that replaces ESPnet's and makes the group of the processes that train together.

    Args:
        place: Where they meet: the beginning of the path of a file on one machine, HOST:PORT on several.
    """

    class Group(DistributedOption):
        def init_torch_distributed(self) -> None:
            os.environ.setdefault("NCCL_BLOCKING_WAIT", "1")  # as ESPnet does
            store = _store_of_start(place, self.dist_world_size)
            distributed.init_process_group(
                self.dist_backend, store=store, world_size=self.dist_world_size, rank=self.dist_rank
            )
            if self.ngpu:
                torch.cuda.set_device(self.local_rank)

    return Group


def _store_of_start(place: Path | str, count: int) -> Store:
    """Return the store of the processes that were started together; a former start's has addresses of killed ones."""
    start = os.environ["MASTER_PORT"]  # PyTorch's launch draws it for each start; nothing listens there
    if isinstance(place, Path):
        loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
        os.environ.update(GLOO_SOCKET_IFNAME=loopback, NCCL_SOCKET_IFNAME=loopback)
        store: Store = FileStore(f"{place}.{start}", count)
    else:
        store = PrefixStore(f"start {start}", TCPStore(*_host_and_port(place)))
    store.set_timeout(distributed.constants.default_pg_timeout)
    return store


def _host_and_port(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port)


def _create(parameters: RendezvousParameters) -> RendezvousHandler:
    """Make the rendezvous of several machines.

    Raises:
        RendezvousConnectionError: The store cannot be opened or reached, or the machines do not see the same folder.
    """
    is_first = parameters.get_as_bool("is_host")
    try:
        store = _open_store(*_host_and_port(parameters.endpoint), is_first)
        key = _exchange_key(store, Path(parameters.get("key_file")), is_first)
    except (OSError, RuntimeError, ValueError) as error:  # PyTorch's errors of connections are RuntimeErrors
        raise RendezvousConnectionError(str(error)) from error
    return create_handler(store, _Signed(C10dRendezvousBackend(store, parameters.run_id), key), parameters)


rendezvous_handler_registry.register(_BACKEND, _create)


def _open_store(host: str, port: int, is_first: bool) -> TCPStore:
    """The store of all machines; the first one listens, on the address that `host` has and on no other."""
    if not is_first:
        return TCPStore(host, port, timeout=_START)
    family, *_, (address, *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    if ip_address(address).is_loopback and host not in ("localhost", address):
        raise ValueError(f"{host} is {address} on machine 0, which no other machine can reach")
    listener = socket.create_server((address, port), family=family).detach()  # the store closes it
    return TCPStore(host, port, is_master=True, timeout=_START, master_listen_fd=listener)


def _exchange_key(store: Store, file: Path, is_first: bool) -> bytes:
    """The key of this launch: written by the first machine, read by the others once it belongs to this launch."""
    if is_first:
        key = secrets.token_bytes()
        file.unlink(missing_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
            written.write(key)
        store.set("digest of key", hashlib.sha256(key).digest())
        return key
    expected = store.get("digest of key")
    for _ in range(_KEY_SECONDS):
        if file.is_file() and hashlib.sha256(key := read_bytes(file)).digest() == expected:
            return key
        time.sleep(1)
    raise ValueError(f"{file} is not the file of machine 0; give all machines the same folder")


class _Signed(RendezvousBackend):
    """A backend whose states are signed, because they are unpickled.

    Args:
        backend: The backend that stores the states.
        key: The key that all launches have.
    """

    def __init__(self, backend: RendezvousBackend, key: bytes):
        self._backend, self._key = backend, key

    @property
    def name(self) -> str:
        """Name of the backend."""
        return _BACKEND

    def get_state(self) -> tuple[bytes, Token] | None:
        """The state that is stored, with its token.

        Raises:
            RendezvousStateError: It is not signed with the key.
        """
        stored = self._backend.get_state()
        return stored and (self._checked(stored[0]), *stored[1:])

    def set_state(self, state: bytes, token: Token | None = None) -> tuple[bytes, Token, bool] | None:
        """Store a state if the present one has the token; the state that is stored then, its token, and success.

        Raises:
            RendezvousStateError: That state is not signed with the key.
        """
        stored = self._backend.set_state(self._signature(state) + state, token)
        return stored and (self._checked(stored[0]), *stored[1:])

    def _signature(self, state: bytes) -> bytes:
        return hmac.digest(self._key, state, "sha256")

    def _checked(self, signed: bytes) -> bytes:
        signature, state = signed[:_SIGNATURE], signed[_SIGNATURE:]
        if not hmac.compare_digest(signature, self._signature(state)):
            raise RendezvousStateError(
                "something that no machine of this training has signed was written there, and was not read; keep all "
                "others from this port, see docs/scale.md"
            )
        return state
