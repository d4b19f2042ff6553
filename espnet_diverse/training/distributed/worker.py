"""One process of several that train. Nothing heavy is imported before `fast_start`, so that a process starts fast."""

import json
import logging
import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path

from espnet_diverse import errors as general
from espnet_diverse.cpu.allocator import IN_TRAINING, keep_freed_memory
from espnet_diverse.errors import UserError
from espnet_diverse.registration import fast_start


def work(task: str, config: Mapping, errors: str, place: Path | str) -> None:
    """Train in this process; its rank is in the environment. Only rank 0 writes on the console.

    Args:
        task: Name of the task, a key of `TASKS`.
        config: The configuration of ESPnet's command.
        errors: Folder for the errors of users. A process ends at once if there is one, because it would fail again.
        place: Where the processes that are started together meet, see `rendezvous.group_at`.
    """
    if any(Path(errors).iterdir()):
        sys.exit(1)
    keep_freed_memory(IN_TRAINING)
    # Data workers fork, as in a single process. Started as this process was, they would import all of ESPnet.
    multiprocessing.set_start_method("fork", force=True)
    fast_start()
    import torch

    from espnet_diverse.runs.logs import logged
    from espnet_diverse.training import espnet_command
    from espnet_diverse.training.distributed.rendezvous import group_at
    from espnet_diverse.training.loop.tasks import TASKS

    rank, restarts = int(os.environ["RANK"]), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if not config["ngpu"]:
        torch.set_num_threads(1)
    log = Path(config["output_dir"]) / ("train.log" if rank == 0 else f"train.process{rank}.log")
    with nullcontext() if rank == 0 else _printed_to(log), logged(log):
        if restarts:
            logging.warning("a process was lost; all start again after the last checkpoint (restart %d)", restarts)
        try:
            espnet_command.run(TASKS[task], config, group_at(place))
        except UserError as error:
            message = {"type": _general_type(error), "message": str(error)}
            (Path(errors) / str(rank)).write_text(json.dumps(message), encoding="utf-8")
            sys.exit(1)  # also where it was asked to end: the launch would wait for the result of a success
        except Exception:  # such as a lost connection, where the cause is another process
            logging.info("process %d failed", rank, exc_info=True)
            sys.exit(1)


def _general_type(error: UserError) -> str:
    """Name of the first class of an error that `espnet_diverse.errors` defines, by which the launch raises it again."""
    return next(kind.__name__ for kind in type(error).__mro__ if vars(general).get(kind.__name__) is kind)


@contextmanager
def _printed_to(path: Path) -> Iterator[None]:
    with path.open("a", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
        yield
