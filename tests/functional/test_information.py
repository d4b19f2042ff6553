"""The auxiliary losses against loops; padding, short sequences and degenerate input."""

import math

import pytest
import torch
from references import sdma as oracle
from references.posteriors import kl_of, mi_of, responsibility

from espnet_diverse.functional import information
from espnet_diverse.functional.information import diversity, query_mi_lower
from espnet_diverse.functional.masks import lengths_to_mask

B, H, T, D, C = 2, 3, 5, 4, 3


LOSSES = {
    "kl": lambda x, mixture, mask=None: kl_of(x, *mixture, 0.1, mask),
    "kl released": lambda x, mixture, mask=None: kl_of(x, *mixture, 0.01, mask, "released"),
    "D_qq": lambda x, mixture, mask=None: mi_of(x, *mixture, mask),
    "D_qq tempered": lambda x, mixture, mask=None: mi_of(x, *mixture, mask, "tempered"),
    "D_qq whole": lambda x, mixture, mask=None: mi_of(x, *mixture, mask, mi_bound="leave_one_out"),
    "D_xq": lambda x, mixture, mask=None: query_mi_lower(responsibility(x, *mixture), mask),
    "DV paper": lambda x, mixture, mask=None: diversity(responsibility(x, *mixture), mask=mask),
    "DV code": lambda x, mixture, mask=None: diversity(responsibility(x, *mixture), form="code", mask=mask),
    "DV balanced": lambda x, mixture, mask=None: diversity(responsibility(x, *mixture), form="balanced", mask=mask),
}


def every_loss(x, mixture, mask=None):
    """All losses of tokens x (B, H, T, D) under one mixture, by name."""
    return {name: loss(x, mixture, mask) for name, loss in LOSSES.items()}


def arrays(*tensors):
    return [tensor.detach().numpy() for tensor in tensors]


def mean(values):
    values = list(values)
    return pytest.approx(sum(values) / len(values), abs=1e-12)


@pytest.mark.parametrize("direction", ["paper", "released"])
def test_cluster_kl_equals_loops(draw, direction):
    x, mixture = draw.normal(B, H, T, D), draw.mixture(H, C, D)
    expected = mean(
        oracle.cluster_kl(*arrays(x[b, h], *(part[h] for part in mixture)), 0.1, direction)
        for b in range(B)
        for h in range(H)
    )
    assert kl_of(x, *mixture, 0.1, direction=direction).item() == expected


def test_cluster_kl_with_a_variance_of_each_token(draw):
    x, mixture = draw.normal(1, H, T, D), draw.mixture(1, C, D)
    variance = draw.normal(1, H, T).exp()
    own = arrays(*(part[0] for part in mixture))
    expected = mean(
        oracle.cluster_kl(*arrays(x[0, h, i : i + 1]), *own, variance[0, h, i].item())
        for h in range(H)
        for i in range(T)
    )
    assert kl_of(x, *mixture, variance).item() == expected
    assert torch.autograd.gradcheck(lambda v: kl_of(x, *mixture, v), (variance.detach().requires_grad_(),))


@pytest.mark.parametrize(("density", "temper"), [("paper", 1.0), ("tempered", 1 / D)])
def test_head_information_equals_loops(draw, density, temper):
    q, mixture = draw.normal(B, H, T, D), draw.mixture(1, C, D)
    own = arrays(*(part[0] for part in mixture))
    expected = [oracle.query_given_query(*arrays(q[b]), *own, temper) for b in range(B)]
    loss = mi_of(q, *mixture, mi_density=density)
    assert loss.item() == mean(oracle.head_mi_upper(value) for value in expected)


def test_the_whole_bound_of_head_information_equals_loops(draw):
    q, mixture = draw.normal(B, H, T, D), draw.mixture(1, C, D)
    own = arrays(*(part[0] for part in mixture))
    loss = mi_of(q, *mixture, mi_bound="leave_one_out")
    assert loss.item() == mean(oracle.head_mi_leave_one_out(*arrays(row), *own) for row in q)
    mask = lengths_to_mask(torch.tensor([T, 3]), T).unsqueeze(1)
    of_heads = mi_of(q[:2], *mixture, mask.expand(-1, H, -1), mi_bound="leave_one_out")
    torch.testing.assert_close(of_heads, mi_of(q[:2], *mixture, mask, mi_bound="leave_one_out"))


@pytest.mark.parametrize("limit", [2**19, 2 * T * T, 4 * T, 2])
def test_query_information_equals_loops_in_blocks_of_any_size(draw, monkeypatch, limit):
    monkeypatch.setattr(information, "block_size", lambda device: limit)
    p = draw.posterior(B, H, T, C)
    assert query_mi_lower(p).item() == mean(oracle.query_mi_lower(*arrays(row)) for row in p.flatten(0, 1))
    mask = torch.rand(B, 1, T) > 0.2
    assert torch.autograd.gradcheck(lambda p: query_mi_lower(p, mask), (p,))


@pytest.mark.parametrize("form", ["paper", "code", "balanced"])
def test_diversity_equals_loops(draw, form):
    p = draw.posterior(B, H, T, C)
    expected = mean(oracle.diversity(*arrays(row), 1.5, 0.5, form) for row in p.flatten(0, 1))
    assert diversity(p, 1.5, 0.5, form).item() == expected


def test_balanced_diversity_prefers_clusters_in_long_sequences_and_the_paper_form_does_not():
    uniform = torch.full((100, 8), 1 / 8)
    one_hot = torch.eye(8).repeat(13, 1)[:100]
    assert diversity(uniform) < diversity(one_hot)
    assert diversity(uniform, form="balanced") > diversity(one_hot, form="balanced")


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_gradients(draw, loss):
    mask = lengths_to_mask(torch.tensor([[3], [2]]), 3)
    inputs = draw.normal(2, 2, 3, 2), *draw.mixture(1, 2, 2)
    assert torch.autograd.gradcheck(lambda x, *mixture: loss(x, mixture, mask), inputs)


def test_padding_changes_nothing_and_a_batch_is_the_mean_of_its_sequences(draw):
    lengths = torch.tensor([5, 2, 4])
    x, mixture = draw.normal(3, H, T, D), draw.mixture(1, C, D)
    mask = lengths_to_mask(lengths, T).unsqueeze(1)
    batch = every_loss(x, mixture, mask)
    noisy = every_loss(torch.where(mask.unsqueeze(-1), x, 50.0), mixture, mask)
    single = [every_loss(x[b : b + 1, :, :n], mixture) for b, n in enumerate(lengths)]
    for name, loss in batch.items():
        torch.testing.assert_close(loss, noisy[name])
        torch.testing.assert_close(loss, torch.stack([losses[name] for losses in single]).mean())


def test_sequences_with_fewer_than_two_tokens_are_left_out(draw):
    x, mixture = draw.normal(4, H, T, D), draw.mixture(1, C, D)
    mask = lengths_to_mask(torch.tensor([1, 5, 0, 3]), T).unsqueeze(1)
    kept = every_loss(x[1::2], mixture, mask[1::2])
    for name, loss in every_loss(x, mixture, mask).items():
        torch.testing.assert_close(loss, kept[name])


@pytest.mark.parametrize("length", [0, 1])
def test_batch_without_any_sequence_costs_nothing(draw, length):
    x, mixture = draw.normal(2, H, T, D), draw.mixture(1, C, D)
    mask = lengths_to_mask(torch.tensor([[length]]), T)
    masked, lone = every_loss(x, mixture, mask), every_loss(x[:, :, :1], mixture)
    for loss in (*masked.values(), *lone.values()):
        assert loss.item() == 0
        gradients = torch.autograd.grad(loss, (x, *mixture), retain_graph=True, allow_unused=True)
        assert all(gradient is None or gradient.abs().max() == 0 for gradient in gradients)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", ["identical tokens", "tiny variances", "huge tokens", "one cluster"])
def test_degenerate_input_stays_finite(draw, case, dtype):
    x, mixture = draw.normal(2, H, T, D), draw.mixture(1, 1 if case == "one cluster" else C, D)
    if case == "identical tokens":
        x = x[:, :, :1].expand(2, H, T, D)
    if case == "huge tokens":
        x = x * 1e4
    if case == "tiny variances":
        mixture = (*mixture[:2], torch.full_like(mixture[2], -100.0))
    inputs = [part.detach().to(dtype).requires_grad_() for part in (x, *mixture)]
    for name, loss in every_loss(inputs[0], inputs[1:]).items():
        gradients = torch.autograd.grad(loss, inputs, retain_graph=True)
        assert loss.isfinite(), name
        assert all(gradient.isfinite().all() for gradient in gradients), name


def test_certain_query_costs_no_more_than_the_clamp():
    """One token far likelier than the rest: (17) and (16) are 1, and (21) would be infinite."""
    q = torch.full((1, 2, 4, 8), 30.0, dtype=torch.float64)
    q[:, :, 0] = 0
    mixture = torch.zeros(1, 2), torch.zeros(1, 2, 8), torch.zeros(1, 2, 8)
    loss = mi_of(q, *(part.double() for part in mixture))
    assert loss.item() == pytest.approx(-math.log(1e-6) * 2 / (4 * 2**2))


def test_unknown_options_are_refused(draw):
    x, mixture = draw.normal(2, T, D), draw.mixture(1, C, D)
    with pytest.raises(ValueError, match="unknown KL direction 'reverse'; known: paper released"):
        kl_of(x, *mixture, 0.1, direction="reverse")
    with pytest.raises(ValueError, match="unknown MI density 'sharp'; known: paper tempered"):
        mi_of(x, *mixture, mi_density="sharp")
    with pytest.raises(ValueError, match="unknown form of the diversity loss 'old'; known: paper code balanced"):
        diversity(responsibility(x, *mixture), form="old")
