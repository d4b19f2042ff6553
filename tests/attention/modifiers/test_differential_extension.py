"""Differential extension; the laws of attention are tested in tests/attention/test_invariants.py."""

import pytest
import torch
from references.modified import HEADS, TIME, attention, tokens

from espnet_diverse.attention import set_updates_of_run
from espnet_diverse.functional.differential import extension_weight
from espnet_diverse.option_checks import OptionError
from espnet_diverse.scope import Step, scope


def with_plain(**options):
    """Extended attention in training, and plain attention with the same weights."""
    module, plain = attention(dex=options), attention()
    plain.load_state_dict(module.state_dict(), strict=False)
    set_updates_of_run(module, 200)
    return module.train(), plain


def test_before_the_first_update_it_is_plain_attention_to_the_bit():
    x, (module, plain) = tokens(), with_plain()
    with scope(step=Step(0, 0)):
        assert torch.equal(module(x, x, x, None), plain(x, x, x, None))
    assert torch.equal(module.eval()(x, x, x, None), plain(x, x, x, None))


def test_it_subtracts_a_map_of_each_head():
    x, (module, plain) = tokens(), with_plain(steps=0.5, lambda_init=0.8)
    extension, seen = module.changes[0], []
    torch.nn.init.normal_(extension.weight)
    torch.nn.init.constant_(extension.learned, 0.2)
    for each in (module, plain):
        each.linear_out.register_forward_pre_hook(lambda _, given: seen.append(given[0].view(2, TIME, HEADS, -1)))
        with scope(step=Step(30, 0)):
            each(x, x, x, None)
    factor = extension_weight(0.3, 0.8, extension.learned)  # 30 of half of 200 updates
    expected = seen[1] - factor * seen[1] @ extension.weight
    torch.testing.assert_close(seen[0], expected)


def test_it_learns_from_zeros():
    x, (module, _) = tokens(), with_plain()
    extension = module.changes[0]
    optimizer = torch.optim.SGD(extension.parameters(), lr=0.1)
    for updates in range(3):
        with scope(step=Step(updates, updates)):
            module(x, x, x, None).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        assert bool(extension.weight.any()) == (updates > 0)  # the first update has a factor of 0
    assert extension.learned != 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": 0}, "steps must be above 0, but is 0"),
        ({"rate": 1}, "unknown option 'rate' of dex; known: lambda_init steps"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(OptionError, match=said):
        attention(dex=options)
