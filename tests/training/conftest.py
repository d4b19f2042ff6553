"""Data of the tiny run that a test may change, and processes that train together."""

import os
import shutil
from dataclasses import replace

import pytest
from references.train_command import call_after

from espnet_diverse.training.distributed import elastic


@pytest.fixture
def train_dir(tiny_run, tmp_path):
    """A copy of the training data, with its own audio."""
    copy = tmp_path / "train"
    shutil.copytree(tiny_run.train_dir, copy)
    (copy / "wav.scp").write_text((copy / "wav.scp").read_text().replace(str(tiny_run.train_dir), str(copy)))
    return copy


@pytest.fixture(scope="module")
def forks():
    """Start processes as forks, which import nothing."""
    launch = elastic._launch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elastic, "_launch", lambda *parts: replace(launch(*parts), start_method="fork"))
        yield


@pytest.fixture
def after(monkeypatch):
    """A function that makes the process of some rank do something after a step, at the first start."""

    def at(step, action, rank=1):
        def act():
            first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
            if first and os.environ.get("RANK", str(rank)) == str(rank):
                action()

        call_after(step, act, monkeypatch)

    return at
