"""The state of the process: variables that hold for a block, and what is restored after a stage."""

import logging
import os
import random
import warnings

import pytest
import torch

from espnet_diverse.process_state import environment, restored


def test_only_the_given_variables_are_restored(monkeypatch):
    monkeypatch.setenv("OLD", "before")
    monkeypatch.delenv("NEW", raising=False)
    monkeypatch.setenv("OTHER", "before")
    with environment(OLD="now", NEW="now", OTHER=None):
        assert (os.environ["OLD"], os.environ["NEW"], os.environ["OTHER"]) == ("now", "now", "before")
        os.environ["OTHER"] = "by another thread"
        del os.environ["NEW"]
    assert (os.environ["OLD"], os.environ.get("NEW"), os.environ["OTHER"]) == ("before", None, "by another thread")


def test_variables_are_restored_after_an_error(monkeypatch):
    monkeypatch.delenv("NEW", raising=False)
    with pytest.raises(KeyError), environment(NEW="now"):
        raise KeyError
    assert "NEW" not in os.environ


def test_what_a_stage_changes_is_restored(tmp_path):
    root = logging.getLogger()

    def state():
        generators = random.getstate(), torch.get_rng_state().tolist()
        return root.handlers[:], root.level, generators, torch.get_num_threads(), warnings.filters[:]

    before = state()
    with restored():
        logging.basicConfig(filename=tmp_path / "stage.log", level=logging.DEBUG, force=True)
        (handler,) = root.handlers
        random.seed(1)
        torch.manual_seed(1)
        torch.set_num_threads(3)
        warnings.simplefilter("error")
    assert state() == before and handler.stream is None
