"""Statistics that cannot normalise features are refused before training."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_diverse.errors import DataError
from espnet_diverse.runs.config import save
from espnet_diverse.training.data.statistics import (
    _chosen,
    check_features,
    check_source,
    check_statistics,
    check_target,
    differ,
    read_statistics,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "feats_stats.npz"


def write(path, **changes):
    """Statistics of 100 frames of 3 features of mean 2 and variance 5."""
    arrays = {"count": 100, "sum": np.full(3, 200.0, "f"), "sum_square": np.full(3, 900.0, "f")} | changes
    np.savez(path, **{name: np.asarray(array) for name, array in arrays.items() if array is not None})


def test_sound_statistics_pass(path):
    write(path)
    check_statistics(path)
    assert read_statistics(path).keys() == {"count", "sum", "sum_square"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sum": [200.0, np.nan, 200.0]}, "sum of the features are not finite; check the audio for NaN samples"),
        ({"sum_square": [900.0, 400.0, 900.0]}, r"the variance of feature 1 \(0\) is zero or negative"),
        ({"sum_square": [900.0, 900.0, 300.0]}, r"the variance of feature 2 \(-1\) is zero or negative"),
        # a constant -16, whose sum of squares has the rounding error of float32
        ({"sum": [200.0, 200.0, -1600.0], "sum_square": [900.0, 900.0, 25600.002]}, "the variance of feature 2 "),
        ({"sum_square": np.zeros(3)}, r"feature 0 \(-4\), 1 \(-4\), 2 \(-4\) is zero or negative"),
        ({"sum": np.zeros(9), "sum_square": np.zeros(9)}, r"4 \(0\) and 4 more is zero or negative"),
        ({"count": 0}, "its count is 0 frames"),
        ({"count": -3}, "its count is -3 frames"),
        ({"sum": None}, "has no sum; run espnet-diverse stats again"),
    ],
)
def test_unusable_statistics_are_refused(path, changes, said):
    write(path, **changes)
    with pytest.raises(DataError, match=said):
        check_statistics(path)


def test_features_that_are_not_normalised_may_be_constant(path):
    write(path, sum_square=[900.0, 400.0, 900.0])
    check_statistics(path, normalised=False)
    with pytest.raises(DataError, match="^final.npz: the variance of feature 1 "):
        check_statistics(path, shown_path=Path("final.npz"))


def test_damaged_files_are_named(path):
    with pytest.raises(DataError, match="no such file; espnet-diverse stats writes it"):
        read_statistics(path)
    write(path)
    content = path.read_bytes()
    np.save(path.with_suffix(".npy"), np.array([{}], object), allow_pickle=True)
    for damaged in (b"", content[:40], content[:-40], path.with_suffix(".npy").read_bytes(), b"x" * 200):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="is damaged or not a file of statistics; run espnet-diverse stats again"):
            read_statistics(path)


def test_sums_in_another_order_do_not_differ(path, tmp_path):
    write(path)
    for sums, other in (([200.0001, 200, 200], False), ([201, 200, 200], True), ([200, 200], True)):
        write(tmp_path / "other.npz", sum=sums)
        assert differ(path, tmp_path / "other.npz") is other


@pytest.fixture
def source(tmp_path):
    """A shape file and wav.scp of two utterances, the first of 8000 samples."""
    for folder in ("stats/train", "data"):
        (tmp_path / folder).mkdir(parents=True)
    soundfile.write(tmp_path / "a.wav", np.zeros(8000), 16000)
    shapes, table = tmp_path / "stats/train/speech_shape", tmp_path / "data/wav.scp"
    shapes.write_text("b 9000\na 8000\n")  # in any order
    table.write_text(f"a {tmp_path}/a.wav\nb {tmp_path}/b.wav\n")
    return shapes, table


def test_statistics_of_the_data_themselves_pass(source):
    check_source(*source)
    shapes, table = source
    shapes.write_text("a 3,20\nb 4,20\n")
    (table.parent / "text").write_text("a one\nb two\n")
    check_source(shapes, table.parent / "text")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a 8000\n", "utterance 'b' is in {table} alone"),
        ("b 9000\n", "utterance 'a' is in {table} alone"),
        ("a 8000\nb 9000\nc 1\n", "utterance 'c' is in {shapes} alone"),
        ("0 1\na 8000\n", "utterance '0' is in {shapes} alone"),
        ("a 4000\nb 4500\n", "utterance 'a' has 4000 samples in {shapes} and 8000 in {audio}"),
    ],
)
def test_statistics_of_other_data_are_refused(source, tmp_path, content, said):
    shapes, table = source
    shapes.write_text(content)
    with pytest.raises(DataError) as refused:
        check_source(shapes, table)
    here = f"{tmp_path}/stats/train: has statistics of other data than {tmp_path}/data"
    what = said.format(table=table, shapes=shapes, audio=tmp_path / "a.wav")
    assert str(refused.value) == f"{here}: {what}; run espnet-diverse stats again, with this data"


def statistics_in(folder):
    for name in ("config.yaml", "stats.log", "train/speech_shape", "train/text_shape.char", "train/feats_stats.npz"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_former_statistics_may_be_replaced(tmp_path):
    check_target(tmp_path / "new")
    check_target(tmp_path)
    check_target(statistics_in(tmp_path / "stats"))


@pytest.mark.parametrize("name", ["notes.md", "train/text", "train/deep/x_shape", "train/config.yaml", "other/x_shape"])
def test_no_file_of_others_is_replaced(tmp_path, name):
    other = statistics_in(tmp_path / "stats") / name
    other.parent.mkdir(exist_ok=True)
    other.touch()
    with pytest.raises(DataError, match=f"stats: has {name}, which `stats` has not written; move it away or choose"):
        check_target(tmp_path / "stats")


def test_a_configuration_alone_is_no_former_statistics(tmp_path):
    (tmp_path / "config.yaml").touch()
    with pytest.raises(DataError, match="has config.yaml, which `stats` has not written"):
        check_target(tmp_path)
    with pytest.raises(DataError, match="config.yaml: is a file, but a directory must be written here"):
        check_target(tmp_path / "config.yaml")


MODEL = {"normalize": "global_mvn", "frontend_conf": {"n_mels": 3, "hop_length": 160, "fs": "16k"}}


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({}, None),
        ({"frontend": "default", "frontend_conf": MODEL["frontend_conf"] | {"fs": 16000}}, None),
        ({"frontend_conf": {"n_mels": 4}, "normalize": "utterance_mvn"}, None),
        ({"frontend_conf": MODEL["frontend_conf"] | {"hop_length": 80}}, "frontend_conf.hop_length: 160 -> 80"),
        ({"frontend_conf": MODEL["frontend_conf"] | {"n_mels": 4}}, "frontend_conf.n_mels: 3 -> 4"),
        ({"frontend": "sliding_window"}, "frontend: default -> sliding_window"),
        ({"input_size": 3}, "input_size: not set -> 3"),
        ({"speech_volume_normalize": 0.5}, "speech_volume_normalize: None -> 0.5"),
    ],
)
def test_statistics_of_other_features_are_refused(tmp_path, model, said):
    path = tmp_path / "stats" / "train" / "feats_stats.npz"
    path.parent.mkdir(parents=True)
    write(path)
    save(MODEL | {"normalize": None, "input_size": None, "frontend": "default"}, tmp_path / "stats" / "config.yaml")
    if said is None:
        check_features(path, MODEL | model)
        return
    with pytest.raises(DataError, match=f"stats: has statistics of other features: .*{said}.*; run espnet-diverse st"):
        check_features(path, MODEL | model)


@pytest.mark.parametrize("model", [{"frontend_conf": {"n_mels": 4}}, {"frontend_conf": {}}, {"input_size": 80}])
def test_without_their_configuration_sizes_are_compared(tmp_path, model):
    (tmp_path / "train").mkdir()
    write(tmp_path / "train" / "feats_stats.npz")
    check_features(tmp_path / "train" / "feats_stats.npz", MODEL)
    with pytest.raises(DataError, match=r"has statistics of other features: size: 3 -> (4|80); run espnet-diverse st"):
        check_features(tmp_path / "train" / "feats_stats.npz", {"normalize": "global_mvn"} | model)


def test_architectures_that_a_build_adds_make_no_other_features():
    parts = [{"frontend_type": "default", "n_mels": 3}, {"frontend_type": "huggingface", "model": "a"}]
    built = [*parts[:1], parts[1] | {"architecture": {"hidden_size": 8}}]
    assert _chosen({"architecture": {}, "frontends": built}) == {"frontends": parts}
