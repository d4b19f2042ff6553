"""Modules whose import is hooked, in a folder of their own."""

import importlib
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Barrier

import pytest

from espnet_diverse.registration.import_hooks import HookedLoader, ImportHooks, LazyLoader


@pytest.fixture
def hooked(monkeypatch, tmp_path):
    """Imports a module of the given source, with its loader wrapped."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "hook_events", [], raising=False)

    def hooked(source: str, wrapper):
        (tmp_path / "hooked_module.py").write_text(source)
        ImportHooks({"hooked_module": wrapper}).install()
        return importlib.import_module("hooked_module")

    yield hooked
    sys.modules.pop("hooked_module", None)


def test_code_runs_around_and_after_the_execution_of_a_module(hooked):
    @contextmanager
    def around():
        sys.hook_events.append("enter")
        yield
        sys.hook_events.append("leave")

    def after(module):
        sys.hook_events.append(module.value)

    source = "import sys\nsys.hook_events.append('executed')\nvalue = 3\n"
    module = hooked(source, partial(HookedLoader, around=around, after=after))
    assert sys.hook_events == ["enter", "executed", "leave", 3]
    assert not isinstance(module.__loader__, HookedLoader) and module.__spec__.loader is module.__loader__


def test_a_lazy_module_is_executed_when_it_is_used(hooked):
    module = hooked("import sys\nsys.hook_events.append('executed')\nclass G2p: pass\n", LazyLoader)
    assert module.__spec__.name == "hooked_module" and not hasattr(module, "__wrapped__")
    assert sys.hook_events == []
    assert module.G2p.__name__ == "G2p"
    assert sys.hook_events == ["executed"]
    with pytest.raises(AttributeError, match="G3p"):
        _ = module.G3p


@pytest.mark.parametrize(("name", "value"), [("__version__", "3.9"), ("__all__", ["G2p"])])
def test_a_lazy_module_has_its_version_and_the_list_of_its_names(hooked, name, value):
    module = hooked("__version__ = '3.9'\n__all__ = ['G2p']\nclass G2p: pass\n", LazyLoader)
    assert getattr(module, name) == value


def test_threads_wait_for_a_lazy_module_that_one_of_them_executes(hooked):
    module = hooked("import time\ntime.sleep(0.1)\nclass G2p: pass\n", LazyLoader)
    together = Barrier(4)

    def use(_):
        together.wait()
        return module.G2p

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(use, range(4))) == {module.G2p}


def test_a_lazy_module_that_fails_says_so_at_each_use(hooked):
    module = hooked("import not_there_at_all\n", LazyLoader)
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
            _ = module.G2p


def test_a_missing_module_is_an_ordinary_import_error(monkeypatch):
    hooks = ImportHooks({"g2p_en": LazyLoader})
    monkeypatch.setattr(sys, "meta_path", [hooks])
    assert hooks.find_spec("g2p_en") is None
    assert hooks.find_spec("json") is None
