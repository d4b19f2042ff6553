"""A plan of a tiny model."""

import pytest

from espnet_diverse.training.planning.table import Planned


@pytest.fixture(scope="session")
def planned(tiny_run):
    words = [word.removeprefix("--set=") for word in tiny_run.config if word.startswith("--set=")]
    shared = {"train_dir": tiny_run.train_dir, "valid_dir": tiny_run.valid_dir, "task": "asr", "set": words}
    return Planned(shared=shared, fragments=["model/tiny"], attentions=["sdma"], gpu="h200")


@pytest.fixture(scope="session")
def trial(planned):
    ((_, made),) = planned.trials()
    return made
