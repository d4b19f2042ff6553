import copy
from pathlib import Path

import numpy as np
import pytest
import soundfile
from espnet2.train.dataset import ESPnetDataset
from kaldiio import WriteHelper

from espnet_diverse.data.tables import pack_table
from espnet_diverse.training.data.row_dataset import RowBatches, RowDataset

NAMES = ["a", "b", "c"]


@pytest.fixture
def files(tmp_path):
    """Three utterances with text, audio in files and in an ark, and features."""
    random = np.random.default_rng(0)
    entries = {"text": "", "wav.scp": ""}
    arks = (f"ark,scp:{tmp_path}/wav.1.ark,{tmp_path}/ark.scp", f"ark,scp:{tmp_path}/f.ark,{tmp_path}/feats.scp")
    with WriteHelper(arks[0]) as audio, WriteHelper(arks[1]) as features:
        for name in NAMES:
            samples = random.integers(-9000, 9000, 160, dtype=np.int16)
            soundfile.write(tmp_path / f"{name}.wav", samples, 16000)
            audio[name] = (16000, samples)
            features[name] = random.normal(size=(7, 5)).astype(np.float32)
            entries["text"] += f"{name} words of {name}\n"
            entries["wav.scp"] += f"{name} {tmp_path / name}.wav\n"
    for table, content in entries.items():
        (tmp_path / table).write_text(content)
    return {
        "text": [(str(tmp_path / "text"), "text", "text")],
        "sound": [(str(tmp_path / "wav.scp"), "speech", "sound")],
        "ark": [(str(tmp_path / "ark.scp"), "speech", "kaldi_ark")],
        "feats": [(str(tmp_path / "feats.scp"), "speech", "kaldi_ark")],
    }


def ids_of(files):
    return pack_table(Path(files["text"][0][0]))


def numbers(utterance, data):
    """ESPnet's preprocessor of texts, in short."""
    return {name: np.array([ord(x) for x in v]) if isinstance(v, str) else v for name, v in data.items()}


@pytest.mark.parametrize("kind", ["text", "sound", "ark", "feats"])
@pytest.mark.parametrize("max_cache_fd", [0, 2])
def test_rows_equal_espnets_dataset(kind, max_cache_fd, files):
    ours = RowDataset(ids_of(files), files[kind], preprocess=numbers, max_cache_fd=max_cache_fd)
    theirs = ESPnetDataset(files[kind], preprocess=numbers, max_cache_fd=max_cache_fd)
    for row, name in enumerate(NAMES):
        for item in (np.int32(row), name):
            (found, data), (expected, correct) = ours[item], theirs[name]
            assert found == expected == name and data.keys() == correct.keys()
            for part in data:
                assert data[part].dtype == correct[part].dtype and (data[part] == correct[part]).all()
    assert list(ours) == NAMES and ours.names() == theirs.names()


def test_a_data_worker_can_be_given_a_copy(files):
    dataset = RowDataset(ids_of(files), files["text"], preprocess=numbers)
    for other in (copy.copy(dataset), copy.deepcopy(dataset)):
        assert other[2][0] == "c" and (other[2][1]["text"] == dataset[2][1]["text"]).all()


def test_batches_are_a_list_that_may_be_shuffled():
    batches = [np.array([0, 2], np.int32), np.array([1], np.int32)]
    sampler = RowBatches(batches, "two batches")
    shuffled = sampler.generate(1)
    shuffled.reverse()
    assert list(sampler) == batches and len(sampler) == 2 and repr(sampler) == "two batches"
