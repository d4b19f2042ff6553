"""What happens when ESPnet is imported: our classes enter its tables, and its import makes no noise.

`import espnet_diverse` installs a finder that stands by for a few modules of ESPnet and acts when they are imported,
by whatever entry point: the tasks learn our classes by name, what costs time or noise and is not needed waits until
somebody uses it (`lazy_imports.py`), and a message that ESPnet prints on stdout goes to the log. Nothing heavy is
imported here.
"""

import importlib.abc
import importlib.util
import io
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import partial
from types import ModuleType

from espnet_diverse.registration import lazy_imports

TASK_MODULES = {f"espnet2.tasks.{task}": task for task in ("asr", "st", "mt", "lm", "s2t")}
# It prints "Failed to import Flash Attention" on stdout, which would spoil piped output.
_PRINTING = "espnet.nets.pytorch_backend.transformer.attention"


def install() -> None:
    """Stand by for ESPnet's modules; those that have been imported already are served at once."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"espnet2?\.")  # torch.cuda.amp, at every run
    # Of ESPnet's dependencies, when Python compiles them for the first time.
    warnings.filterwarnings("ignore", category=SyntaxWarning, module=r".*site-packages")
    for module, task in TASK_MODULES.items():
        if module in sys.modules:
            register(task)
    if "typeguard" in sys.modules:
        lazy_imports.check_at_first_call(sys.modules["typeguard"])


def register(task: str) -> None:
    """Enter our frontends, encoders, decoders, language models and model into the tables of ESPnet's task module.

    Args:
        task: "asr", "st", "mt", "lm" or "s2t"; its module has been imported.

    Raises:
        TypeError: One of our classes is not of the type that the table demands.
    """
    from espnet_diverse.nets import DECODERS, ENCODERS, LANGUAGE_MODELS, TEXT_FRONTENDS
    from espnet_diverse.nets.models import MODELS

    tables = {
        "frontend_choices": TEXT_FRONTENDS if task == "mt" else {},
        "encoder_choices": ENCODERS,
        "decoder_choices": DECODERS,
        "lm_choices": LANGUAGE_MODELS,
        "model_choices": {"diverse": MODELS[task]},
    }
    module = sys.modules[f"espnet2.tasks.{task}"]
    for table, classes in tables.items():
        choices = getattr(module, table, None)  # no task has all of them; ESPnet's ST names its model class in code
        if choices is not None:
            _enter(choices, classes)


@contextmanager
def swapped(module: ModuleType, **values: object) -> Iterator[None]:
    """Exchange global names of `module` while the block runs: the only way in where ESPnet calls by a fixed name."""
    names = vars(module)
    before = {name: names[name] for name in values if name in names}  # a builtin such as `print` is not among them
    names.update(values)
    try:
        yield
    finally:
        for name in values:
            del names[name]
        names.update(before)


def _enter(choices, classes: dict[str, type]) -> None:
    # ESPnet checks the type in the constructor of its table alone.
    for name, cls in classes.items():
        if choices.base_type is not None and not issubclass(cls, choices.base_type):
            raise TypeError(f"{choices.name} {name!r} is a {cls.__name__}; it must be a {choices.base_type.__name__}")
    choices.classes.update(classes)


@contextmanager
def _printing_to_log() -> Iterator[None]:
    said = io.StringIO()
    with redirect_stdout(said):
        yield
    # Not `logging.debug`, which would give the root logger a handler.
    logging.getLogger(__name__).debug(said.getvalue().strip())


_AROUND = {
    _PRINTING: _printing_to_log,
    **dict.fromkeys(lazy_imports.WITHOUT_TRANSFORMERS, partial(lazy_imports.absent, "transformers")),
}
"""Contexts in which modules are executed."""

_AFTER = {
    "typeguard": lazy_imports.check_at_first_call,
    **{module: lambda _, task=task: register(task) for module, task in TASK_MODULES.items()},
}
"""What happens to modules once they are executed."""


class _Finder(importlib.abc.MetaPathFinder):
    """Wraps the loader of the modules that we stand by for; says nothing about any other."""

    def find_spec(self, name, path=None, target=None):
        if name not in _AROUND and name not in _AFTER and name not in lazy_imports.LAZY:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None:
            spec.loader = (lazy_imports.LazyLoader if name in lazy_imports.LAZY else _Loader)(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """The module's own loader with `_AROUND` and `_AFTER`."""

    def __init__(self, loader):
        self.loader = loader

    def __getattr__(self, name):  # `runpy` asks for more than a loader has to have
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        with _AROUND.get(module.__name__, nullcontext)():
            self.loader.exec_module(module)
        _AFTER.get(module.__name__, lambda _: None)(module)
