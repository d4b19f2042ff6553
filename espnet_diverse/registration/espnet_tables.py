"""Registering our classes by name in the tables of ESPnet's tasks, ESPnet3's too, when the tasks are imported.

`import espnet_diverse` calls `register_on_import`, which imports nothing heavy. It changes those tables, and adds two
finders to `sys.meta_path`: one sees the import of ESPnet's tasks and sends what its attention prints to the log, the
other is `edit_distance`. Nothing else changes.

ESPnet has no hook for other packages, but imports torch, which calls the entry points of the group `torch.backends`
when it is imported. `setup.py` names `register_on_import` there, so that ESPnet's own programs know our names wherever
this package is installed; `TORCH_DEVICE_BACKEND_AUTOLOAD=0` turns it off.
"""

import io
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from functools import partial
from types import ModuleType

from espnet_diverse.registration import edit_distance
from espnet_diverse.registration.import_hooks import HookedLoader, ImportHooks

TASK_MODULES = {f"espnet2.tasks.{task}": task for task in ("asr", "st", "mt", "lm", "s2t", "s2t_ctc")}
TASK_MODULES["espnet3.systems.esp2_asr.task"] = "asr"  # ESPnet3's system of that name, with tables of its own
# It prints "Failed to import Flash Attention" on stderr wherever that package is not installed.
_PRINTING = "espnet2.legacy.nets.pytorch_backend.transformer.attention"


class _Registering(ImportHooks):
    """The finder of `register_on_import`."""


def register_on_import() -> None:
    """Register our classes when a task of ESPnet is imported; tasks that have been imported are served at once."""
    if any(isinstance(finder, _Registering) for finder in sys.meta_path):
        return
    edit_distance.provide()
    hooks = {name: partial(register, task=task) for name, task in TASK_MODULES.items()}
    wrappers = {name: partial(HookedLoader, after=hook) for name, hook in hooks.items()}
    _Registering(wrappers | {_PRINTING: partial(HookedLoader, around=_stderr_to_log)}).install()
    for name, hook in hooks.items():
        if name in sys.modules:
            _after_import(sys.modules[name], hook)


def _after_import(module: ModuleType, hook: Callable[[ModuleType], object]) -> None:
    """Call `hook` with a module: at once, or at its first use after it has been executed.

    A task that imports torch, and so this package, has no tables yet.
    """
    if not getattr(module.__spec__, "_initializing", False):
        hook(module)
        return

    class Executed(ModuleType):
        def __getattribute__(self, name):
            get = ModuleType.__getattribute__
            if not getattr(get(self, "__spec__"), "_initializing", False):
                self.__class__ = ModuleType
                hook(self)
            return get(self, name)

    module.__class__ = Executed


def register(module: ModuleType, task: str) -> None:
    """Add our frontends, encoders, decoders, language models and model to the tables of a task's module.

    Args:
        module: The module, one of `TASK_MODULES`.
        task: "asr", "st", "mt", "lm", "s2t" or "s2t_ctc".

    Raises:
        TypeError: One of our classes is not of the type that the table demands.
    """
    from espnet_diverse.contrib.flowseq import FlowDecoder
    from espnet_diverse.contrib.flowseq.model import FlowMTModel
    from espnet_diverse.contrib.vae import LatentDecoder
    from espnet_diverse.contrib.vae.model import VaeMTModel
    from espnet_diverse.nets import (
        DECODERS,
        ENCODERS,
        LANGUAGE_MODELS,
        PROMPTED_ENCODERS,
        SPEECH_FRONTENDS,
        TEXT_FRONTENDS,
    )
    from espnet_diverse.nets.models import MODELS

    tables = {
        "frontend_choices": TEXT_FRONTENDS if task == "mt" else SPEECH_FRONTENDS,
        "encoder_choices": PROMPTED_ENCODERS if task == "s2t_ctc" else ENCODERS,
        "decoder_choices": DECODERS | ({"flow": FlowDecoder, "vae": LatentDecoder} if task == "mt" else {}),
        "lm_choices": LANGUAGE_MODELS,
        "model_choices": {"diverse": MODELS[task]} | ({"flow": FlowMTModel, "vae": VaeMTModel} if task == "mt" else {}),
    }
    for table, classes in tables.items():
        choices = getattr(module, table, None)  # no task has all of them; ESPnet's ST hard-codes its model class
        if choices is not None:
            _add(choices, classes)


def _add(choices, classes: dict[str, type]) -> None:
    # ESPnet checks types only in the constructor of a table.
    for name, cls in classes.items():
        if choices.base_type is not None and not issubclass(cls, choices.base_type):
            raise TypeError(f"{choices.name} {name!r} is a {cls.__name__}; it must be a {choices.base_type.__name__}")
    choices.classes.update(classes)


@contextmanager
def _stderr_to_log() -> Iterator[None]:
    printed = io.StringIO()
    with redirect_stderr(printed):
        yield
    # Not `logging.debug`, which would give the root logger a handler.
    logging.getLogger(__name__).debug(printed.getvalue().strip())
