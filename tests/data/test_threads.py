"""Parallel map: order, number of threads, and what happens after an error."""

import threading
import time

import pytest

from espnet_diverse.data.threads import iterate_in_threads, map_in_parallel
from espnet_diverse.errors import ClusterError


def test_results_are_in_the_order_of_the_items():
    def slow_first(item):
        time.sleep(0.02 * (item == 0))
        return item * item

    assert list(iterate_in_threads(slow_first, range(20), 4, "square", 20)) == [item * item for item in range(20)]
    assert list(iterate_in_threads(slow_first, [], 4, "square", 0)) == []


@pytest.mark.parametrize("nj", [1, 3])
def test_as_many_items_run_at_once_as_there_are_threads(nj):
    lock, running, most = threading.Lock(), [0], [0]
    together = threading.Barrier(nj)

    def item(_):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        together.wait(60)
        with lock:
            running[0] -= 1

    list(iterate_in_threads(item, range(2 * nj), nj, "wait", 2 * nj))
    assert most[0] == nj


def test_after_an_error_no_item_is_begun_and_running_ones_end():
    begun, ended, second = [], [], threading.Event()

    def item(number):
        begun.append(number)
        if number == 0:
            assert second.wait(60)
            raise OSError("disk full")
        second.set()
        time.sleep(0.1)
        ended.append(number)

    with pytest.raises(OSError, match="^disk full$"):
        list(iterate_in_threads(item, range(50), 2, "write", 50))
    assert sorted(begun) == sorted([0, *ended]) and len(begun) < 25  # of 50; how many depends on the load


def test_items_are_read_as_results_are_taken():
    read = []

    def items():
        for number in range(10_000):
            read.append(number)
            yield number

    results = iterate_in_threads(str, items(), 2, "name", 10_000)
    assert [next(results) for _ in range(5)] == ["0", "1", "2", "3", "4"] and len(read) < 500
    assert len(list(results)) == 9_995 and len(read) == 10_000


def test_few_items_are_read_ahead_where_they_are_large():
    read = []

    class Items(list):
        def __iter__(self):
            for item in super().__iter__():
                read.append(item)
                yield item

    found = map_in_parallel(str, Items(range(20)), 2, "name", lambda *_: "", ahead=2)
    assert next(found) == "0" and len(read) == 5
    assert list(found) == [str(item) for item in range(1, 20)]


class Workers:
    """Workers in this process, which item 3 kills."""

    def map(self, function, items):
        return (ClusterError("its worker was killed") if item == 3 else function(item) for item in items)


def test_workers_take_the_place_of_threads(capsys):
    found = map_in_parallel(str, range(5), Workers(), "name", lambda item, error: f"{item}: {error}")
    assert list(found) == ["0", "1", "2", "3: its worker was killed", "4"]
    assert "name: 5/5 files, " in capsys.readouterr().err
    assert list(map_in_parallel(str, range(5), 2, "name", lambda *_: "")) == list("01234")
