"""The picture of a run's learning curves."""

import torch

from espnet_diverse.training.learning_curves import NAME, draw_curves


def epoch(loss, **more):
    return {"train": {"loss": loss, "optim0_lr0": 0.1 / loss, **more}, "valid": {"loss": loss + 1, "epoch": 1}}


def test_a_panel_for_each_statistic_and_a_curve_for_each_phase(tmp_path, drawn):
    stats = {1: epoch(4.0), 2: epoch(2.0, acc=0.25)}
    torch.save({"reporter": {"epoch": 2, "stats": stats}}, tmp_path / "checkpoint.pth")
    draw_curves(tmp_path)
    assert (tmp_path / NAME).stat().st_size > 5000
    (figure,) = drawn
    panels = {axes.get_title(): axes for axes in figure.axes}
    assert list(panels) == ["loss", "accuracy", "learning rate"]
    assert all(axes.get_xlabel() == "epoch" and axes.get_ylabel() for axes in figure.axes)
    training, validation, best = panels["loss"].lines
    assert list(best.get_xdata()) == [2, 2]
    assert list(training.get_ydata()) == [4.0, 2.0] and list(validation.get_ydata()) == [5.0, 3.0]
    assert [text.get_text() for text in panels["loss"].get_legend().get_texts()] == ["training", "validation"]
    accuracy, _ = panels["accuracy"].lines
    assert list(accuracy.get_xdata()) == [2] and panels["accuracy"].get_legend() is None


def test_losses_of_the_attention_gradients_and_the_most_accurate_epoch_are_shown(tmp_path, drawn):
    stats = {number: epoch(1.0, grad_norm=number) for number in (1, 2, 3)}
    for number, accuracy in {1: 0.1, 2: 0.4, 3: 0.3}.items():
        stats[number]["valid"] |= {"acc": accuracy, "aux_head_mi": 1.0 / number, "aux_kl_z": 0.1}
    torch.save({"reporter": {"epoch": 3, "stats": stats}}, tmp_path / "checkpoint.pth")
    draw_curves(tmp_path)
    (figure,) = drawn
    panels = {axes.get_title(): axes for axes in figure.axes}
    assert list(panels) == ["loss", "accuracy", "gradients", "learning rate", "losses of the attention"]
    assert list(panels["gradients"].lines[0].get_ydata()) == [1, 2, 3]
    mi, kl, best = panels["losses of the attention"].lines
    assert list(mi.get_ydata()) == [1.0, 0.5, 1 / 3] and (mi.get_label(), kl.get_label()) == ("head_mi", "kl_z")
    assert list(best.get_xdata()) == [2, 2] and figure.get_suptitle().endswith("best in validation: epoch 2")
    assert figure.get_figwidth() < 12
