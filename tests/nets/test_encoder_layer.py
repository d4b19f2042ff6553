"""Encoders of long inputs, part by part, against the whole; ESPnet's layers keep their results and their state."""

import pytest
import torch
from references.espnet_twin import OPTIONS, SMALL, pair

from espnet_diverse.attention import CORES, parts
from espnet_diverse.nets import ENCODERS, subsampling
from espnet_diverse.nets.encoder_layer import PartwiseFeedForward, PartwiseLayer
from espnet_diverse.nets.memory import MEMORIES
from espnet_diverse.scope import scope
from espnet_diverse.upstream.layers import EncoderLayer

LENGTHS = torch.tensor([330, 150])
TRANSFORMER = {
    "softmax": {},
    "post-norm": {"normalize_before": False},
    "concatenated": {"concat_after": True},
    "concatenated post-norm": {"concat_after": True, "normalize_before": False},
    "convolutions": {"positionwise_layer_type": "conv1d"},
    "adapters": {"adapter": {"bottleneck": 4, "by": "lang", "conditions": {"lang": ["de"]}}},
    "window": {"attention": {"core": "window", "window": 3}},
    "window group": {
        "attention": {
            "core": "window",
            "window": 3,
            "selection": {"strategy": "group", "pool": 4, "conditions": {"lang": ["de"]}},
        }
    },
    "luna": {"attention": {"core": "luna", "length": 5}},
    "luna not contextual": {"attention": {"core": "luna", "length": 5, "contextual": False}},
    "bigbird": {"attention": {"core": "bigbird", "block_size": 2}},
    "sinkhorn": {"attention": {"core": "sinkhorn", "block_size": 4}},
    "reformer": {"attention": {"core": "reformer", "chunk_size": 4}},
    "lambda_attention": {"attention": {"core": "lambda_attention"}},
    "random_features": {"attention": {"core": "random_features"}},
    "linformer": {"attention": {"core": "linformer", "compressed_length": 3, "max_length": 90}},
    "cdt": {"memory": {"kind": "cdt", "segment": 5, "slots": 3}},
    "cdt shared": {"memory": {"kind": "cdt", "segment": 5, "slots": 3, "scope": "shared"}},
    "cdt over luna": {"memory": {"kind": "cdt", "segment": 5, "slots": 3}, "attention": {"core": "luna"}},
    "xl": {"memory": {"kind": "xl", "segment": 7}},
    "compressive": {"memory": {"kind": "compressive", "segment": 20}},
}
CASES = {name: ("diverse_transformer", SMALL | options) for name, options in TRANSFORMER.items()}
CASES |= {
    f"window {name}": (name, OPTIONS[name] | {"attention": {"core": "window", "window": 3}})
    for name in ("diverse_conformer", "diverse_e_branchformer")
}


def encoded(net, x, part, monkeypatch):
    monkeypatch.setattr(parts, "PART", part)
    monkeypatch.setattr(subsampling, "_CHUNK", part)
    with torch.inference_mode():
        return net(x, LENGTHS)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float, 1e-5), (torch.double, 1e-11)], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_long_inputs_part_by_part_equal_the_whole(case, dtype, tolerance, monkeypatch):
    name, options = CASES[case]
    torch.manual_seed(0)
    net, x = ENCODERS[name](20, **options).to(dtype).eval(), torch.randn(2, 330, 20, dtype=dtype)
    with scope({"lang": torch.tensor([0])}, collect=False):
        whole, lengths, _ = encoded(net, x, 2048, monkeypatch)
        found, same, _ = encoded(net, x, 16, monkeypatch)
    assert torch.equal(lengths, same)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(found[row, :length], whole[row, :length], rtol=tolerance, atol=tolerance)


def test_every_core_of_linear_cost_and_every_memory_is_tested():
    given = [options for _, options in CASES.values()]
    assert {name for name, core in CORES.items() if core.linear} <= {
        options["attention"]["core"] for options in given if "attention" in options
    }
    assert set(MEMORIES) == {options["memory"]["kind"] for options in given if "memory" in options}


@pytest.mark.parametrize("options", [{}, {"memory": {"kind": "cdt"}}], ids=["softmax", "cdt"])
def test_no_part_of_a_layer_sees_a_long_input(options, monkeypatch):
    net, seen = ENCODERS["diverse_transformer"](20, **SMALL, **options).eval(), []
    for name in ("norm1", "norm2", "feed_forward.w_1"):
        net.encoders[0].get_submodule(name).register_forward_hook(lambda _, given, __: seen.append(given[0].size(1)))
    encoded(net, torch.randn(2, 330, 20), 16, monkeypatch)
    assert len(seen) == 18 and max(seen) == 16


def test_the_layers_are_espnets():
    reference, net = pair(ENCODERS["diverse_transformer"], 20, **SMALL)
    assert all(isinstance(layer, PartwiseLayer) and isinstance(layer, EncoderLayer) for layer in net.encoders)
    assert all(isinstance(layer.feed_forward, PartwiseFeedForward) for layer in net.encoders)
    assert not any(layer.training or layer.feed_forward.training for layer in net.encoders)
    assert list(net.state_dict()) == list(reference.state_dict())
    convolutions = ENCODERS["diverse_transformer"](20, **SMALL, positionwise_layer_type="conv1d")
    assert all(type(layer) is EncoderLayer for layer in convolutions.encoders)


def test_training_and_gradients_see_the_whole(monkeypatch):
    monkeypatch.setattr(parts, "PART", 16)
    net, seen = ENCODERS["diverse_transformer"](20, **SMALL), []
    net.encoders[0].feed_forward.w_1.register_forward_hook(lambda _, given, __: seen.append(given[0].size(1)))
    x = torch.randn(2, 330, 20)
    net(x, LENGTHS)
    net.eval()(x, LENGTHS)
    assert seen == [81, 81]


def test_a_cache_matches_espnet():
    (theirs, *_), (layer, *_) = (net.encoders for net in pair(ENCODERS["diverse_transformer"], 20, **SMALL))
    x, mask = torch.randn(1, 5, 16), torch.ones(1, 5, 5, dtype=torch.bool).tril()
    with torch.no_grad():
        whole, _ = layer(x, mask)
        cached, _ = layer(x, mask, cache=whole[:, :4])
        expected, _ = theirs(x, mask, cache=whole[:, :4])
    torch.testing.assert_close(cached, expected)
    torch.testing.assert_close(cached, whole)
