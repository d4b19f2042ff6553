"""The frozen part of a model is saved once, and every file of weights of the run is read as a whole."""

from types import SimpleNamespace

import pytest
import torch
from espnet2.train.reporter import Reporter
from torch import nn

from espnet_diverse.errors import ModelError
from espnet_diverse.nets.adapters.low_rank import LowRankOptions, add_low_rank
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.stored.frozen_part import PATTERN, file_beside, tensor_digests, whole_digest
from espnet_diverse.training.checkpoints.averaging import average
from espnet_diverse.training.checkpoints.resumption import is_resumed, weight_files
from espnet_diverse.training.checkpoints.run_state import RunState
from espnet_diverse.training.freezing import freeze


def net():
    """A net with a map that is frozen, statistics that change, and a constant."""
    torch.manual_seed(0)
    made = nn.ModuleDict({"base": nn.Linear(20, 30), "norm": nn.BatchNorm1d(30), "top": nn.Linear(30, 2)})
    made.register_buffer("constant", torch.arange(7))
    made["norm"].requires_grad_(False)
    made["base"].requires_grad_(False)
    return made


def adapted():
    """A net with adapters, of a map and of a square embedding, and nothing else that is trained."""
    torch.manual_seed(0)
    made = nn.ModuleDict({"words": nn.Embedding(8, 8), "base": nn.Linear(8, 8), "top": nn.Linear(8, 2)})
    add_low_rank(made, LowRankOptions(target_modules=["words", "base"], rank=2))
    freeze(made, "*")
    for name, value in made.named_parameters():
        if "lora_" in name:
            nn.init.normal_(value)
    return made


def state_of(folder, model, epochs=0):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    updates = SimpleNamespace(model=model, optimizers=[optimizer], schedulers=[None], made=epochs)
    reporter = Reporter(epoch=epochs)
    reporter.stats = {
        number: {phase: {"loss": 1.0, "total_count": 1} for phase in ("train", "valid")}
        for number in range(1, epochs + 1)
    }
    return RunState(folder, updates, reporter, [("valid", "loss", "min")])


def train(model):
    """Change what training changes."""
    model.train()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter += 0.5
    if "norm" in model:
        model["norm"](torch.randn(5, 30))
    model.eval()


def trained(folder, model, epochs=2):
    """Save some epochs; return the weights of each, as in evaluation."""
    states, state = [], state_of(folder, model)
    for epoch in range(1, epochs + 1):
        train(model)
        fresh = state_of(folder, model, epoch)
        state.reporter = fresh.reporter
        state.save_epoch(keep=epochs)
        states.append({name: value.clone() for name, value in model.state_dict().items()})
    return states


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


@pytest.mark.parametrize("make", [net, adapted])
def test_every_epoch_is_whole_when_it_is_read(make, tmp_path):
    states = trained(tmp_path, make())
    (frozen,) = tmp_path.glob(PATTERN)
    assert {path.name for path in tmp_path.glob("*.pth") if path.is_symlink()} == {"latest.pth", "valid.loss.best.pth"}
    for epoch, expected in enumerate(states, start=1):
        assert_equal(checkpoint.load_weights(tmp_path / f"{epoch}epoch.pth"), expected)
    assert_equal(checkpoint.load_weights(tmp_path / "latest.pth"), states[-1])
    assert_equal(checkpoint.load_weights(tmp_path / checkpoint.CHECKPOINT), states[-1])
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link.pth").symlink_to(tmp_path / "2epoch.pth")
    assert_equal(checkpoint.load_weights(tmp_path / "elsewhere" / "link.pth"), states[-1])
    assert frozen in weight_files(tmp_path)  # which `restart` deletes


def test_an_epoch_file_has_what_changes(tmp_path):
    trained(tmp_path, net())
    (frozen,) = tmp_path.glob(PATTERN)
    own = torch.load(tmp_path / "2epoch.pth", weights_only=True)["model"]
    assert own.keys() == {
        *("norm.running_mean", "norm.running_var", "norm.num_batches_tracked", "top.weight", "top.bias")
    }
    assert {"base.weight", "norm.weight", "constant"} < torch.load(frozen, weights_only=True).keys()
    everything = net().requires_grad_(True)
    (tmp_path / "all").mkdir()
    trained(tmp_path / "all", everything, 1)
    assert not list((tmp_path / "all").glob(PATTERN))
    assert torch.load(tmp_path / "all" / "1epoch.pth", weights_only=True).keys() == everything.state_dict().keys()


@pytest.mark.parametrize("make", [net, adapted])
def test_a_run_continues_with_the_same_frozen_part(make, tmp_path):
    straight, resumed = make(), make()
    (tmp_path / "straight").mkdir()
    expected = trained(tmp_path / "straight", straight, 3)[-1]
    torch.manual_seed(0)
    (folder := tmp_path / "resumed").mkdir()
    trained(folder, resumed, 2)
    (folder / "2epoch.pth").unlink()
    again = make()
    for parameter in again.parameters():
        nn.init.zeros_(parameter)
    state = state_of(folder, again)
    state.restore("cpu")
    assert (folder / "2epoch.pth").is_file()
    torch.manual_seed(1)
    for model in (resumed, again):
        with torch.random.fork_rng():
            train(model)
    assert_equal(again.state_dict(), resumed.state_dict())
    if make is adapted:
        assert_equal(again.state_dict(), expected)
    state.reporter = state_of(folder, again, 3).reporter
    state.save_epoch(keep=3)
    assert len(list(folder.glob(PATTERN))) == 1
    assert_equal(checkpoint.load_weights(folder / "3epoch.pth"), resumed.state_dict())


def test_the_average_is_whole(tmp_path):
    states = trained(tmp_path, adapted())
    (tmp_path / "config.yaml").write_text("best_model_criterion: [[valid, loss, min]]\n")
    path = average(tmp_path, "valid.loss", 2)
    found = torch.load(path, weights_only=True)
    assert found.keys() == states[0].keys()
    for name, value in found.items():
        torch.testing.assert_close(value, (states[0][name] + states[1][name]) / 2, msg=name)


def test_a_run_whose_file_was_whole_continues(tmp_path):
    model = adapted()
    train(model)
    state_of(tmp_path, model, 1)._save(Reporter(epoch=1).state_dict(), {"model": model.state_dict()})
    again = adapted()
    state = state_of(tmp_path, again)
    state.restore("cpu")
    assert_equal(again.state_dict(), model.state_dict())


def test_a_missing_altered_or_damaged_frozen_part_is_named(tmp_path):
    trained(tmp_path, net())
    (frozen,) = tmp_path.glob(PATTERN)
    content = frozen.read_bytes()
    todo = "copy it from the directory of the run$"
    for file in ("1epoch.pth", "checkpoint.pth"):
        frozen.unlink()
        with pytest.raises(
            ModelError, match=rf"{frozen.name}: is missing, and {file} lacks the frozen part .*; {todo}"
        ):
            checkpoint.load_weights(tmp_path / file)
        checkpoint.save(net().state_dict(), frozen)
        with pytest.raises(ModelError, match=rf"{frozen.name}: is altered, as it is not the .* in {file}; {todo}"):
            checkpoint.load_weights(tmp_path / file)
        frozen.write_bytes(content[:-100] + b"x" + content[-99:])
        with pytest.raises(ModelError, match=rf"{frozen.name}: the file is damaged"):
            checkpoint.load_run(tmp_path)
        frozen.write_bytes(content)
    (other := tmp_path / "other").mkdir()
    trained(other, adapted())
    state = torch.load(other / "1epoch.pth", weights_only=True)
    del state["model"]["base.lora_A"]
    torch.save(state, other / "1epoch.pth")
    with pytest.raises(ModelError, match="1epoch.pth: lacks parameters of the adapter of base, or they do not fit it"):
        checkpoint.load_weights(other / "1epoch.pth")
    state["low_rank"]["base"] = (1.0, 3)
    torch.save(state, other / "1epoch.pth")
    with pytest.raises(ModelError, match=r"low_rank\['?base'?\]\[1\] is 3; allowed is True or False"):
        checkpoint.load_weights(other / "1epoch.pth")


def test_a_kill_before_the_first_save_leaves_a_run_that_begins(tmp_path):
    trained(tmp_path, net())
    for path in weight_files(tmp_path):
        if not path.match(PATTERN):
            path.unlink()
    assert not is_resumed(tmp_path)


def test_digests_depend_on_names_types_shapes_and_content(tmp_path):
    tensor = torch.arange(6.0)
    given = [{"a": tensor}, {"b": tensor}, {"a": tensor.double()}, {"a": tensor.view(2, 3)}, {"a": tensor + 1}]
    assert len({whole_digest(tensor_digests(each)) for each in given}) == len(given)
    parts = {"a": torch.tensor(1), "b": tensor.view(2, 3).T, "c": torch.empty(0), "d": tensor.bfloat16()}
    digests = tensor_digests({**parts, "e": 3})
    assert digests.keys() == parts.keys() and digests["b"] == tensor_digests({"b": parts["b"].contiguous()})["b"]
    assert file_beside(tmp_path / "x.pth", digests).name == f"frozen.{whole_digest(digests)[:16]}.pth"
