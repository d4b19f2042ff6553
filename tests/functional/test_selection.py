"""Head selection's equations: golden arrays of the released code, naive loops, finite differences."""

import math

import pytest
import torch
from references.golden import golden
from torch.distributions import Bernoulli, kl_divergence

from espnet_diverse.functional import selection

ARRAYS = {name: golden(f"head_select_{name}") for name in ("group", "subset")}
each_strategy = pytest.mark.parametrize("strategy", ARRAYS)
each_noise = pytest.mark.parametrize("noise", ["eval", "noisy"])


def sample(arrays, noise):
    drawn = arrays["gumbel1"] - arrays["gumbel2"] if noise == "noisy" else 0.0
    return selection.soft_sample(arrays["logits"], drawn, float(arrays["tau"]))


def exact(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-10, rtol=1e-10)


@each_strategy
def test_shared_heads_match_the_released_sharing_matrix(strategy):
    arrays = ARRAYS[strategy]
    picks = arrays["eval_heads_all"]  # (condition, layer, H)
    matrix = selection.shared_heads(picks.unsqueeze(0), picks.unsqueeze(1)).sum(-1)
    assert torch.equal(matrix, arrays["sharing_matrix_eval"])


@each_strategy
@each_noise
def test_official_kl_equals_the_released_codes(strategy, noise):
    arrays = ARRAYS[strategy]
    each = selection.official_kl(sample(arrays, noise), float(arrays["kl_prior"])).mean(dim=(1, 2))
    exact(arrays["kl_weight"] * (arrays["kl_ntok"] * each).sum(), arrays[f"{noise}_kl_official"])


@each_strategy
def test_exact_kl(strategy):
    arrays = ARRAYS[strategy]
    kl = selection.bernoulli_kl(arrays["logits"], float(arrays["kl_prior"]))
    exact(kl.sum(dim=(1, 2)), arrays["kl_bernoulli_exact"])
    prior = Bernoulli(torch.tensor(0.25, dtype=torch.double))
    exact(selection.bernoulli_kl(arrays["logits"], 0.25), kl_divergence(Bernoulli(logits=arrays["logits"]), prior))


def test_exact_kl_is_least_at_the_prior_and_the_official_one_at_the_prior_over_e():
    y = torch.linspace(0.01, 0.99, 981, dtype=torch.double)
    exact_kl = selection.bernoulli_kl(torch.logit(y), 0.5)
    assert float(y[exact_kl.argmin()]) == pytest.approx(0.5) and float(exact_kl.min()) == pytest.approx(0.0, abs=1e-12)
    assert float(y[selection.official_kl(y, 0.5).argmin()]) == pytest.approx(0.5 / math.e, abs=1e-3)


def test_kl_of_a_saturated_posterior_is_finite_with_a_finite_gradient():
    phi = torch.tensor([-200.0, 200.0], requires_grad=True)
    kl = selection.bernoulli_kl(phi, 0.5).sum() + selection.official_kl(torch.sigmoid(phi), 0.5).sum()
    kl.backward()
    assert torch.isfinite(kl) and torch.isfinite(phi.grad).all()


def naive_group(scores, heads, layout):
    """Candidates of each slot written out."""
    ratio = len(scores) // heads
    rows = range(heads)
    slots = [
        [g + r * heads for r in range(ratio)] if layout == "strided" else [g * ratio + r for r in range(ratio)]
        for g in rows
    ]
    return [max(slot, key=lambda head: float(scores[head])) for slot in slots]


@pytest.mark.parametrize("layout", ["strided", "contiguous"])
@pytest.mark.parametrize(("pool", "heads"), [(8, 4), (12, 4), (6, 3), (5, 1)])
def test_group_picks_equal_a_naive_search(layout, pool, heads):
    torch.manual_seed(0)
    scores = torch.randn(6, pool)
    picks = selection.group_picks(scores, heads, layout)
    assert picks.tolist() == [naive_group(row, heads, layout) for row in scores]


@pytest.mark.parametrize("layout", ["strided", "contiguous"])
@pytest.mark.parametrize(("pool", "heads"), [(8, 4), (12, 4), (6, 3), (5, 1)])
def test_gaps_of_groups_equal_naive_loops(layout, pool, heads):
    torch.manual_seed(0)
    scores = torch.randn(2, 3, pool, dtype=torch.double)
    gaps = selection.group_gap(scores, heads, layout)
    for row, found in zip(scores.flatten(0, 1), gaps.flatten(0, 1), strict=True):
        for group, winner in enumerate(naive_group(row, heads, layout)):
            others = [h for h in range(pool) if (h % heads if layout == "strided" else h * heads // pool) == group]
            others.remove(winner)
            exact(found[group], row[winner] - max(row[h] for h in others))


@pytest.mark.parametrize(("pool", "heads"), [(7, 3), (8, 1), (5, 4)])
def test_gaps_of_subsets_equal_naive_loops(pool, heads):
    torch.manual_seed(0)
    scores = torch.randn(2, 3, pool, dtype=torch.double)
    gaps = selection.subset_gap(scores, heads)
    for row, found in zip(scores.flatten(0, 1), gaps.flatten(), strict=True):
        ranked = sorted(row.tolist(), reverse=True)
        exact(found, torch.tensor(ranked[heads - 1] - ranked[heads], dtype=torch.double))


@pytest.mark.parametrize("order", ["index", "score"])
def test_subset_picks_equal_a_naive_search(order):
    torch.manual_seed(0)
    scores = torch.randn(6, 7)
    best = [sorted(range(7), key=lambda head: -row[head])[:3] for row in scores.tolist()]
    expected = [sorted(row) for row in best] if order == "index" else best
    assert selection.subset_picks(scores, 3, order).tolist() == expected


def test_straight_through_is_one_to_the_bit_and_has_the_gradient_of_the_sample():
    torch.manual_seed(0)
    y = torch.rand(3, 8, requires_grad=True)
    picks = selection.subset_picks(y, 4)
    weights, factors = selection.straight_through(y, picks), torch.randn(3, 4)
    assert torch.equal(weights, torch.ones(3, 4))
    (weights * factors).sum().backward()
    assert torch.equal(y.grad, torch.zeros(3, 8).scatter(1, picks, factors))


def test_values_of_weight_1_stay_and_their_gradients_match_a_product():
    torch.manual_seed(0)
    values, weights = torch.randn(2, 3, 4, 2).double().requires_grad_(), torch.ones(2, 3).double().requires_grad_()
    assert torch.equal(selection.weigh(values, weights), values)
    assert torch.autograd.gradgradcheck(selection.weigh, (values, weights))
    upstream = torch.randn_like(values)
    found, expected = (
        torch.autograd.grad(y, (values, weights), upstream)
        for y in (selection.weigh(values, weights), values * weights[..., None, None])
    )
    torch.testing.assert_close(found, expected)


def test_noise_is_the_difference_of_two_gumbel_variables():
    torch.manual_seed(0)
    drawn = selection.logistic_noise(torch.empty(200_000, dtype=torch.double))
    uniform = torch.rand(2, 200_000, dtype=torch.double)
    gumbel = -torch.log(-torch.log(uniform))
    levels = torch.linspace(0.05, 0.95, 10, dtype=torch.double)
    torch.testing.assert_close(drawn.quantile(levels), (gumbel[0] - gumbel[1]).quantile(levels), atol=0.03, rtol=0.0)
    assert torch.isfinite(drawn).all()


def test_gradients_equal_finite_differences():
    torch.manual_seed(0)
    phi = torch.randn(2, 6, dtype=torch.double, requires_grad=True)
    noise = selection.logistic_noise(phi)
    assert torch.autograd.gradcheck(lambda t: selection.soft_sample(t, noise, 2.0), phi)
    assert torch.autograd.gradcheck(lambda t: selection.bernoulli_kl(t, 0.3), phi)
    assert torch.autograd.gradcheck(lambda t: selection.official_kl(torch.sigmoid(t), 0.3), phi)


@pytest.mark.parametrize("layout", ["strided", "contiguous"])
@pytest.mark.parametrize(("pool", "heads"), [(8, 4), (6, 2), (3, 1)])
def test_the_rest_of_a_group_is_all_but_the_selected_head(layout, pool, heads):
    scores = torch.randn(5, pool)
    picks = selection.group_picks(scores, heads, layout)
    rest = selection.group_rest(picks, pool, layout)
    assert len(rest) == pool // heads - 1
    for g in range(heads):
        group = range(g, pool, heads) if layout == "strided" else range(g * pool // heads, (g + 1) * pool // heads)
        for row in range(5):
            assert sorted([int(picks[row, g]), *(int(other[row, g]) for other in rest)]) == list(group)


def test_credit_is_the_gradient_of_a_sum_over_candidates(draw):
    context, y, others = draw.normal(2, 3, 4, 5), draw.normal(2, 3), draw.normal(2, 3, 4, 5)
    slope = draw.normal(2, 3, 4, 5).detach()
    found = selection.credit(context, y, others.detach())
    assert torch.equal(found, context)
    gradients = torch.autograd.grad(found, (context, y), slope)
    factor = y - y.detach()  # of (8): 0 in value
    total = context + factor[..., None, None] * others.detach()
    for ours, theirs in zip(gradients, torch.autograd.grad(total, (context, y), slope), strict=True):
        torch.testing.assert_close(ours, theirs)
