"""Layers that ESPnet computes again in the backward pass: the same gradients, or a refusal when the net is built."""

import pytest
import torch

from espnet_diverse.contrib.flowseq import FlowDecoder
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets import DECODERS, ENCODERS
from espnet_diverse.nets.adapters.low_rank import LowRankOptions, add_low_rank
from espnet_diverse.scope import Step, scope

LENGTHS = torch.tensor([6, 4])
NAMES = {"conditions": {"lang": ["ar", "de"]}}
GROUP = {"strategy": "group", "pool": 4} | NAMES
SIZES = {"attention_heads": 2, "linear_units": 8, "num_blocks": 2, "dropout_rate": 0.1}
REFUSED = [
    ({"attention": {"core": "sdma"}}, "its self_attn.core has auxiliary losses"),
    ({"cross_attention": {"core": "sma"}}, "its src_attn.core has auxiliary losses"),
    ({"attention": {"core": "softmax", "disagreement": {}}}, "its self_attn.disagreement has auxiliary losses"),
    ({"attention": {"core": "softmax", "selection": GROUP}}, "its self_attn.selection depends on the language or"),
    (
        {"attention": {"core": "softmax", "selection": GROUP | {"strategy": "static"}}},
        "its self_attn.selection depends on the language or domain of a sample",
    ),
    ({"adapter": {"by": "lang"} | NAMES}, "its adapter.rows depends on the language or domain of a sample"),
]


def decoder(again, **options):
    torch.manual_seed(0)
    return DECODERS["diverse_transformer"](9, 8, gradient_checkpoint_layers=again, **SIZES | options)


def gradients(net):
    """Gradients of two training batches, the backward pass of each behind the scope of its forward pass."""
    torch.manual_seed(1)
    for _ in range(2):
        with scope() as shared:
            given = torch.randn(2, 7, 8), torch.tensor([7, 5]), torch.randint(1, 9, (2, 6)), torch.tensor([6, 4])
            out = net(*given)[0]
        (out.square().sum() + shared.total_loss()).backward()
    return [parameter.grad for parameter in net.parameters()]


@pytest.mark.parametrize(
    "attention", [{"core": "softmax"}, {"core": "random_features", "n_features": 8, "redraw_interval": 1}], ids=str
)
def test_gradients_match_layers_that_are_computed_once(attention):
    nets, calls = [decoder(layers, attention=attention) for layers in ([], [1, 2])], ([], [])
    for net, seen in zip(nets, calls, strict=True):
        for layer in net.decoders:
            layer.norm1.register_forward_hook(lambda *_, seen=seen: seen.append(1))
    once, again = map(gradients, nets)
    torch.testing.assert_close(again, once)
    assert [len(seen) for seen in calls] == [4, 8]  # of two layers in two batches


def test_schedules_stand_still_while_a_layer_is_computed_again():
    nets = [decoder(layers, attention={"core": "softmax", "dex": {"steps": 10}}) for layers in ([], [1, 2])]
    for net in nets:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for updates in range(4):
            torch.manual_seed(updates)
            with scope(step=Step(updates, updates)):
                out = net(*(torch.randn(2, 7, 8), torch.tensor([7, 5]), torch.randint(1, 9, (2, 6)), LENGTHS))[0]
            optimizer.zero_grad()
            out.square().mean().backward()
            optimizer.step()
    torch.testing.assert_close(*[list(net.state_dict().values()) for net in nets])


def test_adapters_by_language_are_refused_in_layers_that_are_computed_again():
    chosen = LowRankOptions(rank=2, target_modules=["linear_q"], by="lang", **NAMES)
    with pytest.raises(ConfigError, match="layer 2 of gradient_checkpoint_layers cannot .* depends on the language"):
        add_low_rank(decoder([2]), chosen)


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_losses_and_conditions_are_refused_in_recomputed_layers(options, said):
    start = (
        r"^DiverseTransformerDecoder: layer 2 of gradient_checkpoint_layers cannot be computed again in the backward "
    )
    with pytest.raises(ConfigError, match=f"{start}pass, because {said}.*; leave the layer out$"):
        decoder([2, 3], **options)
    assert decoder([3], **options)


def test_encoders_and_the_decoder_of_flows_refuse_too():
    options = {"output_size": 8, "input_layer": None, "rel_pos_type": "latest", "gradient_checkpoint_layers": [1]}
    sizes = SIZES | {"cgmlp_linear_units": 8, "cgmlp_conv_kernel": 3}
    with pytest.raises(
        ConfigError, match="^DiverseEBranchformerEncoder: layer 1 of .* its attn.core has auxiliary losses"
    ):
        ENCODERS["diverse_e_branchformer"](8, attention={"core": "sdma"}, **sizes | options)
    with pytest.raises(
        ConfigError, match="^gradient_checkpoint_layers has no effect in the decoder flow; leave it out"
    ):
        FlowDecoder(9, 8, gradient_checkpoint_layers=[1], **SIZES)
