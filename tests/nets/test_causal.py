"""Nets tell attention which self-attention is causal, so that `decoder_test_mask` acts there alone."""

import pytest
import torch

from espnet_diverse.functional.masks import causal
from espnet_diverse.nets import DiverseTransformerDecoder, DiverseTransformerEncoder, DiverseTransformerLM

RELEASED = {"core": "sdma", "preset": "released"}
SIZES = {"attention_heads": 2, "linear_units": 8, "num_blocks": 2}


def make_decoder(**options):
    """A decoder in evaluation mode whose masks are fully mixed in."""
    torch.manual_seed(0)
    attention = RELEASED | options
    built = DiverseTransformerDecoder(12, 16, attention=attention, cross_attention=attention, **SIZES).eval()
    for name, buffer in built.named_buffers():
        if name.endswith("updates.count"):
            buffer.fill_(5000.0)
    return built


def test_only_decoders_and_language_models_are_causal():
    decoder = make_decoder()
    encoder = DiverseTransformerEncoder(20, output_size=16, attention=RELEASED, **SIZES)
    model = DiverseTransformerLM(12, embed_unit=8, att_unit=16, head=2, unit=8, layer=1, attention=RELEASED)
    assert all(layer.self_attn.core.causal for layer in [*decoder.decoders, *model.encoder.encoders])
    assert not any(layer.src_attn.core.causal for layer in decoder.decoders)
    assert not any(layer.self_attn.core.causal for layer in encoder.encoders)


@pytest.mark.parametrize("masked", [True, False])
def test_cached_decoding_equals_the_full_pass_with_and_without_the_mask(masked):
    decoder = make_decoder(decoder_test_mask=masked)
    torch.manual_seed(1)
    memory, tokens = torch.randn(2, 5, 16), torch.randint(0, 12, (2, 6))
    full = decoder(memory, torch.tensor([5, 5]), tokens, torch.tensor([6, 6]))[0].log_softmax(-1)
    cache = None
    for length in range(1, 7):
        mask = causal(length).unsqueeze(0)
        scores, cache = decoder.forward_one_step(tokens[:, :length], mask, memory, cache=cache)
        torch.testing.assert_close(scores, full[:, length - 1], atol=1e-5, rtol=1e-5)
    gammas = [float(layer.self_attn.core.gamma()) for layer in decoder.decoders]
    assert gammas == pytest.approx([0.9, 0.9] if masked else [0.0, 0.0])
    assert float(decoder.decoders[0].src_attn.core.gamma()) == pytest.approx(0.9)
