"""Heads routed by token; the laws of attention are tested in tests/attention/test_invariants.py."""

import pytest
import torch
from references.modified import HEADS, MASK, TIME, attention, tokens

from espnet_diverse.errors import ModelError
from espnet_diverse.functional.head_routing import balance_loss, routed_gates, shared_gates
from espnet_diverse.option_checks import OptionError
from espnet_diverse.runs.checkpoint import load_strict
from espnet_diverse.scope import scope


def outputs_of_heads(module, x, mask=None):
    """What `linear_out` is given, by head (B, T, H, D)."""
    seen = []
    hook = module.linear_out.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    module(x, x, x, mask)
    hook.remove()
    return seen[0].view(2, TIME, HEADS, -1)


def test_heads_are_gated_by_the_input_of_their_queries():
    x, routing = tokens(), {"shared": 2, "active": 1}
    module = attention(routing=routing)
    plain = attention()
    plain.load_state_dict(module.state_dict(), strict=False)
    change = module.changes[0]
    parts = 2 * (x @ change.parts.weight.T).softmax(-1)
    shared = parts[..., :1] * shared_gates(x @ change.shared.weight.T)
    routed = parts[..., 1:] * routed_gates(x @ change.router.weight.T, 1)[0]
    gates = torch.cat((shared, routed), dim=-1)
    torch.testing.assert_close(outputs_of_heads(module, x), gates[..., None] * outputs_of_heads(plain, x))
    assert ((gates == 0).sum(-1) == 1).all()  # one of the two routed heads


def test_with_all_heads_and_routers_of_0_it_is_plain_attention():
    x, module = tokens(), attention(routing={"shared": 0, "active": HEADS})
    plain = attention()
    plain.load_state_dict(module.state_dict(), strict=False)
    torch.nn.init.zeros_(module.changes[0].router.weight)
    torch.testing.assert_close(module(x, x, x, MASK), plain(x, x, x, MASK))
    assert set(module.changes.state_dict()) == {"0.router.weight"}


def test_one_shared_head_needs_no_router_and_loads_what_had_one():
    x, module = tokens(), attention(routing={})
    gate = 2 * (x @ module.changes[0].parts.weight.T).softmax(-1)[..., :1]
    plain = attention()
    plain.load_state_dict(module.state_dict(), strict=False)
    first = outputs_of_heads(module, x)[..., 0, :]
    torch.testing.assert_close(first, gate * outputs_of_heads(plain, x)[..., 0, :])
    state = module.state_dict()
    assert set(module.changes.state_dict()) == {"0.router.weight", "0.parts.weight"}
    former = state | {"changes.0.shared.weight": torch.randn(1, x.size(-1)).double()}
    load_strict(attention(routing={}), former, "former.pth")
    wrong = {"changes.0.shared.weight": torch.ones(2, x.size(-1)).double()}
    with pytest.raises(ModelError, match=r"1 extra: changes\.0\.shared\.weight"):
        load_strict(module, state | wrong, "wrong.pth")


def test_the_loss_matches_tokens_and_its_weight():
    x, module = tokens(), attention(routing={"balance": 0.5})
    with scope() as shared:
        module(x, x, x, MASK)
    logits = x @ module.changes[0].router.weight.T
    expected = 0.5 * balance_loss(logits, routed_gates(logits, 2)[1], MASK[:, 0]).mean()
    torch.testing.assert_close(shared.total_loss(), expected)
    with scope() as shared:
        attention(routing={"balance": 0})(x, x, x, MASK)
    assert shared.total_loss() == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"active": 4}, "active must be at most the 4 heads less shared 1, but is 4"),
        ({"shared": 5}, "active must be at most the 4 heads less shared 5, but is 2"),
        ({"active": 0}, "active must be at least 1, but is 0"),
        ({"top": 2}, "unknown option 'top' of routing; known: active shared balance"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(OptionError, match=said):
        attention(routing=options)
