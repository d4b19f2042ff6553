"""The training loop gives the weights and statistics of ESPnet's own trainer, bit for bit."""

import pytest
import torch
from espnet2.train import trainer as espnet_trainer
from references.espnet_loop import ESPnetTrainer, seeded_noise
from references.train_command import NOISELESS, train

from espnet_diverse.runs import checkpoint
from espnet_diverse.training.loop.tasks import TASKS
from espnet_diverse.training.loop.trainer import Trainer

pytestmark = pytest.mark.usefixtures("forks")
WITHOUT_DROPOUT = [change for change in NOISELESS if "dropout" in change]
SETTINGS = ["batch_size=2", "optim_conf={lr: 1e-2, fused: false}", "keep_nbest_models=2", "log_interval=2"]
COSTS = ("time", "mem", "gradient_", "loss_scale")  # and what one of the two measures


NAMES = ("ours", "espnet")


class TwoOptimizers(TASKS["asr"]):
    """A task that trains the encoder by gradient descent, and the rest by Adam."""

    num_optimizers = 2

    @classmethod
    def build_optimizers(cls, args, model):
        encoder = list(model.encoder.parameters())
        rest = [parameter for name, parameter in model.named_parameters() if not name.startswith("encoder.")]
        return [torch.optim.SGD(encoder, lr=0.1), torch.optim.Adam(rest, lr=1e-3)]


def both(run, folder, monkeypatch, *changes, task=TASKS["asr"], **more):
    """Train by our loop and by ESPnet's; return the state of each after the last epoch."""
    states = {}
    for name, kind in zip(NAMES, (Trainer, ESPnetTrainer), strict=True):
        monkeypatch.setattr(task, "trainer", kind)
        assert train(run, folder / name, *SETTINGS, *changes, **more) == 0
        states[name] = checkpoint.load(folder / name / checkpoint.CHECKPOINT)
        stats = states[name]["reporter"]["stats"][1]["train"]
        assert ("loss_scale" in stats) == (kind is ESPnetTrainer)  # which it alone reports
    return states["ours"], states["espnet"]


def check_same(ours, theirs, accum_grad=1):
    """Check that weights, states of optimizers and statistics are equal."""
    assert ours["model"].keys() == theirs["model"].keys()
    assert [name for name in ours["model"] if not torch.equal(ours["model"][name], theirs["model"][name])] == []
    for own, other in zip(ours["optimizers"], theirs["optimizers"], strict=True):
        for index, kept in other["state"].items():
            assert all(torch.equal(own["state"][index][name], value) for name, value in kept.items())
    for epoch, phases in theirs["reporter"]["stats"].items():
        for phase, stats in phases.items():
            found = ours["reporter"]["stats"][epoch][phase]
            for name, value in stats.items():
                if not any(cost in name for cost in COSTS):
                    # ESPnet divides the loss of a single process by accum_grad before it is reported.
                    factor = accum_grad if phase == "train" and name == "loss" else 1
                    assert found[name] == pytest.approx(factor * value, rel=1e-6 if factor > 1 else 0), name


@pytest.mark.parametrize("accum_grad", [1, 3])
@pytest.mark.parametrize(
    ("attention", "changes"),
    [("softmax", WITHOUT_DROPOUT), ("softmax", []), ("sdma", [])],
    ids=["softmax", "with dropout", "sdma"],
)
def test_a_training_matches_espnet(attention, changes, accum_grad, tiny_run, tmp_path, monkeypatch):
    run = tiny_run._replace(
        config=[part.replace("attention/sdma", f"attention/{attention}") for part in tiny_run.config]
    )
    ours, theirs = both(run, tmp_path, monkeypatch, *changes, f"accum_grad={accum_grad}")
    check_same(ours, theirs, accum_grad)
    links = [{path.name: path.resolve().name for path in (tmp_path / name).glob("*.best.pth")} for name in NAMES]
    assert links[0] == links[1] and links[0]
    averages = [checkpoint.load(tmp_path / name / "valid.acc.ave.pth") for name in NAMES]
    torch.testing.assert_close(*averages)  # ours adds up in double precision


def test_noise_of_gradients_matches_espnet(tiny_run, tmp_path, monkeypatch):
    monkeypatch.setattr(espnet_trainer, "add_gradient_noise", seeded_noise(0, espnet_trainer.add_gradient_noise))
    ours, theirs = both(tiny_run, tmp_path, monkeypatch, "grad_noise=true", "accum_grad=3")
    check_same(ours, theirs, 3)


def test_two_optimizers_update_as_with_espnet(tiny_run, tmp_path, monkeypatch):
    monkeypatch.setitem(TASKS, "asr", TwoOptimizers)
    schedules = ["scheduler2=warmuplr", "scheduler2_conf={warmup_steps: 3}"]
    ours, theirs = both(tiny_run, tmp_path, monkeypatch, *schedules, task=TwoOptimizers)
    check_same(ours, theirs)
    assert len(ours["optimizers"]) == 2 and ours["schedulers"][1] == theirs["schedulers"][1] is not None


@pytest.mark.recipes
@pytest.mark.parametrize("accum_grad", [1, 3])
def test_two_processes_train_as_with_espnet(accum_grad, tiny_run, tmp_path, monkeypatch):
    ours, theirs = both(tiny_run, tmp_path, monkeypatch, f"accum_grad={accum_grad}", nproc=2)
    check_same(ours, theirs)
