"""The nets of FlowSeq: ESPnet's layers without a causal mask, with any core."""

import pytest
import torch
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder

from espnet_diverse.contrib.flowseq.transformer import ConditionedTransformer, Source
from espnet_diverse.errors import ConfigError
from espnet_diverse.scope import current, scope

SIZE = {"attention_heads": 2, "linear_units": 16, "num_blocks": 2, "input_layer": "linear"}


def test_without_a_mask_of_the_future_it_is_espnets_decoder(source, monkeypatch):
    torch.manual_seed(0)
    ours = ConditionedTransformer(6, 16, **SIZE).eval().double()
    theirs = TransformerDecoder(6, 16, use_output_layer=False, **SIZE).eval().double()
    theirs.load_state_dict(ours.state_dict())
    name = "espnet2.asr.decoder.transformer_decoder.subsequent_mask"
    monkeypatch.setattr(name, lambda size, device: torch.ones(size, size, dtype=torch.bool))
    x, lengths = torch.randn(2, 4, 6, dtype=torch.float64), torch.tensor([3, 4])
    expected, _ = theirs(source.output, source.valid.sum(1), x, lengths)
    found = ours(x, torch.arange(4) < lengths.unsqueeze(1), source)
    torch.testing.assert_close(found[0, :3], expected[0, :3])
    torch.testing.assert_close(found[1], expected[1])


@pytest.mark.parametrize("position", ["rotary", "alibi"])
def test_positions_of_the_attention_are_the_only_ones(position):
    net = ConditionedTransformer(6, 16, attention={"position": position}, **SIZE).eval()
    embedded = net.embed(torch.zeros(1, 4, 6))
    assert torch.equal(embedded[0, 0], embedded[0, 3])


def test_every_position_reads_every_other_and_the_source(source, valid):
    torch.manual_seed(0)
    net = ConditionedTransformer(6, 16, **SIZE).eval().double()
    x = torch.randn(2, 4, 6, dtype=torch.float64, requires_grad=True)
    output = source.output.clone().requires_grad_()
    first = net(x, valid, Source(output, source.valid))[:, 0, 0].sum()
    of_x, of_source = torch.autograd.grad(first, [x, output])
    assert ((of_x.abs().sum(-1) > 0) == valid).all()
    assert ((of_source.abs().sum(-1) > 0) == source.valid).all()


def test_cores_are_told_which_queries_are_padding(source, valid):
    options = SIZE | {"cross_attention": {"core": "sma"}}
    net = ConditionedTransformer(6, 16, attention={"core": "sma"}, **options).double()
    with scope() as shared:
        net(torch.randn(2, 4, 6, dtype=torch.float64), valid, source)
        assert torch.equal(current().query_mask, valid)
    assert shared.losses()


def test_a_core_that_does_not_fit_is_refused():
    said = r"FlowDecoder, src_attn of layer 1: attention 'linformer' does not support cross-attention; choose one"
    with pytest.raises(ConfigError, match=said):
        ConditionedTransformer(6, 16, cross_attention={"core": "linformer"}, **SIZE)


def test_values_are_not_handed_on_and_a_core_that_needs_them_is_refused():
    said = (
        "^FlowDecoder: attention 'value_residual' takes values of the first layer, which only encoders hand on; choose"
    )
    with pytest.raises(ConfigError, match=said):
        ConditionedTransformer(6, 16, attention={"core": "value_residual"}, **SIZE)
