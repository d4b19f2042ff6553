"""Replacing global names of ESPnet's modules for the time of a command: all that are replaced are listed here.

ESPnet calls some functions and classes by a fixed global name and offers no method to override. Replacing the name
affects the whole process, so it is done around whole commands (training, loading a model), never in a forward pass.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, RLock
from types import ModuleType

REPLACED = {
    **dict.fromkeys(("ASRTask", "STTask", "MTTask", "LMTask"), "inference loads models by them: safely, and ours"),
    "ContextualBlockTransformerEncoder": "the streaming search accepts this encoder alone, and works with any other",
    "ESPnetSTModel": "the task of speech translation builds this class alone",
    "autocast": "models switch it off by this name for CUDA alone, while they extract features",
}
"""Names of ESPnet's modules that are replaced, and why."""

_LOCKS: dict[str, RLock] = {}
_MAKING_LOCKS = Lock()  # so that two threads cannot make two locks for one module


@contextmanager
def replaced_names(module: ModuleType, **values: object) -> Iterator[None]:
    """Replace global names of a module while the block runs.

    Blocks of one thread may nest. Blocks of several threads for the same module wait for each other; if they
    overlapped, the last to end would restore what another one had set. Nobody waits for a training: a second thread
    that trains is refused before, see `training/checkpoints/run_lock.py`.

    Args:
        module: The module of ESPnet.
        values: Value of each name.

    Raises:
        KeyError: A name is not in `REPLACED`, or the module has none of it.
    """
    if unknown := [name for name in values if name not in REPLACED]:
        raise KeyError(f"{unknown[0]} is not in REPLACED")
    with _MAKING_LOCKS:
        lock = _LOCKS.setdefault(module.__name__, RLock())
    with lock:
        names = vars(module)
        before = {name: names[name] for name in values}
        names.update(values)
        try:
            yield
        finally:
            names.update(before)
