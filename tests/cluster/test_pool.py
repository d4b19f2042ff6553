"""Pieces on workers of this machine: in order, none lost, none twice; killed workers; errors in one line."""

import threading
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace

import distributed
import pytest
from distributed.comm.core import CommClosedError
from references.cluster_work import double, kill_at_7, kill_once, load, load_nothing, process

from espnet_diverse.cluster.backends import started
from espnet_diverse.cluster.configuration import ClusterOptions, LocalOptions
from espnet_diverse.cluster.pool import Pool
from espnet_diverse.cluster.worker import Setup
from espnet_diverse.errors import ClusterError

OPTIONS = LocalOptions(kind="local", workers=2, retries=1, wait=60)


@pytest.fixture(scope="module")
def client():
    with started(OPTIONS) as client:
        yield client


@pytest.fixture
def pool(client, tmp_path):
    return Pool(client, OPTIONS, Setup(partial(load, tmp_path)))


def test_results_come_in_order_and_every_process_loads_once(pool, tmp_path):
    assert list(pool.map_pieces(double, [[0], [1, 2], [], *([item] for item in range(3, 20))])) == [
        *([0], [2, 4], []),
        *([2 * item] for item in range(3, 20)),
    ]
    loads = (tmp_path / "loads").read_text().split()
    assert len(loads) == len(set(loads)) <= 2
    assert {path.read_text() for path in tmp_path.glob("done-*")} == {"."}
    assert str(pool.ask(process)) in (tmp_path / "loads").read_text().split()


def test_pieces_are_taken_as_they_are_needed(pool):
    taken = []

    def pieces():
        for item in range(10_000):
            taken.append(item)
            yield [item]

    results = pool.map_pieces(double, pieces())
    assert next(results) == [0] and len(taken) < 10_000
    results.close()


def test_items_are_mapped_in_order_in_pieces_that_depend_on_their_number(pool, monkeypatch):
    sizes, submit = [], pool._submit

    def counted(function, items, urgent):
        sizes.append(len(items))
        return submit(function, items, urgent)

    monkeypatch.setattr(pool, "_submit", counted)
    assert list(pool.map(str, range(3))) == ["0", "1", "2"] and sizes == [1, 1, 1]
    sizes.clear()
    assert list(pool.map(str, range(100))) == list(map(str, range(100))) and set(sizes) == {6, 4}
    sizes.clear()
    assert list(pool.map(str, iter(range(20)))) == list(map(str, range(20))) and sizes == [1] * 20
    assert list(pool.map(str, [])) == []


def test_a_worker_that_dies_while_a_pool_is_made_does_no_harm(client, tmp_path, monkeypatch):
    def lost(plugin):
        raise CommClosedError("in <TLS (closed)>: Stream is closed")

    monkeypatch.setattr(client, "register_plugin", lost)
    pool = Pool(client, OPTIONS, Setup(partial(load, tmp_path)))
    assert list(pool.map_pieces(double, [[1], [2]])) == [[2], [4]]


class Here:
    """A client whose work is done at once in this process, or ends with an error."""

    def __init__(self, error=None):
        self.error = error

    def register_plugin(self, plugin):
        pass

    def submit(self, work, **how):
        future = Future()
        if self.error:
            future.set_exception(self.error)
        else:
            future.set_result(work.function("loaded", work.items))
        return future

    def cancel(self, futures):
        pass


def test_a_slow_first_piece_does_not_let_all_others_wait_for_it(tmp_path, monkeypatch):
    client, slow, sent = Here(), Future(), []
    pool, submit = Pool(client, OPTIONS, Setup(partial(load, tmp_path))), client.submit
    monkeypatch.setattr(client, "submit", lambda work, **how: sent.append(work) or (submit(work) if sent[1:] else slow))
    monkeypatch.setattr(pool, "_wait", lambda futures: slow.set_result([len(sent)]))
    assert next(pool.map(str, iter(range(1000)))) == 30 * OPTIONS.workers


def test_ask_passes_the_loaded_object_and_map_the_items(tmp_path):
    pool = Pool(Here(), OPTIONS, Setup(partial(load, tmp_path)))
    assert pool.ask(str.upper) == "LOADED" and list(pool.map(str, range(3))) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            distributed.KilledWorker("task", SimpleNamespace(address="tls://a"), 1),
            r"^its worker was killed 2 times \(tls://a\); see its log$",
        ),
        (ImportError("No module named 'x'"), "^a worker cannot import what it needs: No module named 'x'; check its "),
    ],
)
def test_an_answer_that_no_worker_can_give_is_an_error(tmp_path, error, text):
    with pytest.raises(ClusterError, match=text):
        Pool(Here(error), OPTIONS, Setup(partial(load, tmp_path))).ask(process)


@pytest.mark.slow
def test_the_piece_of_a_killed_worker_is_done_again(pool):
    assert list(pool.map_pieces(kill_once, [[0, 2], [3], [4, 6]])) == [[0, 4], [6], [8, 12]]


@pytest.mark.slow
def test_an_item_that_always_kills_its_worker_costs_no_other(tmp_path):
    """On a cluster of its own: workers that another test has killed may still be counted against an item."""
    with started(OPTIONS) as client:
        pool = Pool(client, OPTIONS, Setup(partial(load, tmp_path)))
        (three, (six, seven)) = pool.map_pieces(kill_at_7, [[3], [6, 7]])
    assert (three, six) == ([6], 12)
    assert isinstance(seven, ClusterError) and str(seven).startswith("its worker was killed 2 times (tls://127.0.0.1:")


def test_an_error_of_loading_is_one_line(client, tmp_path):
    pool = Pool(client, OPTIONS, Setup(partial(load_nothing, tmp_path)))
    with pytest.raises(ClusterError, match=rf"^worker on \S+: {tmp_path} has no model$"):
        list(pool.map_pieces(double, [[1]]))


def test_a_cluster_without_workers_is_given_up(tmp_path):
    from distributed import Client, LocalCluster

    options = ClusterOptions(kind="slurm", wait=1)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
        pytest.raises(
            ClusterError, match=r"^no worker of the cluster \(slurm\) for 1 s; see the logs of its workers, or"
        ),
    ):
        Pool(client, options, Setup(partial(load, tmp_path))).ask(process)


def test_a_wait_that_ends_without_a_result_is_repeated(pool, monkeypatch):
    waited = []

    def wait(futures, **how):
        waited.append(how)
        if len(waited) == 1:
            raise TimeoutError
        return dask_wait(futures)

    dask_wait = distributed.wait
    monkeypatch.setattr(distributed, "wait", wait)
    assert list(pool.map_pieces(double, [[1]])) == [[2]]
    assert len(waited) > 1


def test_a_lost_scheduler_is_one_line(tmp_path):
    from distributed import Client, Future, LocalCluster

    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        pool = Pool(client, OPTIONS, Setup(partial(load, tmp_path)))
        results = pool.map_pieces(double, [[1], [2]])
        threading.Timer(1.0, lambda: client.cancel([Future(key, client) for key in list(client.futures)])).start()
        with pytest.raises(ClusterError, match="^the scheduler of the cluster is lost; run the same command again$"):
            next(results)
