"""Statistics of workers are those of ESPnet; real workers compute them in tests/bin/options/test_cluster_option.py."""

import pickle
import shutil

import pytest
import soundfile
import torch

from espnet_diverse.errors import ClusterError
from espnet_diverse.runs.config import merge
from espnet_diverse.training.data.run_data import RunData
from espnet_diverse.training.stages import collect_stats


class Workers:
    """Workers in this process; the utterances `deadly` kill them in a batch."""

    def __init__(self, deadly=""):
        self.deadly, self.batches = deadly, []

    def map(self, function, items):
        assert pickle.dumps(function)
        for item in items:
            if isinstance(item, list):
                self.batches.append([row[0].split()[0] for row in item])
            deadly = isinstance(item, list) and self.deadly in self.batches[-1]
            yield ClusterError("its worker was killed") if deadly else function(item)


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("stats.log", "config.yaml")
    }


@pytest.fixture
def collected(tiny_run, train_dir, tmp_path):
    """A function that collects statistics of utterances of different lengths and returns the content of the files."""
    for number, path in enumerate(sorted(train_dir.glob("*.wav"))):
        samples, rate = soundfile.read(path)
        soundfile.write(path, samples[: 12000 - 777 * number], rate)

    def collect(workers, *changes):
        target = tmp_path / ("alone" if workers is None else "workers")
        config = merge(["model/tiny"], ["num_workers=0", *changes])
        collect_stats(config, RunData(train_dir, tiny_run.valid_dir, tiny_run.tokens_dir), target, workers)
        return files(target)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield collect
    torch.set_num_threads(threads)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_files_match_espnet(collected, num_workers):
    changes = [f"num_workers={num_workers}", "batch_size=5"]
    alone, workers = collected(None, *changes), Workers()
    assert collected(workers, *changes) == alone
    assert {"train/feats_stats.npz", "train/speech_shape", "valid/stats_keys", "valid/batch_keys"} <= alone.keys()
    assert [len(batch) for batch in workers.batches] == [5, 5, 2, 4]
    shapes = alone["train/speech_shape"].splitlines()
    assert shapes == sorted(shapes)


@pytest.mark.parametrize("workers", [None, Workers()])
def test_features_are_computed_also_where_recipes_of_espnet_leave_them_out(collected, tmp_path, workers):
    expected = collected(workers)
    shutil.rmtree(tmp_path / ("workers" if workers else "alone"))
    assert collected(workers, "model_conf.extract_feats_in_collect_stats=false") == expected
