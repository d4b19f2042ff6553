"""SDMA as a module: its losses, its schedule, what it reports. The equations are tested under functional/."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from references import sdma as oracle

from espnet_diverse.attention import Heads, build_attention, build_core
from espnet_diverse.attention.cores import sdma, sma
from espnet_diverse.attention.mixtures.noise import gaussian_noise
from espnet_diverse.runs import checkpoint
from espnet_diverse.scope import scope
from espnet_diverse.training.checkpoints import averaging

SIZE, HEADS, C = 16, 4, 8


def losses_of(module, x, mask, memory=None, query_mask=None):
    key = x if memory is None else memory
    with scope() as shared:
        shared.query_mask = query_mask
        module(x, key, key, mask)
    return shared.losses(), shared.stats()


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 9, SIZE, dtype=torch.double)


def test_sdma_has_the_six_losses_of_the_paper(x):
    module = build_attention("sdma", SIZE, HEADS).double()
    losses, stats = losses_of(module, x, None)
    assert set(losses) == {"kl_z", "diversity_z", "kl_q", "diversity_q", "head_mi", "query_mi"}
    assert all(torch.isfinite(v) for v in losses.values())
    assert losses["kl_z"] > 0 and losses["head_mi"] > 0 and losses["query_mi"] > 0  # -lambda_x * (a negative bound)
    assert 1 <= stats["clusters_z"] <= C


@pytest.mark.parametrize("kind", ["self", "causal", "cross"])
def test_padding_never_enters_a_loss_or_a_statistic(x, kind):
    module = build_attention("sdma", SIZE, HEADS).double().eval()
    lengths = torch.tensor([9, 5, 3])
    valid = torch.arange(9) < lengths[:, None]
    mask = valid[:, None]
    if kind == "causal":
        mask = mask & torch.ones(9, 9, dtype=torch.bool).tril()
    memory = torch.randn(3, 6, SIZE, dtype=torch.double) if kind == "cross" else None
    if kind == "cross":
        mask = torch.ones(3, 1, 6, dtype=torch.bool)
    before = losses_of(module, x, mask, memory, valid)
    after = losses_of(module, x.masked_fill(~valid[..., None], 50.0), mask, memory, valid)
    assert {"kl_z", "query_mi"} <= before[0].keys() and {"clusters_z", "uniform_q"} <= before[1].keys()
    for found, expected in zip(after, before, strict=True):
        for name in expected:
            torch.testing.assert_close(found[name], expected[name], msg=name)


def test_no_loss_is_computed_outside_a_scope(x, monkeypatch):
    module = build_attention("sdma", SIZE, HEADS).double()
    for core in (sdma, sma):
        monkeypatch.setattr(core, "collect_losses", lambda *a: pytest.fail("computed a loss"))
    module(x, x, x, None)


@pytest.mark.parametrize("options", [{}, {"preset": "paper"}, {"preset": "released"}, {"mi_density": "tempered"}])
def test_parameters_added_match_the_paper(options):
    """C(H + 2M + 1 + 2D) a module: a mixture a head over tokens, one mixture for all heads over queries."""
    module = build_attention("sdma", SIZE, HEADS, n_clusters_z=C, n_clusters_q=C, **options)
    plain = build_attention("softmax", SIZE, HEADS)
    added = sum(p.numel() for p in module.parameters()) - sum(p.numel() for p in plain.parameters())
    assert added == C * (HEADS + 2 * SIZE + 1 + 2 * SIZE // HEADS)


def test_gamma_follows_optimizer_updates_not_forward_passes(x):
    module = build_attention("sdma", SIZE, HEADS).double()
    optimizer = torch.optim.Adam(module.parameters())
    for _ in range(3):
        for _ in range(2):  # gradient accumulation
            with scope() as shared:
                (module(x, x, x, None).square().mean() + shared.total_loss()).backward()
        optimizer.step()
        optimizer.zero_grad()
        module.eval()
        module(x, x, x, None)  # validation
        module.train()
    module(x, x, x, None)
    assert float(module.core.updates.count) == 3
    assert float(module.core.gamma()) == pytest.approx(1 - 2.718281828 ** (-5e-4 * 3), rel=1e-4)


def test_averaging_checkpoints_averages_the_count(tmp_path):
    module = build_attention("sdma", SIZE, HEADS).eval()
    for epoch, count in ((1, 1000.0), (2, 3000.0)):
        module.core.updates.count.fill_(count)
        checkpoint.save(module.state_dict(), tmp_path / f"{epoch}epoch.pth")
    stats = {epoch: {"valid": {"acc": 0.5}} for epoch in (1, 2)}
    reporter = SimpleNamespace(stats=stats, has=lambda *_: True)
    averaging.average_best(tmp_path, reporter, [("valid", "acc", "max")], 2)
    module.load_state_dict(checkpoint.load(tmp_path / "valid.acc.ave.pth"))
    assert float(module.core.updates.count) == 2000
    assert float(module.core.gamma()) == pytest.approx(1 - 2.718281828 ** (-5e-4 * 2000))


def test_noise_moves_the_output_in_training_only(x):
    module = build_attention("sdma", SIZE, HEADS, noise_std=0.3).double()
    assert not torch.equal(module(x, x, x, None), module(x, x, x, None))
    module.eval()
    assert torch.equal(module(x, x, x, None), module(x, x, x, None))


@pytest.mark.parametrize("order", ["after", "before"])
def test_the_queries_that_attend_have_noise(order):
    """Equation (8)."""
    torch.manual_seed(3)
    core = build_core("sdma", 6, 2, {"noise_std": 0.3, "noise_order": order}).double()
    core.updates.count.fill_(1000.0)
    x, (q, k, v) = torch.randn(2, 4, 6, dtype=torch.double), torch.randn(3, 2, 2, 4, 3, dtype=torch.double)
    torch.manual_seed(4)
    found, _ = core(Heads(q, k, v, x, x, q))
    torch.manual_seed(4)
    expected, _ = core.eval()(Heads(q + gaussian_noise(q, 0.3), k, v, x, x, q))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("collect", [False, True])
def test_posteriors_of_queries_are_kept_with_the_weights(x, collect):
    module = build_attention("sdma", SIZE, HEADS, noise_std=0.0).double()
    with scope(keep_attention=True, collect=collect):
        module(x, x, x, None)
    seen = module.core.inspect()
    assert list(seen.posteriors) == ["query inputs", "queries"] and list(seen.maps) == ["semantic"]
    queries = module.linear_q(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
    torch.testing.assert_close(seen.posteriors["queries"], module.core.query_mixture(queries).p.detach())


def test_every_loss_has_the_option_that_weights_it(x):
    module = build_attention("sdma", SIZE, HEADS).double()
    losses, stats = losses_of(module, x, None)
    assert set(losses) == set(module.core.LOSSES)
    assert {loss.weight for loss in module.core.LOSSES.values()} <= set(vars(module.core.options))
    assert {diagnosis.statistic for diagnosis in module.core.DIAGNOSES} <= set(stats)
    for name, loss in module.core.LOSSES.items():
        without, _ = losses_of(build_attention("sdma", SIZE, HEADS, **{loss.weight: 0.0}).double(), x, None)
        assert without[name] == 0, name


@pytest.fixture
def small():
    """A core with clusters that differ, and heads of 4 positions, in evaluation."""
    torch.manual_seed(2)
    core = build_core("sdma", 6, 2, {"n_clusters_z": 3, "n_clusters_q": 3, "mi_density": "tempered"}).double().eval()
    for parameter in core.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    x, (q, k, v) = torch.randn(2, 4, 6, dtype=torch.double), torch.randn(3, 2, 2, 4, 3, dtype=torch.double)
    return core, Heads(q, k, v, x, x, q)


def test_the_losses_of_queries_equal_loops(small):
    core, heads = small
    with scope() as shared:
        core(heads)
    losses, option = shared.losses(), core.options
    mixture = [part.detach().numpy()[0] for part in core.query_mixture.components()]
    rows = heads.raw_q.flatten(0, 1).numpy()
    posteriors = [oracle.responsibility(row, *mixture) for row in rows]
    shared_by_heads = [oracle.query_given_query(q.numpy(), *mixture, 1 / 3) for q in heads.raw_q]
    expected = {
        "kl_q": option.lambda_k * np.mean([oracle.cluster_kl(row, *mixture, option.approx_var) for row in rows]),
        "diversity_q": option.lambda_d * np.mean([oracle.diversity(p, option.alpha, option.beta) for p in posteriors]),
        "head_mi": option.lambda_q * np.mean([oracle.head_mi_upper(p) for p in shared_by_heads]),
        "query_mi": -option.lambda_x * np.mean([oracle.query_mi_lower(p) for p in posteriors]),
    }
    for name, value in expected.items():
        assert losses[name].item() == pytest.approx(value, rel=1e-6), name


def test_gradcheck(small):
    core, heads = small

    def context_and_losses(x, q, k, v):
        with scope() as shared:
            context, _ = core(Heads(q, k, v, x, x, q))
        return context, shared.total_loss()

    inputs = [tensor.clone().requires_grad_() for tensor in (heads.query, heads.q, heads.k, heads.v)]
    assert torch.autograd.gradcheck(context_and_losses, inputs)
