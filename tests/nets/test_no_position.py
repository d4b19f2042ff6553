"""Nets whose attention has position by itself."""

import pytest
import torch

from espnet_diverse.attention.modifiers.position import POSITIONS
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets import DECODERS, ENCODERS
from espnet_diverse.nets.language_model import DiverseTransformerLM

SMALL = {"output_size": 16, "attention_heads": 2, "linear_units": 24, "num_blocks": 2, "dropout_rate": 0.0}
ABSOLUTE = {"pos_enc_layer_type": "abs_pos", "selfattention_layer_type": "selfattn"}


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("diverse_transformer", {"input_layer": "linear"}),
        ("diverse_transformer", {"input_layer": "conv2d"}),
        ("diverse_conformer", {"input_layer": "conv2d", "use_cnn_module": False, **ABSOLUTE}),
    ],
    ids=str,
)
def test_the_input_has_no_positions_and_the_attention_has(name, options, position):
    torch.manual_seed(0)
    encoder = ENCODERS[name](20, **SMALL, **options, attention={"position": position}).eval()
    x, lengths = torch.randn(2, 60, 20), torch.tensor([60, 41])
    out, out_lengths, _ = encoder(x, lengths)
    alone, _, _ = encoder(x[1:, :41], lengths[1:])
    torch.testing.assert_close(out[1, : out_lengths[1]], alone[0], rtol=1e-4, atol=1e-5)
    for layer in encoder.encoders:
        layer.self_attn.position = "absolute"
    assert not torch.allclose(encoder(x, lengths)[0], out)
    backwards = encoder(x.flip(1), lengths[:1].expand(2))[0]
    if options["input_layer"] == "linear":  # without positions the order of frames does not matter
        torch.testing.assert_close(encoder(x, lengths[:1].expand(2))[0].flip(1), backwards, rtol=1e-4, atol=1e-5)


def test_decoders_and_language_models_have_none_either():
    decoder = DECODERS["diverse_transformer"](9, 16, attention_heads=2, num_blocks=1, attention={"position": "rotary"})
    lm = DiverseTransformerLM(
        9, "sinusoidal", embed_unit=8, att_unit=16, head=2, unit=24, layer=1, attention={"position": "alibi"}
    )
    for pos_enc in (decoder.embed[-1], lm.encoder.embed[-1]):
        x = torch.randn(1, 5, 16)
        torch.testing.assert_close(pos_enc.eval()(x), x * 4)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("diverse_conformer", {}, "replaces relative position; set pos_enc_layer_type: abs_pos"),
        (
            "diverse_contextual_block_transformer",
            {},
            "does not fit the blocks of DiverseContextualBlockTransformerEncoder",
        ),
        *(
            (name, options | {"pos_enc_layer_type": positions}, "^position rotary of Div.* needs pos_enc_layer_type: ")
            for name, options, positions in [
                ("diverse_transformer", {"input_layer": "linear"}, "conv"),
                ("diverse_conformer", {"selfattention_layer_type": "selfattn"}, "conv"),
                ("diverse_conformer", {"selfattention_layer_type": "selfattn"}, "scaled_abs_pos"),
                ("diverse_e_branchformer", {"attention_layer_type": "selfattn"}, "conv"),
            ]
        ),
    ],
)
def test_other_positions_are_refused(name, options, said):
    with pytest.raises(ConfigError, match=said):
        ENCODERS[name](20, **SMALL, **options, attention={"position": "rotary"})
