"""Removed heads and relaxed attention."""

import pytest
import torch
from references.core_inputs import SIZE, H, attention_gradcheck
from references.modified import HEADS, MASK, TIME, attention, tokens
from torch import nn

from espnet_diverse.attention import CORES, build_attention, set_updates_of_run
from espnet_diverse.option_checks import OptionError
from espnet_diverse.scope import Step, scope


def outputs_of_heads(module, x, mask=None):
    """What `linear_out` is given, by head (B, H, T, D), and the same in evaluation."""
    seen = []
    hook = module.linear_out.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    module.train()(x, x, x, mask)
    module.eval()(x, x, x, mask)
    hook.remove()
    return (out.view(len(x), TIME, HEADS, -1).transpose(1, 2) for out in seen)


def test_heads_are_removed_from_samples_and_the_rest_scaled():
    trained, full = outputs_of_heads(attention(drop_heads={"rate": 0.5}), tokens(64))
    removed = (trained == 0).all(-1).all(-1)
    kept = HEADS - removed.sum(1)
    assert 0.4 < removed.double().mean() < 0.6 and kept.unique().numel() > 2
    factors = (HEADS / kept.clamp(min=1)).view(-1, 1, 1, 1)
    torch.testing.assert_close(trained, torch.where(removed[..., None, None], 0.0, factors * full))


@pytest.mark.parametrize("options", [{"drop_heads": {"rate": 0}}, {"relaxed": {"gamma": 0}}], ids=str)
def test_the_softmax_equivalent_settings_are_softmax(options):
    (trained, _), (softmax, _) = (outputs_of_heads(attention(**each), tokens()) for each in (options, {}))
    torch.testing.assert_close(trained, softmax)


@pytest.mark.parametrize("options", [{"drop_heads": {"rate": 0.5}}, {"relaxed": {"gamma": 0.25}}], ids=str)
def test_gradcheck(options):
    module = build_attention("softmax", SIZE, H, **options).train()
    assert attention_gradcheck(module, torch.ones(1, 5, 5, dtype=torch.bool).tril())


@pytest.mark.parametrize(
    ("options", "rates"),
    [
        ({}, [0.4, 0.4, 0.4]),
        ({"schedule": "linear", "steps": 100}, [0.0, 0.2, 0.4]),
        ({"schedule": "linear", "steps": 0.5}, [0.0, 0.2, 0.4]),
        ({"schedule": "v", "steps": 0.25}, [0.4, 0.0, 0.4]),
    ],
)
def test_the_rate_follows_its_schedule(options, rates):
    module = attention(drop_heads={"rate": 0.4, **options}).train()
    set_updates_of_run(module, 200)
    found = []
    for updates in (0, 50, 200):
        with scope(step=Step(updates, 0)):
            found.append(float(module.changes[0].rate(module.linear_out.weight)))
    assert found == pytest.approx(rates)


@pytest.mark.parametrize("masked", [False, True])
def test_relaxed_attention_mixes_the_mean_of_the_values(masked):
    module, x = attention(relaxed={"gamma": 0.25}), tokens()
    mask = MASK if masked else None
    trained, full = outputs_of_heads(module, x, mask)
    v = module.linear_v(x).view(2, TIME, HEADS, -1).transpose(1, 2)
    lengths = [6, 4] if masked else [6, 6]
    mean = torch.stack([v[b, :, :n].mean(1, keepdim=True) for b, n in enumerate(lengths)])
    torch.testing.assert_close(trained, 0.75 * full + 0.25 * mean)


@pytest.mark.parametrize("core", ["softmax", "sdma"])
def test_relaxed_attention_keeps_to_causal_masks_and_patterns(core):
    module, x = attention(core, relaxed={"gamma": 1.0}, head_patterns=["global", "previous"], causal=True), tokens()
    if core == "sdma":
        module.core.perturb = lambda *inputs: type(module.core).perturb(module.core.eval(), *inputs)
    causal = torch.ones(TIME, TIME, dtype=torch.bool).tril().unsqueeze(0)
    trained, _ = outputs_of_heads(module, x, causal)
    v = module.linear_v(x).view(2, TIME, HEADS, -1).transpose(1, 2)
    for i in range(TIME):
        torch.testing.assert_close(trained[:, 0, i], v[:, 0, : i + 1].mean(1))
        torch.testing.assert_close(trained[:, 1, i], v[:, 1, max(i - 1, 0)])


def test_wrong_options_are_refused():
    for options, said in (
        ({"drop_heads": {"rate": 1}}, "rate must be at least 0 and below 1, but is 1"),
        ({"drop_heads": {"schedule": "v", "steps": 100}}, "schedule v needs steps as a share of the run"),
        ({"relaxed": {"gamma": 1.5}}, "gamma must be at least 0 and at most 1, but is 1.5"),
    ):
        with pytest.raises(OptionError, match=said):
            attention(**options)
    for core in sorted(CORES.keys() - {"softmax", "sma", "sdma"}):
        with pytest.raises(ValueError, match=f"'{core}' does not support relaxed weights, which relaxed needs"):
            attention(core, relaxed={})


@pytest.mark.parametrize("other", [{"drop_heads": {"rate": 0.9}}, {"routing": {"shared": 1, "active": 1}}], ids=str)
def test_heads_without_weight_stay_so_with_relaxed_weights(other):
    torch.manual_seed(0)
    module = build_attention("softmax", 32, 8, relaxed={"gamma": 0.5}, **other).train()
    x = torch.randn(2, TIME, 32)
    module.linear_out = nn.Identity()
    module.linear_out.weight = None
    out = module(x, x, x, None).unflatten(-1, (8, -1))
    is_zero = (out == 0).all(-1)
    assert is_zero.any(-1).all() and not is_zero.all()
