"""Checks of a worker before it loads, and that it loads once."""

from functools import partial
from types import SimpleNamespace

import distributed
import pytest
import torch
from references.cluster_work import double, load, load_nothing

from espnet_diverse.cluster import worker
from espnet_diverse.cluster.worker import Setup, Work
from espnet_diverse.errors import ClusterError


@pytest.fixture
def setup(tmp_path, monkeypatch):
    """A setup with one file, made in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    worker._loaded.cache_clear()
    (tmp_path / "model").write_text("first")
    return partial(Setup, partial(load, tmp_path), [tmp_path / "model"])


def test_a_process_loads_once_and_again_after_a_file_has_changed(setup, tmp_path):
    assert [Work(setup(), double, [number])() for number in (1, 2)] == [[2], [4]]
    assert len((tmp_path / "loads").read_text().split()) == 1
    before = setup()
    (tmp_path / "model").write_text("second")
    assert before == before and before != setup() and hash(before) != hash(setup())
    assert Work(setup(), double, [3])() == [6]
    assert len((tmp_path / "loads").read_text().split()) == 2


def test_a_worker_goes_to_the_directory_of_the_client(setup, tmp_path, monkeypatch):
    made = setup()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert Work(made, lambda folder, items: [folder.cwd()], [None])() == [tmp_path]


def test_a_worker_computes_in_one_thread(setup):
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        Work(setup(), double, [1])()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)


def test_a_worker_refuses_other_files_versions_and_folders(setup, tmp_path, monkeypatch):
    made = setup()
    (tmp_path / "model").write_text("second")
    with pytest.raises(
        ClusterError, match=rf"^worker on \S+: sees other content in {tmp_path}/model than the client; "
    ):
        Work(made, double, [1])()
    made = setup()
    made.versions["torch"] = "0.1"
    with pytest.raises(ClusterError, match=r"^worker on \S+: has torch \S+ and the client 0.1; give all machines the"):
        Work(made, double, [1])()
    made = setup()
    made.directory = str(tmp_path / "gone")
    with pytest.raises(
        ClusterError, match=r": has no folder \S+/gone \(No such file or directory\); run the command in"
    ):
        Work(made, double, [1])()


def test_a_worker_of_several_threads_is_refused(setup, monkeypatch):
    monkeypatch.setattr(distributed, "get_worker", lambda: SimpleNamespace(state=SimpleNamespace(nthreads=4)))
    with pytest.raises(ClusterError, match=r": has 4 threads of Dask; give each worker one, as --nthreads 1 does$"):
        Work(setup(), double, [1])()


def test_errors_keep_their_text_and_become_a_class_that_is_sent(setup, tmp_path):
    with pytest.raises(ClusterError, match=rf"^worker on \S+: {tmp_path} has no model$"):
        Work(Setup(partial(load_nothing, tmp_path)), double, [1])()
