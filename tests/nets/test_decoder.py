"""The decoder at the softmax-equivalent setting equals ESPnet's, in a full pass and step by step."""

import pytest
import torch
from references.espnet_twin import pair

from espnet_diverse.errors import ConfigError
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


@pytest.mark.parametrize(
    ("attention", "cross_attention"),
    [
        *(({"core": core},) * 2 for core in ("sma", "sdma", "luna")),
        ({"head_patterns": [{"window": 1}, "previous"], "qk_norm": {}}, {"qk_norm": {}, "relaxed": {}}),
        ({"position": "rotary"}, {}),
        ({"core": "sma", "position": "alibi"}, {}),
        ({"core": "sdma", "head_patterns": ["start", "global"], "drop_heads": {}}, {"core": "sma", "qk_norm": {}}),
    ],
    ids=str,
)
def test_cached_decoding_equals_the_full_pass(attention, cross_attention):
    """The released SDMA code loses the semantic mask at each cached step; ours gives the full pass, step by step."""
    torch.manual_seed(0)
    net = DECODERS["diverse_transformer"](
        11, 16, attention_heads=2, num_blocks=2, attention=attention, cross_attention=cross_attention
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


@pytest.mark.parametrize("collect", [True, False])
def test_the_scope_is_told_which_targets_are_padding(collect):
    """Only where statistics are collected; the mask of cross-attention does not tell."""
    net = DECODERS["diverse_transformer"](11, 16, attention_heads=2, linear_units=24, num_blocks=1).eval()
    with scope(collect=collect) as shared:
        net(torch.randn(2, 5, 16), torch.tensor([5, 5]), torch.randint(1, 11, (2, 4)), torch.tensor([4, 2]))
    expected = [[True] * 4, [True, True, False, False]] if collect else None
    assert (shared.query_mask.tolist() if collect else shared.query_mask) == expected


def test_adapters_need_a_step_that_applies_them():
    adapter = {"by": "lang", "bottleneck": 4, "conditions": {"lang": ["de"]}}
    net = DECODERS["diverse_transformer"](11, 16, attention_heads=2, linear_units=24, num_blocks=1, adapter=adapter)
    said = "^partially autoregressive decoding does not apply adapters; set partial_ar to false$"
    with pytest.raises(ConfigError, match=said):
        net.forward_partially_AR(None, None, None, None, None)
