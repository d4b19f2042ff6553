"""Data of the tiny run that a test may change."""

import shutil

import pytest


@pytest.fixture
def train_dir(tiny_run, tmp_path):
    """A copy of the training data, with its own audio."""
    copy = tmp_path / "train"
    shutil.copytree(tiny_run.train_dir, copy)
    (copy / "wav.scp").write_text((copy / "wav.scp").read_text().replace(str(tiny_run.train_dir), str(copy)))
    return copy
