"""Identities of runs differ, are of one line, and are compared; `test_resumption.py` has them in training."""

import json
import logging

import pytest

from espnet_diverse.errors import ModelError
from espnet_diverse.runs.stored.schema import name
from espnet_diverse.training.checkpoints.run_identity import KEY, check_identity, identity_of, new_identity


def test_an_identity_is_of_one_run_and_printable(tmp_path):
    folder = tmp_path / ("a\x1b[2J\n" + "\u4f60" * 70)
    first, second = new_identity(folder), new_identity(folder)
    assert first != second and first.startswith("a?[2J?\u4f60")
    name(first, "run")
    name(new_identity(folder.parent / ".."), "run")


def test_the_identity_of_a_folder(tmp_path):
    assert identity_of(tmp_path) is None
    (tmp_path / "data.json").write_text(json.dumps({"train/text": "0" * 64}))
    assert identity_of(tmp_path) is None
    (tmp_path / "data.json").write_text(json.dumps({"train/text": "0" * 64, KEY: "mine"}))
    assert identity_of(tmp_path) == "mine"


@pytest.mark.parametrize(
    ("saved", "own", "said"),
    [
        ("mine", "mine", None),
        (None, None, None),
        ("other", "mine", "is of another run, other, and the run of this folder is mine; put back the checkpoint"),
        (None, "mine", "is of a former version or of another program, and the run of this folder is mine; put back"),
    ],
)
def test_they_are_compared(tmp_path, saved, own, said):
    source = tmp_path / "checkpoint.pth"
    (tmp_path / "data.json").write_text(json.dumps({KEY: own} if own else {}))
    if said is None:
        check_identity(saved, source)
        return
    with pytest.raises(ModelError, match=f"checkpoint.pth: {said}"):
        check_identity(saved, source)


def test_a_checkpoint_in_a_folder_without_identity_warns(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        check_identity("other", tmp_path / "checkpoint.pth")
    assert "checkpoint.pth: is of the run other, and the folder does not say of which run it is" in caplog.text
