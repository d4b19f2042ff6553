"""Kept features come back as they were written, and damaged ones are refused."""

import numpy as np
import pytest
import torch

from espnet_diverse.errors import DataError
from espnet_diverse.runs.config import merge
from espnet_diverse.training.kept_features import (
    INDEX,
    KIND,
    KeptFeatures,
    Record,
    Writer,
    copied,
    of_tables,
    read_instead,
    with_kept,
)

LENGTHS = torch.tensor([5, 2, 3])


def write(folder, dtype="float16", scale=1.0):
    """Statistics with features of four utterances in each phase, of which d has those of c; return the features."""
    features = scale * torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1))
    sizes = {}
    for phase in ("train", "valid"):
        (folder / phase).mkdir(parents=True)
        with Writer(folder / phase, dtype) as writer:
            writer.add({b"1": "b", b"2": "c"}, features[:2], LENGTHS[:2])
            writer.add({b"3": "a"}, features[2:], LENGTHS[2:])
            for name, key in zip("bcad", (b"1", b"2", b"3", b"2"), strict=True):
                writer.name(name, key)
        sizes[phase] = writer.bytes
    Record("encoder", "digest", dtype, writer.size, {"train/wav.scp": "x"}, sizes).save(folder)
    return features.numpy()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_features_come_back_from_any_place(dtype, tmp_path):
    features = write(tmp_path / "stats", dtype)
    (tmp_path / "stats").rename(tmp_path / "moved")
    kept = KeptFeatures(tmp_path / "moved" / "train" / INDEX)
    assert list(kept) == ["a", "b", "c", "d"] and len(kept) == 4
    for name, place in {"a": 2, "b": 0, "c": 1, "d": 1}.items():
        assert kept[name].dtype == dtype
        np.testing.assert_array_equal(kept[name], features[place, : LENGTHS[place]].astype(dtype))
    with pytest.raises(KeyError):
        kept["e"]


def test_numbers_that_the_type_does_not_hold_are_refused(tmp_path):
    with pytest.raises(DataError, match="b: its features are not finite in float16; check the audio, or set keep_feat"):
        write(tmp_path, scale=1e6)
    write(tmp_path / "single", "float32", scale=1e6)


def test_features_of_the_same_are_copied(tmp_path, caplog):
    write(tmp_path / "old")
    for phase in ("train", "valid"):
        (tmp_path / "new" / phase).mkdir(parents=True)
    wanted = ("encoder", "digest", "float16", 0, {"train/wav.scp": "x"}, {})
    for place, other in enumerate(("frontend", "other", "float32")):
        assert not copied(tmp_path / "old", tmp_path / "new", Record(*wanted[:place], other, *wanted[place + 1 :]))
    assert not copied(tmp_path / "old", tmp_path / "new", Record(*wanted[:4], {"train/wav.scp": "y"}, {}))
    assert not copied(tmp_path / "none", tmp_path / "new", Record(*wanted))
    assert copied(tmp_path / "old", tmp_path / "new", Record(*wanted))
    for name in ("kept_features.json", "train/kept_features", "valid/kept_features.bin"):
        assert (tmp_path / "new" / name).read_bytes() == (tmp_path / "old" / name).read_bytes()
    (tmp_path / "old" / "valid" / "kept_features.bin").unlink()
    assert not copied(tmp_path / "old", tmp_path / "new", Record(*wanted)) and "they are computed again" in caplog.text


def test_damaged_records_are_refused(tmp_path):
    write(tmp_path)
    path = tmp_path / "kept_features.json"
    content = path.read_text()
    for changed in ("[]", "{", content.replace('"size"', '"length"'), content.replace("float16", "int8")):
        path.write_text(changed)
        with pytest.raises(DataError, match=r"kept_features.json: .*damaged.*; run espnet-diverse stats again"):
            Record.load(tmp_path)


def test_a_run_reads_them_in_the_place_of_audio(tmp_path):
    write(tmp_path)
    config = merge([], ["keep_features=float16"])
    for phase in ("train", "valid"):
        tables = [("/data/wav.scp", "speech", "sound"), ("/data/text", "text", "text")]
        config[f"{phase}_data_path_and_name_and_type"] = tables
    read_instead(config, tmp_path)
    assert config["valid_data_path_and_name_and_type"] == [
        (str(tmp_path / "valid" / INDEX), "speech", KIND),
        ("/data/text", "text", "text"),
    ]
    tables = {"train/wav.scp": "x", "train/text": "any"}
    assert with_kept(config, tmp_path, tables) == tables == with_kept(merge([]), tmp_path / "none", tables)
    with pytest.raises(DataError, match="has kept features of other data than train/wav.scp; run"):
        with_kept(config, tmp_path, {"train/wav.scp": "y"})
    with pytest.raises(DataError, match="has kept features of the encoder, and frozen is the frontend; run"):
        Record.load(tmp_path).check_model(tmp_path, "frontend", "digest")
    assert of_tables({"train/text": "1", "train/utt2lang": "2", "valid/src_text": "3"}) == {"train/utt2lang": "2"}
