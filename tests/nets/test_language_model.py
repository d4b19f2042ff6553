"""The language model at the softmax-equivalent setting equals ESPnet's."""

import pytest
import torch
from references.espnet_twin import pair

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.language_model import DiverseTransformerLM
from espnet_diverse.scope import scope

OPTIONS = {"embed_unit": 8, "att_unit": 16, "head": 2, "unit": 24, "layer": 2}


def test_language_model_equals_espnet():
    reference, net = pair(DiverseTransformerLM, 11, **OPTIONS)
    ys = torch.randint(1, 11, (2, 6))
    with scope(keep_attention=True):
        assert torch.equal(net(ys, None)[0], reference(ys, None)[0])


@pytest.mark.parametrize("core", ["sma", "sdma"])
def test_another_core_sees_no_later_token(core):
    torch.manual_seed(0)
    net = DiverseTransformerLM(11, attention={"core": core}, **OPTIONS).double().eval()
    ys = torch.randint(1, 11, (2, 6))
    changed = ys.clone()
    changed[:, 4:] = 1 + changed[:, 4:] % 10
    first, second = net(ys, None)[0], net(changed, None)[0]
    torch.testing.assert_close(first[:, :4], second[:, :4])
    assert not torch.allclose(first[:, 4:], second[:, 4:])


@pytest.mark.parametrize(
    ("attention", "said"),
    [
        ({"core": "sdmaa"}, "unknown attention 'sdmaa'; did you mean 'sdma'"),
        ({"core": "sma", "clusters": 3}, "has no option 'clusters'; known:"),
    ],
)
def test_what_the_core_does_not_know_is_refused(attention, said):
    with pytest.raises(ConfigError, match=said):
        DiverseTransformerLM(11, attention=attention, **OPTIONS)
