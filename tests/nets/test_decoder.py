"""The decoder at the softmax-equivalent setting equals ESPnet's, in a full pass and step by step."""

import pytest
import torch
from references.espnet_twin import pair

from espnet_diverse.nets import DECODERS
from espnet_diverse.scope import scope


def test_decoder_equals_espnet_in_full_pass_and_cached_steps():
    options = {"attention_heads": 2, "linear_units": 24, "num_blocks": 2}
    reference, net = pair(DECODERS["diverse_transformer"], 11, 16, **options)
    memory, hlens = torch.randn(2, 13, 16), torch.tensor([13, 8])
    ys, ylens = torch.randint(1, 11, (2, 6)), torch.tensor([6, 4])
    expected, _ = reference(memory, hlens, ys, ylens)
    with scope(keep_attention=True):
        exact, _ = net(memory, hlens, ys, ylens)
    assert torch.equal(exact, expected)
    states = [None, None]
    for t in range(1, 7):
        logp, states = net.batch_score(ys[:, :t], states, memory)
        their_logp = reference.batch_score(ys[:, :t], [None, None], memory)[0]
        torch.testing.assert_close(logp, their_logp, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("core", ["sma", "sdma"])
def test_cached_decoding_keeps_the_semantic_mask(core):
    """The released SDMA code loses the mask at each cached step; ours gives the full pass, step by step."""
    torch.manual_seed(0)
    net = DECODERS["diverse_transformer"](
        11, 16, attention_heads=2, num_blocks=2, attention={"core": core}, cross_attention={"core": core}
    )
    for name, buffer in net.named_buffers():
        if name.endswith("updates.count"):
            buffer.fill_(5000.0)
    net = net.double().eval()
    memory, ys = torch.randn(2, 13, 16, dtype=torch.double), torch.randint(1, 11, (2, 6))
    full, _ = net(memory, torch.tensor([13, 13]), ys, torch.tensor([6, 6]))
    states = [None, None]
    for t in range(1, 7):
        logp, states = net.batch_score(ys[:, :t], states, memory)
        torch.testing.assert_close(logp, full[:, t - 1].log_softmax(-1))
