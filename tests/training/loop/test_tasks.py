from argparse import Namespace

import pytest
import torch
from training.test_freezing import decoder

from espnet_diverse.runs import tasks
from espnet_diverse.training.loop.tasks import TASKS
from espnet_diverse.training.loop.trainer import Trainer


def test_they_are_the_tasks_of_runs_with_our_trainer():
    assert TASKS.keys() == tasks.TASKS.keys()
    for name, task in TASKS.items():
        assert issubclass(task, tasks.TASKS[name]) and task.trainer is Trainer
        assert task.name == name and task.__doc__ == tasks.TASKS[name].__doc__
        assert tasks.TASKS[name].trainer is not Trainer


def optimizer(model, **options):
    (built,) = TASKS["mt"].build_optimizers(args := Namespace(optim_conf=options, **COMMON), model)
    assert args.optim_conf == options  # config.yaml shows the options as given
    return built


COMMON = {
    "optim": "adam",
    "sharded_ddp": False,
    "num_optimizers": 1,
    "exclude_weight_decay": False,
    "exclude_weight_decay_conf": {},
    "freeze_param": [],
    "unfreeze_param": [],
}


@pytest.mark.parametrize(("options", "fused"), [({}, True), ({"fused": False}, False), ({"foreach": True}, None)])
def test_adam_is_fused_unless_its_form_is_chosen(options, fused):
    assert optimizer(torch.nn.Linear(2, 3), lr=0.1, **options).param_groups[0]["fused"] is fused


@pytest.mark.parametrize("name", ["sgd", "adadelta"])
def test_other_optimizers_are_as_espnet_builds_them(name, monkeypatch):
    monkeypatch.setitem(COMMON, "optim", name)
    assert not optimizer(torch.nn.Linear(2, 3), lr=0.1).param_groups[0].get("fused")


def trained(fused):
    torch.manual_seed(0)
    model, x = torch.nn.Linear(7, 5), torch.randn(11, 7)
    adam = optimizer(model, lr=0.1, betas=(0.9, 0.98), **({} if fused else {"fused": False}))
    for _ in range(20):
        adam.zero_grad()
        model(x).square().sum().backward()
        adam.step()
    return model.weight.detach(), adam


def test_both_forms_train_alike():
    torch.testing.assert_close(trained(True)[0], trained(False)[0], rtol=1e-4, atol=1e-5)


def test_a_run_that_began_without_it_continues_without_it():
    (_, fused), (_, plain) = trained(True), trained(False)
    fused.load_state_dict(plain.state_dict())
    assert fused.param_groups[0]["fused"] is False


@pytest.mark.parametrize("frozen", ["output_layer", ["embed", "hidden.bias"], ["output_layer.weight", "hidden"]])
@pytest.mark.parametrize("options", [{}, {"exclude_weight_decay": True}, {"optim": "sgd"}], ids=str)
def test_frozen_parameters_stay_by_each_of_their_names(frozen, options, monkeypatch):
    for name, value in ({"freeze_param": frozen} | options).items():
        monkeypatch.setitem(COMMON, name, value)
    net = decoder()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    adam = optimizer(net, lr=0.1, weight_decay=0.1)
    for _ in range(3):
        adam.zero_grad()
        net["output_layer"](net["hidden"](net["embed"].weight)).square().sum().backward()
        adam.step()
    after = net.state_dict()
    kept = {name for name in before if torch.equal(before[name], after[name])}
    expected = {name for name in before if name.startswith(frozen if isinstance(frozen, str) else tuple(frozen))}
    expected |= {"embed.weight", "output_layer.weight"}  # of which each of the three has a name
    assert kept == expected
