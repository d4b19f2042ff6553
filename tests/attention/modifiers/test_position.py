"""Attention that has position by itself, against attention whose queries and keys were turned before."""

import pytest
import torch
from espnet2.legacy.nets.pytorch_backend.transformer.embedding import RelPositionalEncoding
from references import core_inputs
from references.modified import SIZE, TIME, attention, projected, tokens

from espnet_diverse.attention import KVCache, build_attention
from espnet_diverse.attention.modifiers.position import POSITIONS
from espnet_diverse.functional.position import rotate, turns
from espnet_diverse.option_checks import OptionError


def test_logits_match_turned_queries_and_keys():
    module, x = attention(position="rotary"), tokens()
    q, k, v = projected(module, x)
    position = torch.arange(TIME)
    logits = rotate(q, *turns(position, q)) @ rotate(k, *turns(position, k)).mT / q.size(-1) ** 0.5
    expected = module.linear_out((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))
    torch.testing.assert_close(module(x, x, x, None), expected)


def test_linear_biases_are_added_to_the_logits():
    module, x = attention(position="alibi"), tokens()
    q, k, v = projected(module, x)
    distance = (torch.arange(TIME).unsqueeze(-1) - torch.arange(TIME)).abs()
    slope = torch.tensor([1 / 4, 1 / 16, 1 / 64, 1 / 256], dtype=torch.double).view(-1, 1, 1)
    weights = (q @ k.mT / q.size(-1) ** 0.5 - slope * distance).softmax(-1)
    torch.testing.assert_close(module(x, x, x, None), module.linear_out((weights @ v).transpose(1, 2).flatten(2)))


def test_linear_biases_alone_do_not_tell_the_order():
    x = tokens()
    for patterns, tells in ((["global"], False), (["global", "global", "previous", "next"], True)):
        module, reversed_ = attention(position="alibi", head_patterns=patterns), x.flip(1)
        mirrored = module(reversed_, reversed_, reversed_, None).flip(1)
        assert torch.allclose(mirrored, module(x, x, x, None)) != tells


def test_transformer_xl_has_the_weights_of_espnets_relative_attention():
    ours, theirs, x = attention(position="transformer_xl"), attention(relative=True), tokens()
    weights = {name.removeprefix("distances."): value for name, value in ours.state_dict().items()}
    theirs.load_state_dict(weights, strict=True)
    embeddings = RelPositionalEncoding(SIZE, 0.0).double()(x)[1]
    torch.testing.assert_close(ours(x, x, x, None), theirs(x, x, x, embeddings, None), rtol=1e-6, atol=1e-6)
    found = attention(position="transformer_xl", causal=True)(x, x, x, torch.ones(1, TIME, TIME).tril())
    expected = theirs(x, x, x, embeddings, torch.ones(1, TIME, TIME).tril())
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("position", POSITIONS)
def test_gradcheck(position):
    module = build_attention("softmax", core_inputs.SIZE, 3, position=position)
    assert core_inputs.attention_gradcheck(module, torch.arange(5).view(1, 1, 5) < 4)


@pytest.mark.parametrize("position", POSITIONS)
def test_a_shift_of_all_positions_changes_nothing(position):
    module, x = attention(position=position), tokens()
    mask = torch.arange(TIME + 3) >= 3
    later = torch.cat([torch.randn(2, 3, SIZE, dtype=torch.double), x], dim=1)
    torch.testing.assert_close(module(later, later, later, mask.expand(2, 1, -1))[:, 3:], module(x, x, x, None))


@pytest.mark.parametrize("position", POSITIONS)
def test_hypotheses_side_by_side_have_the_positions_of_their_own(position):
    """Two continuations of one prefix in one cache, whose nodes lie one after the other."""
    module, x = attention(position=position, causal=True), tokens()[:1]
    first, second = x[:, [0, 1, 2, 4]], x[:, [0, 1, 3, 5]]
    causal = torch.ones(4, 4, dtype=torch.bool).tril().unsqueeze(0)
    expected = torch.cat([module(each, each, each, causal)[:, -1:] for each in (first, second)], dim=1)
    cache = KVCache(*module.cache_kv(x))
    behind = torch.tensor([[[1, 1, 1, 0, 1, 0], [1, 1, 0, 1, 0, 1]]], dtype=torch.bool)
    late = x[:, 4:]
    torch.testing.assert_close(module.attend_cached(module.project_query(late), late, cache, behind), expected)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"position": "rope"}, "position must be one of rotary alibi transformer_xl, but is 'rope'"),
        ({"position": "rotary", "cross": True}, "position rotary does not fit cross-attention, whose keys have"),
        (
            {"position": "rotary", "relative": True},
            "replaces relative position; set pos_enc_layer_type: abs_pos",
        ),
        ({"position": "alibi", "core": "window"}, "position alibi does not fit attention 'window'; choose rotary"),
        ({"position": "transformer_xl", "core": "window"}, "does not fit attention 'window'; choose rotary"),
        (
            {
                "position": "transformer_xl",
                "selection": {"strategy": "group", "pool": 8, "conditions": {"lang": ["a"]}},
            },
            "position transformer_xl does not fit head selection; choose rotary or alibi",
        ),
        (
            {"position": "rotary", "core": "luna"},
            "does not support patterns of heads, which position needs",
        ),
        (
            {"position": "rotary", "core": "differential"},
            "'differential' does not support dot products of whole queries and keys, which position needs; choose one "
            "that does: softmax sma sdma gated sanm talking_heads value_residual window bigbird$",
        ),
    ],
)
def test_unknown_or_incompatible_position_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        attention(**options)


def test_rotary_position_needs_pairs_of_channels():
    with pytest.raises(OptionError, match="position rotary needs heads of even width, but it is 3"):
        build_attention("softmax", 12, 4, position="rotary")
