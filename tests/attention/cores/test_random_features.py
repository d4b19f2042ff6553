"""The random-feature core against loops in double precision, its gradients, its limit, and when it redraws."""

import copy

import pytest
import torch
import torch.nn.functional as F
from references import efficient as oracle
from references.core_inputs import CASES, CAUSAL, PADDED, SIZE, B, D, H, gradcheck, heads

from espnet_diverse.attention import build_attention, build_core
from espnet_diverse.option_checks import OptionError

T = 6
each_case = pytest.mark.parametrize(("mask", "causal"), CASES.values(), ids=CASES)
each_feature = pytest.mark.parametrize("feature", ["positive", "trigonometric"])


def make(causal=False, **options):
    torch.manual_seed(0)
    return build_core("random_features", SIZE, H, options, causal=causal).eval()


@each_case
@each_feature
def test_equals_loops(feature, mask, causal):
    core, given = make(causal, feature=feature, n_features=8, sigma=1.5), heads(mask)
    context, weights = core(given)
    w = core.weight().double().numpy()
    seen = torch.ones(B, 1, T, T, dtype=torch.bool) if mask is None else mask.expand(B, 1, T, T)
    for b in range(B):
        for h in range(H):
            if feature == "positive":
                phi_q, phi_k = (oracle.positive(x[b, h].numpy() / D**0.25, w) for x in (given.q, given.k))
                least = 0.0
            else:
                unit = (F.normalize(x[b, h], dim=-1).numpy() for x in (given.q, given.k))
                phi_q, phi_k = (oracle.trigonometric(x, w / 1.5) for x in unit)
                least = float(torch.tensor(-2 / 1.5**2).double().exp())
            expected = oracle.kernel_attention(phi_q @ phi_k.T, given.v[b, h].numpy(), seen[b, 0].numpy(), least)
            torch.testing.assert_close(context[b, h], torch.tensor(expected))
    assert weights is None


@each_case
@each_feature
def test_gradcheck(feature, mask, causal):
    core, given = make(causal, feature=feature, n_features=8), heads(mask)
    assert gradcheck(core, given)


@each_feature
@pytest.mark.parametrize("orthogonal", [True, False])
def test_many_features_approach_softmax_attention(feature, orthogonal):
    given, sigma = heads(PADDED), 0.8
    given.q, given.k = given.q / 2, given.k / 2
    exact = given.q, given.k, given.v
    scale = None
    if feature == "trigonometric":
        exact, scale = (F.normalize(given.q, dim=-1), F.normalize(given.k, dim=-1), given.v), 1 / sigma**2
    expected = F.scaled_dot_product_attention(*exact, PADDED, scale=scale)
    errors = []
    for count in (48, 768, 30_000):
        torch.manual_seed(0)
        options = {"feature": feature, "n_features": count, "orthogonal": orthogonal, "sigma": sigma}
        cores = [build_core("random_features", SIZE, H, options) for _ in range(5)]
        errors.append(sum(float((core(given)[0] - expected).square().mean()) for core in cores) ** 0.5)
    assert errors[1] < errors[0] / 2 and errors[2] < errors[1] / 2 and errors[2] < 0.05


def test_queries_and_keys_of_any_size_stay_finite():
    for causal, mask in ((False, PADDED), (True, CAUSAL)):
        given = heads(mask)
        given.q, given.k = (200 * given.q).float().requires_grad_(), (200 * given.k).float().requires_grad_()
        given.v = given.v.float()
        context, _ = make(causal, n_features=16)(given)
        context.sum().backward()
        assert torch.isfinite(context).all() and torch.isfinite(given.q.grad).all()


def test_hypotheses_side_by_side_are_not_taken_for_positions():
    given = heads(torch.eye(T, dtype=torch.bool).view(1, 1, T, T))
    given.perturbed = None
    torch.testing.assert_close(make(causal=True)(given)[0], given.v)


def test_the_draw_is_part_of_the_state_and_keeps_its_precision():
    first, second = (build_core("random_features", SIZE, H) for _ in range(2))
    assert not torch.equal(first.weight(), second.weight())
    second.load_state_dict(first.state_dict())
    torch.testing.assert_close(second(heads(None))[0], first(heads(None))[0], rtol=0, atol=0)
    assert torch.equal(second.half().weight(), first.weight()) and first.weight().dtype == torch.float32
    assert not any(value.is_floating_point() for value in first.state_dict().values())  # averaging leaves integers


def test_the_draw_does_not_depend_on_the_default_type():
    usual, kind = make().weight(), torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(make().weight(), usual)
    finally:
        torch.set_default_dtype(kind)


def test_the_features_are_redrawn_in_training_alone_and_alike_from_the_same_draw():
    core, given = make(redraw_interval=2).train(), heads(None)
    other, draws = copy.deepcopy(core), []
    for _ in range(5):
        core(given)
        draws.append(core.weight().clone())
    changed = [not torch.equal(one, next_one) for one, next_one in zip(draws[:-1], draws[1:], strict=True)]
    assert changed == [False, True, False, True]
    for _ in range(5):
        other(given)
    assert torch.equal(other.weight(), draws[-1])
    for _ in range(5):
        core.eval()(given)
    assert torch.equal(core.weight(), draws[-1])


def test_a_resumed_run_redraws_when_the_whole_run_does():
    core, given = make(redraw_interval=3).train(), heads(None)
    for _ in range(2):
        core(given)
    resumed = make(redraw_interval=3).train()
    resumed.load_state_dict(core.state_dict())
    for _ in range(3):
        core(given), resumed(given)
        assert torch.equal(resumed.weight(), core.weight())
    assert set(make().state_dict()) == {"bits"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"feature": "cosine"}, "feature must be one of positive trigonometric, but is 'cosine'"),
        ({"n_features": 0}, "n_features must be at least 1, but is 0"),
        ({"sigma": 0.0}, "sigma must be above 0, but is 0.0"),
        ({"redraw_interval": -1}, "redraw_interval must be at least 0, but is -1"),
    ],
)
def test_invalid_options_are_refused(options, text):
    with pytest.raises(OptionError, match=text):
        make(**options)


def test_features_of_normalised_inputs_are_not_normalised_again():
    build_attention("random_features", 8, 2, qk_norm={})
    with pytest.raises(ValueError, match="'random_features' does not support dot products of whole queries and keys"):
        build_attention("random_features", 8, 2, feature="trigonometric", qk_norm={})
