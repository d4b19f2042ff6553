"""lambda_init of differential attention and of its extension, by layer or constant, in nets and in weights."""

import math

import pytest
import torch

from espnet_diverse.attention.modifiers.lambda_init import LambdaInit
from espnet_diverse.nets import DECODERS, ENCODERS
from espnet_diverse.runs.checkpoint import load_strict

SMALL = {"attention_heads": 2, "linear_units": 24, "num_blocks": 3}
BY_LAYER = [0.8 - 0.6 * math.exp(-0.3 * before) for before in range(3)]  # layers before this one


def encoder(**attention):
    return ENCODERS["diverse_transformer"](20, attention=attention, output_size=16, **SMALL).eval()


def values(net):
    return [module.value for module in net.modules() if isinstance(module, LambdaInit)]


@pytest.mark.parametrize("attention", [{"core": "differential"}, {"dex": {"steps": 10}}], ids=["core", "dex"])
def test_each_layer_has_its_own_unless_a_constant_is_given(attention):
    assert values(encoder(**attention)) == pytest.approx(BY_LAYER)
    assert values(encoder(**attention, layers=[3])) == pytest.approx(BY_LAYER[2:])
    decoder = DECODERS["diverse_transformer"](11, 16, attention=attention, cross_attention=attention, **SMALL)
    assert sorted(values(decoder)) == pytest.approx(sorted(2 * BY_LAYER))
    constant = {"core": "differential", "lambda_init": 0.3} if "core" in attention else {"dex": {"lambda_init": 0.3}}
    assert values(encoder(**constant)) == [0.3] * 3
    assert not [name for name in encoder(**constant).state_dict() if "lambda_init" in name]


def test_the_layers_compute_with_their_own():
    net, constant = encoder(core="differential"), encoder(core="differential", lambda_init=BY_LAYER[1])
    state = {name: value for name, value in net.state_dict().items() if "lambda_init" not in name}
    load_strict(constant, state, "constant.pth")
    x = torch.randn(1, 9, 16)
    alike = [
        torch.allclose(own.self_attn(x, x, x), other.self_attn(x, x, x))
        for own, other in zip(net.encoders, constant.encoders, strict=True)
    ]
    assert alike == [False, True, False]


def test_weights_without_it_keep_the_former_default():
    """Configurations of earlier versions need not name the default, 0.8 in all layers."""
    state = encoder(core="differential").state_dict()
    former = {name: value for name, value in state.items() if "lambda_init" not in name}
    net = encoder(core="differential")
    load_strict(net, former, "former.pth")
    assert values(net) == [0.8] * 3
    again = encoder(core="differential")
    load_strict(again, net.state_dict(), "again.pth")
    assert values(again) == [0.8] * 3
    load_strict(again, state, "new.pth")
    assert values(again) == pytest.approx(BY_LAYER)


def test_weights_of_another_attention_leave_it():
    net = encoder(core="differential")
    net.load_state_dict(encoder(core="softmax").state_dict() | {"unknown": torch.ones(1)}, strict=False)
    assert values(net) == pytest.approx(BY_LAYER)
