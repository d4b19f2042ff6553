"""Random features against loops and golden arrays; attention with them in all forms; the limit of many features."""

import pytest
import torch
import torch.nn.functional as F
from references import efficient as oracle
from references.golden import golden

from espnet_diverse.functional import features
from espnet_diverse.functional.features import (
    causal_feature_attention,
    feature_attention,
    gaussian,
    scaled_positive,
    trigonometric,
)
from espnet_diverse.functional.masks import causal

GOLDEN = golden("random_features")
B, H, T, D, R = 2, 1, 9, 3, 4
VALID = torch.tensor([[1, 1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1, 1, 0, 0]], dtype=torch.bool).unsqueeze(1)
KEYS, CAUSAL = VALID.unsqueeze(2), VALID.unsqueeze(2) & causal(T)
TINY = torch.finfo(torch.float64).tiny ** 0.5


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(features, "_BLOCK", 4)


def positive(x, w):
    values, log_factor = scaled_positive(x, w)
    return values * log_factor.exp().unsqueeze(-1)


FEATURES = {"positive": positive, "trigonometric": trigonometric}


def exact(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-10, rtol=1e-10)


def drawn(count, seed=0, orthogonal=True, width=D):
    return gaussian(count, width, orthogonal, torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize("name", FEATURES)
def test_features_equal_loops(draw, name):
    x, w = draw.normal(4, D), draw.normal(R, D)
    expected = getattr(oracle, name)(x.detach().numpy(), w.detach().numpy())
    exact(FEATURES[name](x, w).detach(), torch.tensor(expected))
    assert torch.autograd.gradcheck(FEATURES[name], (x, w))


def test_golden_features():
    q, k, w = (GOLDEN[name] for name in ("q", "k", "W0"))
    for name, x in (("q", q), ("k", k)):
        exact(trigonometric(x, w / GOLDEN["sigma"]), GOLDEN[f"slides_phi_{name}"])
        exact(positive(x / 6**0.25, w), GOLDEN[f"favor_phi_{name}"])
    estimate = trigonometric(q, w / GOLDEN["sigma"]) @ trigonometric(k, w / GOLDEN["sigma"]).T
    exact(estimate, GOLDEN["slides_kernel_estimate"])


def attended(phi_q, phi_k, v, form=feature_attention):
    """Attention of one sequence and head, without factors of keys."""
    return form(phi_q[None, None], phi_k[None, None], v[None, None], phi_k.new_zeros(1, 1, len(phi_k)), TINY)[0, 0]


def test_golden_attention():
    q, k, v, w = (GOLDEN[name] for name in ("q", "k", "v", "W0"))
    exact(attended(positive(q / 6**0.25, w), positive(k / 6**0.25, w), v), GOLDEN["favor_out"])
    phi = positive(k / 6**0.25, w)
    exact(attended(phi, phi.flip(0), v, causal_feature_attention), GOLDEN["favor_causal_out"])
    phi_q, phi_k = (trigonometric(F.normalize(x, dim=-1), w) for x in (q, k))
    exact(attended(phi_q, phi_k, v), GOLDEN["rfa_out"])


def test_many_features_estimate_the_golden_kernel_and_attention():
    q, k, v, sigma = (GOLDEN[name] for name in ("q", "k", "v", "sigma"))
    w = drawn(60_000, width=6)
    estimate = trigonometric(q, w / sigma) @ trigonometric(k, w / sigma).T
    torch.testing.assert_close(estimate, GOLDEN["kernel_exact"], atol=0.02, rtol=0)
    context = attended(positive(q / 6**0.25, w), positive(k / 6**0.25, w), v)
    torch.testing.assert_close(context, GOLDEN["softmax_out"], atol=0.05, rtol=0)


FORMS = {
    "keys": (lambda *given: feature_attention(*given, TINY, KEYS), KEYS),
    "no mask": (lambda *given: feature_attention(*given, TINY), torch.ones(1, 1, 1, T, dtype=torch.bool)),
    "pairs": (lambda *given: feature_attention(*given, TINY, CAUSAL), CAUSAL),
    "causal": (lambda *given: causal_feature_attention(*given, TINY, VALID), CAUSAL),
    "causal, no padding": (lambda *given: causal_feature_attention(*given, TINY), causal(T).view(1, 1, T, T)),
}
each_form = pytest.mark.parametrize(("form", "mask"), FORMS.values(), ids=FORMS)


@each_form
def test_attention_equals_loops(draw, form, mask):
    log_q, log_k, v, s = draw.normal(B, H, T, R), draw.normal(B, H, T, R), draw.normal(B, H, T, D), draw.normal(B, H, T)
    context = form(log_q.exp(), log_k.exp(), v, s)
    seen = mask.expand(B, H, T, T)
    kernel = log_q.exp() @ (log_k + s.unsqueeze(-1)).exp().transpose(-2, -1)
    for b in range(B):
        for h in range(H):
            one = (x[b, h].detach().numpy() for x in (kernel, v, seen))
            exact(context[b, h].detach(), torch.tensor(oracle.kernel_attention(*one)))


@each_form
def test_gradcheck_of_attention(draw, form, mask):
    s = draw.normal(B, H, T).detach()  # a factor that its features lack, without a gradient of its own

    def context(log_q, log_k, v):
        return form(log_q.exp(), log_k.exp(), v, s)

    assert torch.autograd.gradcheck(
        context, (draw.normal(B, H, T, R), draw.normal(B, H, T, R), draw.normal(B, H, T, D))
    )


def test_a_denominator_is_at_least_the_floor():
    phi_q, phi_k, v = torch.tensor([[1.0, 0.0]]), torch.tensor([[-0.5, 1.0], [0.2, 0.0]]), torch.tensor([[1.0], [2.0]])
    context = feature_attention(phi_q[None, None], phi_k[None, None], v[None, None], torch.zeros(1, 1, 2), 0.25)
    torch.testing.assert_close(context, torch.tensor((-0.5 + 0.4) / 0.25).view(1, 1, 1, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_factors_out_of_the_range_of_floating_point(draw, dtype):
    """Keys whose features would be exp(+-2000) change nothing where they are not seen, or weigh less."""
    q, k, v = (
        x.detach().exp().to(dtype) for x in (draw.normal(1, 1, T, R), draw.normal(1, 1, T, R), draw.normal(1, 1, T, D))
    )
    s = torch.tensor([-2000.0, 0, 0, 0, 0, 2000, 2000, -2000, 0], dtype=dtype).view(1, 1, T)
    context = causal_feature_attention(q, k, v, s, torch.finfo(dtype).tiny ** 0.5)
    near = [slice(0, 1), slice(1, 5), slice(5, 7)]  # the keys that queries 0, 4 and 8 attend to
    for i, keys in zip((0, 4, 8), near, strict=True):
        alone = feature_attention(q[:, :, i : i + 1], k[:, :, keys], v[:, :, keys], s[:, :, keys] * 0, 1e-30)
        torch.testing.assert_close(context[:, :, i : i + 1], alone)
    torch.testing.assert_close(context, feature_attention(q, k, v, s, 1e-30, causal(T).view(1, 1, T, T)))


def test_without_keys_all_is_zero_and_gradients_are_finite(draw):
    nothing = torch.zeros(B, 1, T, dtype=torch.bool)
    for form in (
        lambda *given: feature_attention(*given, TINY, nothing.unsqueeze(2)),
        lambda *given: feature_attention(*given, TINY, nothing.unsqueeze(2).expand(-1, -1, T, -1)),
        lambda *given: causal_feature_attention(*given, TINY, nothing),
    ):
        tensors = [draw.normal(B, H, T, n) for n in (R, R, D)]
        context = form(*tensors, draw.normal(B, H, T).detach())
        context.sum().backward()
        assert torch.equal(context, torch.zeros_like(context))
        assert all(torch.isfinite(x.grad).all() for x in tensors)


def test_rows_are_normal_and_orthogonal_in_sets():
    w = drawn(7, orthogonal=True)
    for rows in (w[:3], w[3:6]):
        gram = rows @ rows.T
        torch.testing.assert_close(gram, gram.diagonal().diag(), atol=1e-5, rtol=0)
    assert (drawn(7, orthogonal=False)[:3] @ drawn(7, orthogonal=False)[:3].T).triu(1).abs().max() > 0.1
    for orthogonal in (True, False):
        many = drawn(30_000, orthogonal=orthogonal)
        torch.testing.assert_close(many.T @ many / 30_000, torch.eye(D).double(), atol=0.05, rtol=0)
        assert many.pow(4).mean().item() == pytest.approx(3, abs=0.1)  # rows of one length have 9 / 5


@pytest.mark.parametrize("orthogonal", [True, False])
def test_estimates_approach_the_kernels(draw, orthogonal):
    x, y = draw.normal(4, D).detach() / 2, draw.normal(6, D).detach() / 2
    w = drawn(200_000, orthogonal=orthogonal)
    torch.testing.assert_close(positive(x, w) @ positive(y, w).T, (x @ y.T).exp(), atol=0.02, rtol=0.02)
    gauss = (-torch.cdist(x, y).square() / 2).exp()
    torch.testing.assert_close(trigonometric(x, w) @ trigonometric(y, w).T, gauss, atol=0.02, rtol=0.02)


def test_positive_features_stay_in_range():
    values, log_factor = scaled_positive(torch.full((1, D), 30.0), drawn(R).float())
    assert values.max() == 1 and torch.isfinite(log_factor).all()
