"""`make gpu-check`: no wait comes back, and one that does is found."""

import os
from pathlib import Path

import pytest
from gpu_check.__main__ import main, with_libraries

pytestmark = [pytest.mark.recipes, pytest.mark.timeout(1800)]
CHECK = "from gpu_check import allowed, cases; {}; raise SystemExit(cases.run(['speech translation']))"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """`gpu_check` and this package in the new processes."""
    tests = Path(__file__).parents[1]
    paths = [str(tests), str(tests.parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", ":".join(filter(None, paths)))


def test_nothing_waits_that_need_not(capfd):
    status = main([])
    shown = capfd.readouterr().out
    if shown.startswith("gpu-check: skipped"):
        pytest.skip(shown)
    assert status == 0, shown
    assert ", 0 failed, " in shown.splitlines()[-1]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (
            "del allowed.ALLOWED['training/loop/updates.py Updates.make']",
            "espnet_diverse/training/loop/updates.py Updates.make waits 2 times at ",
        ),
        (
            "from espnet_diverse.decoding.search.beam import Beam; bound = Beam.at_greatest;"
            "Beam.at_greatest = lambda beam: bound(beam) & (beam.scores[:, 0].to('cpu') > 1)",
            "MixedDevicesError",
        ),
    ],
)
def test_a_wait_that_is_not_allowed_and_an_operand_of_the_host_are_found(change, found, capfd):
    status = with_libraries(["-c", CHECK.format(change)])
    shown = capfd.readouterr().out
    if shown.startswith("gpu-check: skipped"):
        pytest.skip(shown)
    assert status == 1 and found in shown
