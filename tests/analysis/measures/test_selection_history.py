"""Head selection over training, from the checkpoint of a run."""

import numpy as np
import pytest
import yaml

from espnet_diverse.analysis.measures.selection_history import History, draw_history, read_history
from espnet_diverse.errors import ModelError
from espnet_diverse.runs import checkpoint


def write_run(path, *epochs, accum_grad=2):
    """The checkpoint and configuration of a run with the given training statistics."""
    stats = {number: {"train": epoch, "valid": {"loss": 1.0}} for number, epoch in enumerate(epochs, start=1)}
    checkpoint.save({"model": {}, "reporter": {"stats": stats, "epoch": len(epochs)}}, path / "checkpoint.pth")
    (path / "config.yaml").write_text(yaml.safe_dump({"accum_grad": accum_grad}))
    return path


def test_epochs_are_placed_at_their_middle_in_updates(tmp_path):
    run = write_run(
        tmp_path,
        {"total_count": 9, "heads_by_noise": 0.3, "loss": 7.0},
        {"total_count": 18, "heads_by_noise": 0.2, "logit_gap": 1.5},
        {"total_count": 22, "heads_by_noise": 0.0, "logit_gap": 2.5},
    )
    history = read_history(run)
    assert history.updates.tolist() == [2.0, 6.0, 9.0]  # 4, 4 and 2 updates
    assert list(history.values) == ["logit_gap", "heads_by_noise"]
    np.testing.assert_array_equal(history.values["logit_gap"], [np.nan, 1.5, 2.5])
    np.testing.assert_array_equal(history.values["heads_by_noise"], [0.3, 0.2, 0.0])


def test_a_run_without_head_selection_or_checkpoint_has_no_history(tmp_path):
    assert read_history(tmp_path) is None
    assert read_history(write_run(tmp_path, {"total_count": 9, "loss": 7.0})) is None


@pytest.mark.parametrize("state", [{"model": {}}, {"reporter": {"stats": {}}}])
def test_a_checkpoint_without_statistics_has_no_history(tmp_path, state):
    checkpoint.save(state, tmp_path / "checkpoint.pth")
    assert read_history(tmp_path) is None


def test_an_epoch_without_training_has_no_point(tmp_path):
    run = write_run(tmp_path, {"total_count": 9, "logit_gap": 0.5}, {}, {"total_count": 18, "logit_gap": 1.5})
    assert read_history(run).values["logit_gap"].tolist() == [0.5, 1.5]


def test_a_damaged_checkpoint_is_named(tmp_path):
    (tmp_path / "checkpoint.pth").write_bytes(b"PK")
    with pytest.raises(ModelError, match="checkpoint.pth: "):
        read_history(tmp_path)


def test_each_statistic_has_a_panel_with_labelled_axes(tmp_path, drawn):
    values = {"logit_gap": np.array([1.5, 2.0]), "heads_by_noise": np.array([0.3, 0.25])}
    draw_history(History(np.array([5.0, 15.0]), values), "run", tmp_path / "history.png")
    gap, changed = drawn[0].axes
    assert (tmp_path / "history.png").stat().st_size > 5000
    assert changed.lines[0].get_xydata().tolist() == [[5.0, 30.0], [15.0, 25.0]]  # percent
    assert gap.get_ylabel().startswith("gap of the logits") and changed.get_ylabel().endswith("(%)")
    assert changed.get_xlabel().startswith("optimizer updates") and gap.get_ylim()[0] == 0
