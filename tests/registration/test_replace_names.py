import threading
import time
from types import ModuleType

import pytest

from espnet_diverse.registration import replace_names, replaced_names


@pytest.fixture
def module():
    module = ModuleType("some_module")
    module.LMTask = 1
    return module


def test_names_are_restored(module):
    before = dict(vars(module))
    with replaced_names(module, LMTask=2):
        assert module.LMTask == 2
        with replaced_names(module, LMTask=4):
            assert module.LMTask == 4
        assert module.LMTask == 2
    assert vars(module) == before


def test_no_other_name_is_replaced(module):
    of_inference = {"ASRTask", "STTask", "MTTask", "LMTask", "ContextualBlockTransformerEncoder"}
    assert replace_names.REPLACED.keys() == of_inference | {"ESPnetSTModel", "autocast"}
    with pytest.raises(KeyError, match="print is not in REPLACED"), replaced_names(module, print=3):
        pass
    with pytest.raises(KeyError, match="autocast"), replaced_names(module, autocast=3):
        pass
    assert module.LMTask == 1 and not hasattr(module, "print")


def test_names_are_restored_after_an_error(module):
    with pytest.raises(KeyError), replaced_names(module, LMTask=2):
        raise KeyError
    assert module.LMTask == 1


def test_threads_that_replace_the_same_name_wait_for_each_other(module):
    first_inside, first_may_end, second_started = threading.Event(), threading.Event(), threading.Event()
    seen = []

    def first():
        with replaced_names(module, LMTask="first"):
            first_inside.set()
            assert first_may_end.wait(10)
            seen.append(module.LMTask)

    def second():
        second_started.set()
        with replaced_names(module, LMTask="second"):
            seen.append(module.LMTask)

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert first_inside.wait(10)
    threads[1].start()
    assert second_started.wait(10)
    threads[1].join(0.2)  # where blocks may overlap, the second thread ends here
    first_may_end.set()
    for thread in threads:
        thread.join(10)
    assert seen == ["first", "second"]
    assert module.LMTask == 1


def test_threads_that_begin_with_a_module_at_once_share_its_lock(monkeypatch):
    made, seen = threading.Barrier(2), []

    def slow_lock():
        time.sleep(0.1)  # the other thread asks for the lock in the meantime
        return threading.RLock()

    def replace():
        made.wait(10)
        with replaced_names(fresh):
            seen.append("in")
            time.sleep(0.2)
            seen.append("out")

    fresh = ModuleType("module_without_a_lock")
    monkeypatch.setattr(replace_names, "RLock", slow_lock)
    monkeypatch.setattr(replace_names, "_LOCKS", {})
    threads = [threading.Thread(target=replace) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert seen == ["in", "out", "in", "out"]
