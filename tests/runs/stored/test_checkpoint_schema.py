"""Values that a checkpoint may hold: others are refused with their place, before any of them is used."""

import copy
from collections import OrderedDict
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from espnet2.optimizers.sgd import SGD
from espnet2.schedulers.noam_lr import NoamLR
from espnet2.schedulers.warmup_lr import WarmupLR
from espnet2.train.reporter import Reporter, SubReporter
from torch.optim import lr_scheduler

from espnet_diverse.attention.update_counter import UpdateCounter
from espnet_diverse.errors import ModelError
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.stored import checkpoint_schema
from espnet_diverse.training.checkpoints.position import Position
from espnet_diverse.training.checkpoints.run_state import RunState, statistics_of

NAN = float("nan")


def model():
    return torch.nn.ModuleList([torch.nn.Linear(3, 2), torch.nn.Linear(2, 1, bias=False), UpdateCounter()])


def run_of(folder, kind=torch.optim.Adam, scheduler=WarmupLR, steps=2, **options):
    """The state of a run after some updates."""
    net = model()
    frozen = net[0].bias.requires_grad_(False)
    optimizer = kind(net.parameters(), **options)
    schedule = scheduler and scheduler(optimizer)
    for _ in range(steps):
        for parameter in net.parameters():
            parameter.grad = None if parameter is frozen else torch.rand_like(parameter)
        optimizer.step()
        if schedule is not None and not isinstance(schedule, lr_scheduler.ReduceLROnPlateau):
            schedule.step()
    updates = SimpleNamespace(model=net, optimizers=[optimizer], schedulers=[schedule], made=steps)
    state = RunState(folder, updates, Reporter(epoch=2))
    phase = {"loss": np.float64(2.0), "acc": NAN, "time": timedelta(seconds=3), "total_count": 6}
    state.reporter.stats = {1: {"train": phase, "valid": {**phase, "time": {"__timedelta_seconds__": 3.0}}}}
    return state


def position():
    reporter = SubReporter("train", 2, 7)
    reporter.register({"loss": torch.tensor(0.5), "acc": None}, torch.tensor(2.0))
    reporter.register({"lr": 0.5})
    reporter.next()
    return Position(2, 3, 7, 1, statistics_of(reporter))


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    run_of(folder).save_position(position())
    return checkpoint.load(folder / checkpoint.CHECKPOINT) | {"frozen": None, "low_rank": None}  # it is whole now


OPTIMIZERS = {  # and the schedulers that change more than the learning rate
    "adam": (torch.optim.Adam, WarmupLR, {"fused": True}),
    "adamw": (torch.optim.AdamW, lambda optimizer: NoamLR(optimizer, 256), {"amsgrad": True}),
    "sgd": (SGD, None, {}),
    "momentum": (SGD, lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=9), {"momentum": 0.9}),
    "adadelta": (torch.optim.Adadelta, lr_scheduler.ReduceLROnPlateau, {}),
    "adagrad": (torch.optim.Adagrad, lambda optimizer: lr_scheduler.StepLR(optimizer, 1), {}),
    "adamax": (torch.optim.Adamax, lambda optimizer: lr_scheduler.MultiStepLR(optimizer, [1, 5]), {}),
    "asgd": (torch.optim.ASGD, lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2), {}),
    "rmsprop": (torch.optim.RMSprop, lambda optimizer: lr_scheduler.CyclicLR(optimizer, 0.1, 1.0), {"momentum": 0.1}),
    "rprop": (torch.optim.Rprop, lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.9), {}),
    "radam": (torch.optim.RAdam, lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 5), {}),
}


@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_saved_training_state_is_allowed(name, steps, tmp_path):
    kind, scheduler, options = OPTIMIZERS[name]
    run_of(tmp_path, kind, scheduler, steps, **options).save_position(position())
    again = run_of(tmp_path, kind, scheduler, 0, **options)
    assert again.restore("cpu").batches == 3 and again.updates.made == steps
    state = again.optimizers[0].state_dict()
    assert len(state["state"]) == (3 if name == "adagrad" else 0 if steps == 0 or name == "sgd" else 2)


def test_a_run_without_the_fused_form_continues_without_it(tmp_path):
    run_of(tmp_path, fused=False).save_position(position())
    run_of(tmp_path, fused=True).restore("cpu")


def held(*path):
    """A function that puts a value at a place of a state."""

    def put(state, value):
        for key in path[:-1]:
            state = state[key]
        state[path[-1]] = value

    return put


ADAM = ("optimizers", 0, "state", 0)
GROUP = ("optimizers", 0, "param_groups", 0)
STATS = ("reporter", "stats", 1, "train")
FAULTS = [  # place, value and message
    (("reporter", "epoch"), "../x", "reporter.epoch is '../x'; allowed is a whole number of at least 0"),
    (("reporter", "epoch"), -1, "reporter.epoch is -1; "),
    (("reporter", "epoch"), 1.0, "reporter.epoch is 1.0; "),
    (("reporter", "epoch"), True, "reporter.epoch is True; "),
    (("reporter", "epoch"), 10**400, "reporter.epoch is a number of 1329 bits; "),
    (("reporter", "stats"), {"1": {}}, "a key of reporter.stats is '1'; "),
    (("reporter", "stats", 1), [1], "reporter.stats[1] is a list of 1; "),
    (("reporter", "stats", 1), {"a\x1b[31m": {}}, "a key of reporter.stats[1] is 'a\\x1b[31m'; "),
    ((*STATS, "loss"), "0.5", "reporter.stats[1]['train']['loss'] is '0.5'; allowed is a number"),
    ((*STATS, "time"), {"__timedelta_seconds__": "3"}, "['time'].__timedelta_seconds__ is '3'; allowed is a number"),
    ((*STATS, "total_count"), -6, "reporter.stats[1]['train'].total_count is -6; "),
    (STATS, {"loss": 2.0}, "reporter.stats[1]['train'] is without total_count; "),
    (("model",), None, "model is None; "),
    (("frozen",), "../x", "frozen is '../x'; allowed is a plain mapping"),
    (("low_rank",), {"0": (1.0, 2)}, "low_rank['0'][1] is 2; allowed is True or False"),
    (("model", "0.bias"), "text", "model['0.bias'] is 'text'; allowed is a tensor"),
    (("model", 3), torch.zeros(1), "a key of model is 3; "),
    (("optimizers",), [], "optimizers is a list of 0; allowed is a list of 1"),
    (
        ("optimizers", 0, "state", 0, "exp_avg"),
        torch.zeros(3, 2),
        "optimizers[0].state[0].exp_avg is a tensor of float32",
    ),
    ((*ADAM, "exp_avg_sq"), torch.zeros(()), "optimizers[0].state[0].exp_avg_sq is a tensor of float32 ()"),
    ((*ADAM, "exp_avg"), torch.zeros(2, 3, dtype=torch.float64), "exp_avg is a tensor of float64 (2, 3); "),
    (
        (*ADAM, "exp_avg"),
        torch.zeros(1).expand(2, 3),
        "exp_avg is a tensor of float32 (2, 3); allowed is a tensor of real numbers that are all",
    ),
    ((*ADAM, "exp_avg"), torch.full((2, 3), NAN), "exp_avg is not finite; "),
    ((*ADAM, "exp_avg"), [0.0] * 6, "exp_avg is a list of 6; "),
    ((*ADAM, "step"), torch.zeros(0), "step is a tensor of float32 (0,); allowed is a tensor of float32 ()"),
    ((*ADAM, "step"), 3, "step is 3; "),
    ((*ADAM, "max_exp_avg_sq"), torch.zeros(2, 3), "a key of optimizers[0].state[0] is 'max_exp_avg_sq'; "),
    (ADAM, {"step": torch.zeros(())}, "optimizers[0].state[0] is without exp_avg exp_avg_sq; "),
    (("optimizers", 0, "state", 9), {"step": torch.zeros(())}, "a key of optimizers[0].state is 9; "),
    (("optimizers", 0, "state", "0"), {}, "a key of optimizers[0].state is '0'; "),
    ((*GROUP, "params"), [0, 1, 1], "param_groups[0].params[2] is 1; allowed is 2"),
    ((*GROUP, "params"), [0, 1], "param_groups[0].params is a list of 2; allowed is a list of 3"),
    ((*GROUP, "lr"), -1.0, "param_groups[0].lr is -1.0; "),
    ((*GROUP, "lr"), NAN, "param_groups[0].lr is nan; "),
    ((*GROUP, "lr"), torch.tensor(0.1), "param_groups[0].lr is a tensor of float32 (); "),
    ((*GROUP, "betas"), (0.9,), "param_groups[0].betas is a tuple of 1; "),
    ((*GROUP, "betas"), ("x", 0.9), "param_groups[0].betas[0] is 'x'; "),
    ((*GROUP, "fused"), "yes", "param_groups[0].fused is 'yes'; "),
    ((*GROUP, "amsgrad"), True, "optimizers[0].state[0] is without max_exp_avg_sq; "),
    (("schedulers",), [None, None], "schedulers is a list of 2; "),
    (("schedulers", 0), None, "schedulers[0] is None; "),
    (("schedulers", 0, "last_epoch"), -1, "schedulers[0].last_epoch is -1; "),
    (("schedulers", 0, "last_epoch"), "3", "schedulers[0].last_epoch is '3'; "),
    (("schedulers", 0, "base_lrs"), [0.1, 0.1], "schedulers[0].base_lrs is a list of 2; "),
    (("schedulers", 0, "step"), 3, "a key of schedulers[0] is 'step'; "),
    (("schedulers", 0, "optimizer"), 3, "a key of schedulers[0] is 'optimizer'; "),
    (("scaler",), {"scale": "x"}, "scaler['scale'] is 'x'; "),
    (("base_learning_rates",), [[0.1, 0.1]], "base_learning_rates[0] is a list of 2; allowed is a list of 1"),
    (("updates",), -1, "updates is -1; "),
    (("updates_before", 0), -1.0, "updates_before[0] is -1.0; "),
    (("updates",), None, "updates is None; "),
    (("base_learning_rates",), None, "base_learning_rates is None; "),
    (("updates",), 0.5, "updates is 0.5; "),
    (("within_epoch", "epoch"), 0, "within_epoch.epoch is 0; "),
    (("within_epoch", "more"), 0, "a key of within_epoch is 'more'; "),
    (
        ("within_epoch", "statistics", "count"),
        2,
        "statistics.stats['loss'][0] is a tensor of float64 (1,); allowed is ",
    ),
    (("within_epoch", "statistics", "stats"), {"loss": 3}, "within_epoch.statistics.stats['loss'] is 3; "),
    (("within_epoch", "processes"), 0, "within_epoch.processes is 0; "),
    (("within_epoch", "digest"), 2**70, "within_epoch.digest is "),
]


@pytest.mark.parametrize(("path", "value", "said"), FAULTS, ids=lambda part: part if isinstance(part, str) else "")
def test_a_value_that_is_not_allowed_is_refused_with_its_place(path, value, said, sound, tmp_path):
    state = copy.deepcopy(sound)
    held(*path)(state, value)
    (tmp_path / "run").mkdir()
    checkpoint.save(state, tmp_path / "run" / "checkpoint.pth")
    run = run_of(tmp_path / "run")
    before = {name: each.clone() for name, each in run.model.state_dict().items()}
    with pytest.raises(ModelError) as error:
        run.restore("cpu")
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'run' / 'checkpoint.pth'}: ") and said in message and "\n" not in message
    assert message.isprintable() and len(message) < 600
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["checkpoint.pth"] and len(
        list(tmp_path.iterdir())
    ) == 1
    assert all(torch.equal(each, before[name]) for name, each in run.model.state_dict().items())


def test_keys_of_other_versions_are_left_alone(sound, tmp_path):
    state = copy.deepcopy(sound)
    del state["within_epoch"]
    state |= {"added later": "x"}
    state["schedulers"][0]["verbose"] = "deprecated"
    del state["optimizers"][0]["param_groups"][0]["decoupled_weight_decay"]
    checkpoint.save(state, tmp_path / "checkpoint.pth")
    assert run_of(tmp_path).restore("cpu") is None


WEIGHTS = {
    "text": ({"w": "x"}, "weights['w'] is 'x'; allowed is a tensor"),
    "nothing": ({"w": None}, "weights['w'] is None; allowed is a tensor"),
    "a list": ({"w": [1.0]}, "weights['w'] is a list of 1; allowed is a tensor"),
    "a number": ({"w": 10**400}, "weights['w'] is a number of 1329 bits; allowed is a tensor"),
    "complex": ({"w": torch.zeros(2, dtype=torch.complex64)}, "weights['w'] is a tensor of complex64 (2,); "),
    "one element a billion times": (
        {"w": torch.zeros(1).expand(10**9)},
        "is a tensor of float32 (1000000000,); ",
    ),
    "one tensor many times": (dict.fromkeys("abcdefghi", torch.zeros(9)), "the size of the weights is 324 bytes; "),
    "a number as key": ({3: torch.zeros(1)}, "a key of weights is 3; "),
    "a key with an escape": ({"a\x1b[2J": torch.zeros(1)}, "a key of weights is 'a\\x1b[2J'; "),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights_that_are_no_dense_tensors_are_one_line(kind, tmp_path):
    state, said = WEIGHTS[kind]
    checkpoint.save(state, tmp_path / "w.pth")
    for read in (checkpoint.load, checkpoint.load_weights):
        with pytest.raises(ModelError) as error:
            read(tmp_path / "w.pth")
        assert str(error.value).startswith(f"{tmp_path / 'w.pth'}: ") and said in str(error.value)
        assert str(error.value).isprintable()


def test_mappings_that_hide_their_methods_are_refused(tmp_path):
    weights = OrderedDict(w=torch.zeros(1))
    weights._metadata = OrderedDict()  # as PyTorch's
    checkpoint.save({"model": weights}, tmp_path / "c.pth")
    assert checkpoint.load(tmp_path / "c.pth")["model"].keys() == {"w"}
    weights.keys = 3
    for content in (weights, {"model": weights}):
        checkpoint.save(content, tmp_path / "c.pth")
        with pytest.raises(ModelError, match="a plain mapping"):
            checkpoint.load(tmp_path / "c.pth")


def test_objects_that_are_held_many_times_take_no_time(tmp_path):
    """Ten levels of ten references are ten billion paths."""
    inner = {"loss": 1.0}
    phases = {f"p{i}": inner for i in range(2000)}
    checkpoint.save({"reporter": {"stats": dict.fromkeys(range(1, 50_000), phases)}}, tmp_path / "c.pth")
    assert len(checkpoint.load(tmp_path / "c.pth")["reporter"]["stats"]) == 49_999
    bomb: list = []
    for _ in range(40):
        bomb = [bomb] * 10
    checkpoint.save({"w": bomb}, tmp_path / "c.pth")
    with pytest.raises(ModelError, match=r"weights\['w'\] is a list of 10; "):
        checkpoint.load(tmp_path / "c.pth")


def test_tied_weights_are_allowed(tmp_path):
    weight = torch.zeros(100, 3)
    checkpoint.save({"embed": weight, "output": weight, "bias": torch.zeros(3)}, tmp_path / "w.pth")
    assert len(checkpoint.load_weights(tmp_path / "w.pth")) == 3


class Counting(torch.optim.SGD):
    """An optimizer of another package, whose state has a number."""

    def step(self):
        (group,) = self.param_groups
        if group.get("on_gpu"):
            raise RuntimeError("no GPU")
        for parameter in group["params"]:
            self.state[parameter] = {"step": 1, "sum": torch.zeros_like(parameter)}


@pytest.mark.parametrize(
    ("options", "kept", "said"),
    [
        ({"lr": 0.2}, {"step": 3, "sum": torch.zeros(4, 3)}, None),
        ({}, {"step": "3", "sum": torch.zeros(4, 3)}, r"state\[0\].step is '3'; allowed is a number"),
        ({}, {"step": 3, "sum": torch.zeros(3, 4)}, r"state\[0\].sum"),
        ({"on_gpu": True}, {"step": "3"}, None),  # nothing is known of its state on a CPU
    ],
)
def test_state_of_an_unknown_optimizer_must_match_its_first_step(options, kept, said):
    layouts = checkpoint_schema._Layouts(Counting, [options], "optimizers")
    parameter = torch.nn.Parameter(torch.zeros(4, 3))
    if said is None:
        layouts.check(kept, "state[0]", 0, parameter)
        return
    with pytest.raises(checkpoint_schema.MisfitError, match=said):
        layouts.check(kept, "state[0]", 0, parameter)
