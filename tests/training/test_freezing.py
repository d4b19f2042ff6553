"""Parameters that are frozen by their names; `loop/test_tasks.py` trains with them."""

import pytest
import torch
from torch import nn

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.adapters.low_rank import LowRankOptions, add_low_rank
from espnet_diverse.training.freezing import freeze


def decoder():
    """A net whose output layer has the weight of its embedding."""
    torch.manual_seed(0)
    net = nn.ModuleDict({"embed": nn.Embedding(5, 4), "hidden": nn.Linear(4, 4), "output_layer": nn.Linear(4, 5)})
    net["output_layer"].weight = net["embed"].weight
    return net


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["*.weights"], r"freeze_param: the model has nothing under the name '\*.weights'; it has: embed hidden"),
        (["embde"], "freeze_param: the model has nothing under the name 'embde'; it has: embed hidden output_layer"),
        (["hidden", "emb"], "the model has nothing under the name 'emb'"),
        (["embed", "hidden", "output_layer"], "freeze_param embed hidden output_layer leaves no parameter to train"),
    ],
)
def test_freezing_unknown_or_all_parameters_is_refused(names, said):
    with pytest.raises(ConfigError, match=said):
        freeze(decoder(), names)


def still_trained(net):
    return {name for name, value in net.named_parameters() if value.requires_grad}


def test_patterns_freeze_and_unfreeze():
    net = decoder()
    freeze(net, "*", ["*.bias"])
    assert still_trained(net) == {"hidden.bias", "output_layer.bias"}
    net = decoder()
    freeze(net, None, None)  # null in a configuration
    assert still_trained(net) == {name for name, _ in net.named_parameters()}
    freeze(net, ["hidden.*", "output_layer.bias"], "hidden.bias")
    assert still_trained(net) == {"embed.weight", "hidden.bias"}
    with pytest.raises(ConfigError, match="unfreeze_param: the model has nothing under the name 'hidden.scale'; it"):
        freeze(net, [], ["hidden.scale"])


def adapted():
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.BatchNorm1d(4))
    add_low_rank(net, LowRankOptions(target_modules=["0"]))
    return net


def test_an_adapter_is_trained_and_frozen_batch_norms_keep_their_statistics():
    net = adapted()
    freeze(net, ["*"], ["3.*"])
    assert still_trained(net) == {"0.lora_A", "0.lora_B", "3.weight", "3.bias"}
    net.train()(torch.randn(5, 4))
    assert net[1].num_batches_tracked == 0 and net[3].num_batches_tracked == 1


@pytest.mark.parametrize("names", [[], ["2"]])
def test_a_map_that_is_trained_beside_its_adapter_is_refused(names):
    with pytest.raises(ConfigError, match="use_adapter: 0 has an adapter, and its weight is trained itself; freeze"):
        freeze(adapted(), names)
