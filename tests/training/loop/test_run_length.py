"""Schedules that are a share of a run are told how many updates it has."""

from types import SimpleNamespace

import pytest
import torch
from espnet2.schedulers.warmup_lr import WarmupLR

from espnet_diverse.attention import build_core
from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError
from espnet_diverse.runs import checkpoint
from espnet_diverse.training.loop.run_length import tell_length_of_run, warn_of_warmup

OPTIONS = SimpleNamespace(max_epoch=16, accum_grad=2)


def test_the_updates_of_a_run_match_its_epochs():
    core = build_core("sma", 8, 2, {"gamma_updates": 0.1})
    tell_length_of_run(core, 347, OPTIONS)
    assert int(core.updates.of_run) == 16 * 173
    core.updates.count += 0.1 * 16 * 173
    assert float(core.gamma()) == pytest.approx(0.9)


def test_batches_without_a_number_are_refused_only_where_it_is_needed():
    tell_length_of_run(build_core("sma", 8, 2), None, OPTIONS)
    with pytest.raises(ConfigError, match=r"^a schedule of 0.1 is a share of the updates of the run, and with"):
        tell_length_of_run(build_core("sma", 8, 2, {"gamma_updates": 0.1}), None, OPTIONS)


@pytest.mark.parametrize(("steps", "warned"), [(2769, True), (2768, False)])
def test_a_warmup_that_does_not_end_is_told(caplog, steps, warned):
    optimizer = torch.optim.Adam(torch.nn.Linear(2, 2).parameters())
    warn_of_warmup([WarmupLR(optimizer, warmup_steps=steps), None], 347, OPTIONS)
    warn_of_warmup([WarmupLR(optimizer, warmup_steps=steps)], None, OPTIONS)  # a number of batches that is not known
    said = "16 epochs make 2768 updates, and the learning rate rises for scheduler_conf.warmup_steps 2769: it does not"
    found = [message for message in caplog.messages if "learning rate rises" in message]
    assert [message.startswith(said) for message in found] == [True] * warned


def test_training_tells_it_and_evaluation_finds_it_in_the_checkpoint(tiny_run, tmp_path):
    settings = [f"--set={part}_conf.attention.gamma_updates=0.5" for part in ("encoder", "decoder")]
    warmup = ["--set=scheduler=warmuplr", "--set=scheduler_conf.warmup_steps=500"]
    paths = ["--stats_dir", str(tiny_run.stats_dir), "--output_dir", str(tmp_path / "exp")]
    arguments = ["train", *tiny_run.config, *tiny_run.data(), *paths, *settings, "--set=max_epoch=1", *warmup]
    assert main(arguments) == 0
    assert "updates, and the learning rate rises for" in (tmp_path / "exp" / "train.log").read_text()
    weights = checkpoint.load(tmp_path / "exp" / "1epoch.pth")
    lengths = {int(value) for name, value in weights.items() if name.endswith("updates.of_run")}
    counts = {int(value) for name, value in weights.items() if name.endswith("updates.count")}
    assert len(lengths) == 1 and counts == {lengths.pop() - 1}  # the last update is seen by no forward pass
    assert all(torch.isfinite(value).all() for value in weights.values())
