"""Running code around the import of chosen modules, by a finder on `sys.meta_path`."""

import importlib.abc
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType

Wrapper = Callable[[importlib.abc.Loader], importlib.abc.Loader]


def _nothing(module: ModuleType) -> None:
    pass


class ImportHooks(importlib.abc.MetaPathFinder):
    """Finder that wraps the loaders of some modules and ignores all others.

    Args:
        wrappers: Function that wraps the loader, for each module name.
    """

    def __init__(self, wrappers: Mapping[str, Wrapper]):
        self.wrappers = dict(wrappers)

    def install(self) -> None:
        """Put the finder first on `sys.meta_path`."""
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path=None, target=None) -> ModuleSpec | None:
        """Spec of a hooked module, as the finders behind this one find it, with a wrapped loader."""
        if name not in self.wrappers:
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(name, path, target) for finder in behind)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None:
            spec.loader = self.wrappers[name](spec.loader)
        return spec


class HiddenPackages(importlib.abc.MetaPathFinder, threading.local):
    """Finder by which the import of some packages fails in one thread; the packages are of the thread that adds them.

    A thread without packages, and the import of all others, are left to the finders behind.

    Attributes:
        names: Names of the hidden packages of this thread.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(self, name: str, path=None, target=None) -> None:
        """Refuse a hidden package.

        Raises:
            ModuleNotFoundError: It is hidden from this thread.
        """
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}: it is hidden while another is imported", name=name)


class HookedLoader(importlib.abc.Loader):
    """Loader that runs code around the execution of a module.

    Args:
        loader: The module's own loader.
        around: Returns the context in which the module is executed.
        before: Called with the module, which is still empty.
        after: Called with the module once it has been executed.
    """

    def __init__(
        self,
        loader: importlib.abc.Loader,
        around: Callable[[], AbstractContextManager] = nullcontext,
        after: Callable[[ModuleType], object] = _nothing,
        before: Callable[[ModuleType], object] = _nothing,
    ):
        self.loader, self.around, self.after, self.before = loader, around, after, before

    def __getattr__(self, name: str):  # `runpy` uses methods beyond the protocol of loaders
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the module's own loader."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Call `before`, execute the module within `around`, then call `after`."""
        module.__spec__.loader = module.__loader__ = self.loader
        self.before(module)
        with self.around():
            self.loader.exec_module(module)
        self.after(module)


class LazyLoader(importlib.abc.Loader):
    """Loader of a module that is executed when its first public name is used.

    `importlib.util.LazyLoader` would execute it at any attribute, also at `__spec__` and `__file__`, which the import
    system and `inspect` read from every module.
    """

    def __init__(self, loader: importlib.abc.Loader):
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module that is still empty."""
        return _LazyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module empty for now."""
        module.__spec__.loader = module.__loader__ = self.loader
        module.__spec__.loader_state = {"lock": threading.RLock(), "is_executing": False}


_PUBLIC = ("__version__", "__all__")  # which programs read, unlike the import system


class _LazyModule(ModuleType):
    def __getattr__(self, name):
        if name.startswith("__") and name not in _PUBLIC:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        state = self.__spec__.loader_state
        with state["lock"]:  # other threads wait until the module is complete
            if type(self) is _LazyModule and not state["is_executing"]:
                state["is_executing"] = True
                try:
                    self.__loader__.exec_module(self)
                    self.__class__ = ModuleType
                finally:  # after an error the next use says again what is wrong
                    state["is_executing"] = False
            return ModuleType.__getattribute__(self, name)
