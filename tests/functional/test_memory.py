"""The equations of disentangled memory: golden arrays, naive loops, finite differences, long optimisation."""

import math

import numpy as np
import pytest
import torch
from references.golden import golden
from torch.distributions import Independent, Normal, kl_divergence

from espnet_diverse.functional.memory import (
    LOG_VARIANCES,
    choose_slots,
    compactness,
    divergence_from_prior,
    info_nce,
    keep_score,
    pairwise_divergence,
    spread,
)
from espnet_diverse.functional.selection import soft_sample, straight_through
from espnet_diverse.functional.variational import sample

GOLDEN = golden("cdt")
FILLED = torch.ones(2, 9, dtype=torch.bool)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def noisy_score():
    gumbel = GOLDEN["gumbel"]
    return keep_score(GOLDEN["keep_logits"]) + gumbel[..., 1] - gumbel[..., 0]


def gathered(entries, picks):
    return torch.stack([row[index] for row, index in zip(entries, picks, strict=True)])


@pytest.mark.parametrize("kept", [1, 3, 60])
def test_of_equal_scores_the_last_entries_are_kept(kept):
    score = torch.zeros(2, 70)
    score[1, 5] = 1.0
    picks, filled = choose_slots(torch.ones(2, 70, dtype=torch.bool), kept, score)
    assert picks[0].tolist() == list(range(70 - kept, 70)) and filled.all()
    assert picks[1].tolist() == [5, *range(71 - kept, 70)]


def test_samples_equal_the_golden_array():
    close(sample(GOLDEN["mu"], GOLDEN["logvar"], GOLDEN["eps"]), GOLDEN["Z"])


def test_the_probability_of_keeping_equals_the_golden_array():
    score = noisy_score()
    close(soft_sample(score, 0.0, GOLDEN["tau"]), GOLDEN["soft_keep"])
    close((score > 0).double(), GOLDEN["hard_keep"])


@pytest.mark.parametrize("kind", ["noisy", "eval"])
def test_the_best_slots_equal_the_golden_array(kind):
    score = noisy_score() if kind == "noisy" else keep_score(GOLDEN["keep_logits"])
    picks, filled = choose_slots(FILLED, 4, score)
    assert torch.equal(picks, GOLDEN[f"topk_index_{kind}"]) and filled.all()
    weights = straight_through(soft_sample(score, 0.0, GOLDEN["tau"]), picks).unsqueeze(-1)
    close(gathered(GOLDEN["M_tilde"], picks) * weights, GOLDEN[f"M_fixed_{kind}"])


def oracle_choice(valid, slots, score, update):
    """The filled entries that a memory keeps, in order."""
    entries = [i for i in range(len(valid)) if valid[i] and (update != "mask" or score[i] > 0)]
    if update == "topk":
        return sorted(sorted(entries, key=lambda i: -score[i])[:slots])
    return entries[-slots:]


@pytest.mark.parametrize("update", ["topk", "mask", "fifo"])
def test_slots_equal_the_oracle(update):
    torch.manual_seed(0)
    for _ in range(20):
        valid, score = torch.rand(3, 8) < 0.6, torch.randn(3, 8)
        picks, filled = choose_slots(valid, 4, score, update)
        assert picks.shape == filled.shape == (3, 4) and (picks.diff() > 0).all()
        for row in range(3):
            assert picks[row][filled[row]].tolist() == oracle_choice(valid[row], 4, score[row], update)


def test_divergences_match_torch():
    torch.manual_seed(0)
    mean, log_var = torch.randn(4, 3).double(), torch.randn(4, 3).double()
    each = [Independent(Normal(m, (v / 2).exp()), 1) for m, v in zip(mean, log_var, strict=True)]
    expected = torch.stack([torch.stack([kl_divergence(p, q) for q in each]) for p in each])
    close(pairwise_divergence(mean, log_var), expected)
    prior = Independent(Normal(torch.zeros(3).double(), torch.ones(3).double()), 1)
    close(divergence_from_prior(mean, log_var), torch.stack([kl_divergence(p, prior) for p in each]))


@pytest.mark.parametrize("scale", [1.0, 10.0, 30.0])
def test_the_divergence_of_like_slots_is_exact_in_single_precision(scale):
    torch.manual_seed(0)
    mean, log_var = torch.randn(6, 256) * scale, torch.full((6, 256), -6.0)
    mean[1] = mean[0] + 1e-3 * torch.randn(256)
    expected = pairwise_divergence(mean.double(), log_var.double())
    found = pairwise_divergence(mean, log_var)
    assert found.dtype == torch.float32 and (found >= 0).all()
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)
    by_pairs = (mean[0] - mean[1]).double().square().sum() * math.exp(6.0) / 2  # equal variances
    torch.testing.assert_close(expected[0, 1], by_pairs, rtol=1e-8, atol=1e-8)


def test_the_spread_equals_the_oracle():
    torch.manual_seed(0)
    mean, log_var, valid = torch.randn(5, 4, 3).double(), torch.randn(5, 4, 3).double(), torch.rand(5, 4) < 0.6
    valid[0], valid[1] = False, torch.tensor([True, False, False, False])
    divergence = pairwise_divergence(mean, log_var)
    for row, found in enumerate(spread(divergence, valid, 6.0)):
        slots = valid[row].nonzero()[:, 0].tolist()
        pairs = [min(float(divergence[row, m, j]), 6.0) for m in slots for j in slots if m != j]
        assert float(found) == pytest.approx(sum(pairs) / max(1, len(pairs)), rel=1e-12)
    assert spread(divergence, valid)[:2].tolist() == [0, 0]


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_info_nce_equals_the_golden_value(temperature):
    by_cosines = torch.nn.functional.cross_entropy(GOLDEN["nce_cosine"] / temperature, torch.arange(4))
    close(by_cosines, GOLDEN[f"infonce_temp{temperature}"])
    loss = info_nce(GOLDEN["nce_memory"], GOLDEN["nce_future"], torch.arange(4), temperature)
    close(loss, GOLDEN[f"infonce_temp{temperature}"])


def test_info_nce_equals_the_oracle_where_some_are_left_out():
    torch.manual_seed(0)
    anchors, candidates = torch.randn(4, 3).double(), torch.randn(5, 3).double()
    positive, counted = torch.tensor([1, 2, 3, 0]), torch.tensor([True, False, True, True])
    allowed = torch.tensor([True, True, False, True, False])
    terms = []
    for a in (0, 2, 3):
        cosines = [torch.cosine_similarity(anchors[a], candidates[c], dim=0).item() / 0.5 for c in (0, 1, 3)]
        own = cosines[(0, 1, 3).index(int(positive[a]))]
        terms.append(math.log(sum(map(math.exp, cosines))) - own)
    found = info_nce(anchors, candidates, positive, 0.5, counted, allowed)
    assert float(found) == pytest.approx(sum(terms) / 3, rel=1e-12)


def test_info_nce_without_anchors_or_negatives_is_0():
    anchors = torch.zeros(2, 3, requires_grad=True)
    nothing = info_nce(anchors, torch.randn(2, 3), torch.arange(2), 0.1, torch.zeros(2, dtype=torch.bool))
    nothing.backward()
    assert nothing == 0 and torch.isfinite(anchors.grad).all()
    assert info_nce(torch.randn(1, 3), torch.randn(1, 3), torch.zeros(1, dtype=torch.long), 0.1) == 0


def test_gradients():
    torch.manual_seed(0)
    mean, log_var = torch.randn(2, 4, 3).double().requires_grad_(), torch.randn(2, 4, 3).double().requires_grad_()
    noise, valid = torch.randn(2, 4, 3).double(), torch.tensor([[True] * 4, [True, False, True, True]])
    assert torch.autograd.gradcheck(lambda m, v: sample(m, v, noise), (mean, log_var))
    assert torch.autograd.gradcheck(lambda m, v: compactness(m, v, valid), (mean, log_var))
    assert torch.autograd.gradcheck(lambda m, v: spread(pairwise_divergence(m, v), valid, 9.0), (mean, log_var))
    anchors, candidates = torch.randn(3, 4).double().requires_grad_(), torch.randn(5, 4).double().requires_grad_()
    places, counted = torch.tensor([1, 3, 0]), torch.tensor([True, True, False])
    assert torch.autograd.gradcheck(lambda a, c: info_nce(a, c, places, 0.5, counted), (anchors, candidates))


def test_losses_stay_finite_in_free_optimisation():
    """2,000 steps on means and log-variances themselves, with no task that would hold them."""
    torch.manual_seed(0)
    free, valid, losses, cap = torch.randn(2, 2, 4, 6), torch.ones(2, 4, dtype=torch.bool), [], 6.0
    for _ in range(2000):
        free.requires_grad_()
        mean, log_var = free[0], free[1].clamp(*LOG_VARIANCES)
        pooled = mean.mean(1)
        constraint = compactness(mean, log_var, valid) - spread(pairwise_divergence(mean, log_var), valid, cap)
        loss = info_nce(pooled, pooled.flip(0), torch.arange(2), 0.1) + 1.1 * constraint.mean()
        (gradient,) = torch.autograd.grad(loss, free)
        free = free.detach() - 0.02 * gradient.sign()  # every value moves as fast as with Adam
        losses.append(loss.item())
    assert np.isfinite(losses).all() and torch.isfinite(free).all()
    assert losses[-1] < losses[0] and constraint.min() > -cap  # the bound of (5) with the cap


def test_an_unknown_update_is_refused():
    with pytest.raises(ValueError, match="unknown update 'lru'; known: topk mask fifo"):
        choose_slots(FILLED, 4, update="lru")
