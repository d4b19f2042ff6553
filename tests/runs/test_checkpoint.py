import datetime
import os
import re
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from espnet_diverse.errors import ModelError
from espnet_diverse.runs import checkpoint


class Payload:
    """Makes a directory when it is unpickled by a careless reader."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_round_trip_of_an_espnet_checkpoint(tmp_path):
    state = {
        "model": {"w": torch.ones(2)},
        "reporter": {"stats": {1: {"train": {"loss": np.float64(0.5), "time": datetime.timedelta(seconds=3)}}}},
        "scaler": None,
    }
    checkpoint.save(state, tmp_path / "checkpoint.pth")
    loaded = checkpoint.load(tmp_path / "checkpoint.pth")
    assert loaded["reporter"] == state["reporter"]
    assert torch.equal(loaded["model"]["w"], state["model"]["w"])


def test_a_memory_that_is_too_small_is_not_called_damage(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    checkpoint.save({"w": torch.zeros(1)}, tmp_path / "w.pth")
    monkeypatch.setattr(torch, "load", fail)
    with pytest.raises(ModelError, match=r"w\.pth: the memory of this machine is too small to read it"):
        checkpoint.load(tmp_path / "w.pth")


def test_safetensors_hold_the_same(tmp_path):
    weight = torch.arange(6.0).view(2, 3)
    state = {"embed": weight, "output": weight, "turned": weight.t(), "count": torch.tensor(3)}
    path = tmp_path / "w.safetensors"
    checkpoint.save(state, path)
    loaded = checkpoint.load(path)
    assert loaded.keys() == state.keys() and all(torch.equal(loaded[name], state[name]) for name in state)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ModelError, match=r"w\.safetensors: the file is damaged"):
        checkpoint.load(path)
    with pytest.raises(ModelError, match=r"gone\.safetensors: cannot be read \(No such file"):
        checkpoint.load(tmp_path / "gone.safetensors")


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.pth"
    checkpoint.save({"w": torch.ones(1)}, path)
    monkeypatch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    said = r"checkpoint\.pth: cannot be written \(No space left on device\): it takes (\d+) bytes, 100 are free, (\d+) "
    with pytest.raises(ModelError, match=said) as error:
        checkpoint.save({"w": torch.zeros(1)}, path)
    size, missing = map(int, re.search(said, str(error.value)).groups())
    assert size == path.stat().st_size and missing == size - 100
    assert "bytes are missing; what was saved before is as it was: make room and give the same" in str(error.value)
    assert checkpoint.load(path)["w"] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_raises_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        checkpoint.save({"w": torch.ones(1)}, tmp_path / "gone" / "w.pth")


def test_two_generations_are_kept_and_the_older_is_taken_if_the_newer_is_damaged(tmp_path, caplog):
    newest, previous = tmp_path / checkpoint.CHECKPOINT, tmp_path / checkpoint.PREVIOUS
    for number in range(3):
        checkpoint.save({"w": torch.tensor(number)}, newest, former=previous)
    assert checkpoint.load(newest)["w"] == 2 and checkpoint.load(previous)["w"] == 1
    assert checkpoint.load_run(tmp_path)[1] == newest and not caplog.records
    newest.write_bytes(newest.read_bytes()[:-1])
    state, path = checkpoint.load_run(tmp_path)
    assert state["w"] == 1 and path == previous
    assert f"{newest}: the file is damaged" in caplog.text and "taken instead: checkpoint.previous.pth" in caplog.text
    newest.unlink()
    assert checkpoint.load_run(tmp_path)[1] == previous
    previous.write_bytes(b"")
    with pytest.raises(ModelError, match=r"checkpoint\.pth: cannot be read"):
        checkpoint.load_run(tmp_path)


@pytest.mark.parametrize("has_links", [True, False])
def test_a_kill_between_the_two_generations_leaves_a_checkpoint(tmp_path, monkeypatch, has_links):
    newest, previous, replace = tmp_path / checkpoint.CHECKPOINT, tmp_path / checkpoint.PREVIOUS, Path.replace

    def killed(path, target):
        if target == newest:
            raise KeyboardInterrupt
        replace(path, target)

    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", Mock(side_effect=PermissionError))
    for number in (1, 2):
        checkpoint.save({"w": torch.tensor(number)}, newest, former=previous)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "replace", killed)
        checkpoint.save({"w": torch.tensor(3)}, newest, former=previous)
    assert newest.exists() == has_links and checkpoint.load(previous)["w"] == 2
    checkpoint.save({"w": torch.tensor(3)}, newest, former=previous)
    assert (checkpoint.load(newest)["w"], checkpoint.load(previous)["w"]) == (3, 2)
    assert sorted(tmp_path.iterdir()) == [previous, newest]


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    torch.save({"w": Payload(tmp_path / "ran")}, tmp_path / "bad.pth")
    with pytest.raises(ModelError, match=r"bad\.pth: is not a checkpoint or holds objects that are not allowed"):
        checkpoint.load(tmp_path / "bad.pth")
    assert not (tmp_path / "ran").exists()


def test_missing_damaged_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(ModelError, match=r"gone\.pth: cannot be read \(No such file"):
        checkpoint.load(tmp_path / "gone.pth")
    path = tmp_path / "torn.pth"
    checkpoint.save({"w": torch.ones(1000)}, path)
    content = path.read_bytes()
    for kept in (0, 10, len(content) // 2, len(content) - 10):
        path.write_bytes(content[:kept])
        with pytest.raises(ModelError, match=r"torn\.pth: (the file is damaged|is not a checkpoint)"):
            checkpoint.load(path)
    checkpoint.save([1, 2], path)
    with pytest.raises(ModelError, match="holds a list, not the named parameters"):
        checkpoint.load(path)


def test_a_pipe_a_device_and_a_directory_are_refused_before_they_are_read(tmp_path):
    """A pipe would be waited for, a device would fill the memory."""
    os.mkfifo(tmp_path / "pipe.pth")
    for path in (tmp_path / "pipe.pth", Path("/dev/zero"), tmp_path):
        with pytest.raises(ModelError, match=rf"{path}: cannot be read \(not a regular file\)"):
            checkpoint.load(path)


@pytest.mark.parametrize(
    "pickled", [b"\x80\x02a.", b"\x80\x02}K\x01K\x02\x86u.", b"\x80\x02Nb.", b"\x80\x02X\x02\0\0\0ab"]
)
def test_damage_is_named_whatever_error_the_unpickler_meets_it_with(tmp_path, pickled):
    path = tmp_path / "damaged.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/version", b"3\n")
    with pytest.raises(ModelError, match=r"damaged\.pth: (the file is damaged|is not a checkpoint)"):
        checkpoint.load(path)


def test_weights_that_are_no_numbers_are_named(tmp_path):
    state = {"count": torch.tensor(3), "bound": torch.tensor([torch.inf]), "weight": torch.tensor([1.0, torch.nan])}
    torch.save(state, tmp_path / "w.pth")
    with pytest.raises(ModelError, match=r"w\.pth: NaN is in weight; use weights of an earlier epoch$"):
        checkpoint.load_weights(tmp_path / "w.pth")


def test_weights_must_fit_exactly():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    good = model.state_dict()
    checkpoint.load_strict(model, good, "good.pth")
    bad = {name: tensor for name, tensor in good.items() if name != "1.weight"} | {
        "0.bias": torch.zeros(4),
        **{f"extra.{index}": torch.zeros(1) for index in range(6)},
    }
    with pytest.raises(ModelError) as error:
        checkpoint.load_strict(model, bad, "bad.pth")
    assert str(error.value) == (
        "bad.pth does not fit the model of its configuration; parameters 1 missing: 1.weight; "
        "6 extra: extra.0, extra.1, extra.2, extra.3, extra.4 and 1 more; "
        "1 of another shape or type: 0.bias (4,) for (3,)"
    )
    assert torch.equal(model.state_dict()["0.bias"], good["0.bias"])
    quantised = good | {"0.weight": torch.ones(3, 2, dtype=torch.uint8)}
    with pytest.raises(ModelError, match=r"1 of another shape or type: 0\.weight torch\.uint8 for torch\.float32$"):
        checkpoint.load_strict(model, quantised, "bad.pth")
