"""Seconds on a GPU: the larger of the time to start operations and the time to compute them."""

import pytest

from espnet_diverse.runs.operations import Counts
from espnet_diverse.training.planning.devices import DEVICES, OF_BANDWIDTH, OF_PRODUCTS, START


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_published_figures_are_in_the_units_of_the_table(device):
    assert 20e9 < device.memory < 300e9 and 5e11 < device.bandwidth < 1e13
    assert 1e13 < device.float32 < device.bfloat16 < 1e15 and 1e10 < device.link < device.bandwidth


def test_many_small_operations_cost_their_start_and_large_ones_their_products_and_bytes():
    a100 = DEVICES["a100"]
    assert a100.seconds(Counts(products=1e6, traffic=1e6, calls=1000), half=False) == pytest.approx(1000 * START)
    seconds = 1e15 / (OF_PRODUCTS * 19.5e12) + 1e12 / (OF_BANDWIDTH * 2.039e12)
    assert a100.seconds(Counts(products=1e15, traffic=1e12, calls=1000), half=False) == pytest.approx(seconds)
    assert a100.seconds(Counts(products=1e15, calls=1000), half=True) < seconds / 10
