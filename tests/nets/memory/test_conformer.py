"""Memories in conformers: attention works by segments, and convolutions go over the whole sequence."""

import pytest
import torch

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets import ENCODERS
from espnet_diverse.nets.memory import Memory
from espnet_diverse.scope import scope

LENGTHS = torch.tensor([23, 14, 5])
VALID = torch.arange(23) < LENGTHS.unsqueeze(-1)
CASES = {
    "cdt": {"kind": "cdt", "slots": 3},
    "cdt_shared": {"kind": "cdt", "slots": 3, "scope": "shared"},
    "xl": {"kind": "xl", "slots": 9},
    "compressive": {"kind": "compressive", "slots": 2, "compressed_slots": 3, "ratio": 2},
}
each_case = pytest.mark.parametrize("memory", CASES.values(), ids=CASES)
ABSOLUTE = {"pos_enc_layer_type": "abs_pos", "selfattention_layer_type": "selfattn"}


def encoder(memory, core="softmax", position=None, **options):
    torch.manual_seed(0)
    sizes = {"output_size": 8, "attention_heads": 2, "linear_units": 12, "num_blocks": 2, "input_layer": "linear"}
    sizes |= {"cnn_module_kernel": 3, "macaron_style": True, **ABSOLUTE}
    given = None if memory is None else {"segment": 4} | memory
    attention = {"core": core, "position": position}
    net = ENCODERS["diverse_conformer"](6, memory=given, attention=attention, **sizes | options).double()
    for name, buffer in net.named_buffers():  # batch norms as after training
        if name.endswith("running_mean"):
            buffer.uniform_(-0.5, 0.5)
    return net


def features():
    torch.manual_seed(1)
    return torch.randn(3, 23, 6, dtype=torch.double)


@each_case
@pytest.mark.parametrize("position", [None, "transformer_xl"])
def test_a_batch_equals_its_sequences_alone_and_padding_changes_nothing(memory, position):
    net, x = encoder(memory, position=position).eval(), features()
    batch = net(x, LENGTHS)[0]
    other = net(torch.where(VALID.unsqueeze(-1), x, 1e3), LENGTHS)[0]
    torch.testing.assert_close(other[VALID], batch[VALID], rtol=1e-12, atol=1e-12)
    for row, length in enumerate(LENGTHS):
        alone = net(x[row : row + 1, :length], length.view(1))[0][0]
        torch.testing.assert_close(alone, batch[row, :length], rtol=1e-12, atol=1e-12)


@each_case
def test_a_segment_as_long_as_the_sequence_is_the_conformer_without_memory(memory):
    net, plain, x = encoder(memory | {"segment": 24}).eval(), encoder(None).eval(), features()
    missing, unexpected = net.load_state_dict(plain.state_dict(), strict=False)
    assert not unexpected and all(".self_attn.memory." in name for name in missing)
    torch.testing.assert_close(net(x, LENGTHS)[0][VALID], plain(x, LENGTHS)[0][VALID], rtol=1e-12, atol=1e-12)


@each_case
def test_only_convolutions_reach_into_a_later_segment(memory):
    """A kernel of 3 reads one frame to each side in each of two layers, whose segments then hand it on."""
    net, x = encoder(memory, num_blocks=1).eval(), features()[:1]
    changed = x.clone()
    changed[:, 12] += 1  # the first frame of the fourth segment
    first, second = net(x, LENGTHS[:1])[0], net(changed, LENGTHS[:1])[0]
    assert torch.equal(first[:, :11], second[:, :11]) and not torch.allclose(first[:, 11], second[:, 11])
    assert all(not torch.allclose(first[:, frame], second[:, frame]) for frame in range(12, 20))
    net = encoder(memory).eval()
    first, second = net(x, LENGTHS[:1])[0], net(changed, LENGTHS[:1])[0]
    assert torch.equal(first[:, :7], second[:, :7]) and not torch.allclose(first[:, 8], second[:, 8])


@each_case
@pytest.mark.parametrize("core", ["softmax", "sdma", "luna"])
def test_every_parameter_is_trained(memory, core):
    net = encoder(memory, core).float()
    with scope() as shared:
        out = net(features().float(), LENGTHS)[0]
        (out.square().mean() + shared.total_loss()).backward()
    assert [name for name, parameter in net.named_parameters() if parameter.grad is None] == []
    kind = next(type(module) for module in net.modules() if isinstance(module, Memory))
    assert kind.LOSSES.keys() <= shared.losses().keys() and "memory_slots" in shared.stats()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"pos_enc_layer_type": "rel_pos", "selfattention_layer_type": "rel_selfattn", "rel_pos_type": "latest"},
            "DiverseConformerEncoder: slots have no relative position of ESPnet; set pos_enc_layer_type: abs_pos and",
        ),
        ({"ctc_trim": True}, "ctc_trim drops frames of the segments that a memory has seen; leave out either"),
        ({"layer_drop_rate": 0.1}, "may be the one with the shared memory; set both to 0, or scope: layer"),
        ({"stochastic_depth_rate": 0.1}, "may be the one with the shared memory; set both to 0, or scope: layer"),
    ],
)
def test_options_incompatible_with_memory_are_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        encoder(CASES["cdt_shared"], **options)


def test_layers_may_be_skipped_that_have_a_memory_each():
    net = encoder(CASES["xl"], stochastic_depth_rate=[1 - 1e-12, 0.0]).train()
    assert torch.isfinite(net(features(), LENGTHS)[0]).all()
