"""Losses of several modules in one call equal those of each by itself."""

import pytest
import torch

from espnet_diverse.attention import build_attention
from espnet_diverse.attention.mixtures.cluster_losses import Side, collect_losses, token_losses
from espnet_diverse.attention.mixtures.mixture import Mixture
from espnet_diverse.attention.mixtures.sdma_options import SMAOptions
from espnet_diverse.scope import Scope, scope

SIZE, HEADS = 8, 2
OPTIONS = [{}, {"approx_var": "learned"}, {"preset": "released"}, {"losses_over": "all", "mi_density": "tempered"}]


def module(**options):
    attention = build_attention("sdma", SIZE, HEADS, **({"noise_std": 0.0} | options)).double()
    for parameter in attention.core.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return attention


def collected(modules, inputs, monkeypatch=None):
    """Losses, their gradients, and the number of modules of each computation."""
    counts, compute = [], Scope._compute
    if monkeypatch:
        monkeypatch.setattr(Scope, "_compute", lambda self, some: counts.append(len(some)) or compute(self, some))
    parameters = [parameter for each in modules for parameter in each.parameters()]
    with scope() as shared:
        for each, (x, key, mask) in zip(modules, inputs, strict=True):
            each(x, key, key, mask)
    losses = shared.losses()
    gradients = torch.autograd.grad(sum(losses.values()), parameters, allow_unused=True)
    return losses, [g for g in gradients if g is not None], counts


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_modules_together_give_the_mean_of_each(options, monkeypatch):
    torch.manual_seed(0)
    mask = torch.arange(5) < torch.tensor([[[5]], [[3]], [[1]]])
    modules = [module(**options) for _ in range(3)]
    inputs = [(x, x, mask) for x in torch.randn(3, 3, 5, SIZE, dtype=torch.double)]
    together, gradients, counts = collected(modules, inputs, monkeypatch)
    assert counts == [3, 3]  # losses of tokens and of queries
    monkeypatch.undo()
    alone = [collected([one], [some]) for one, some in zip(modules, inputs, strict=True)]
    for name, loss in together.items():
        torch.testing.assert_close(loss, torch.stack([losses[name] for losses, *_ in alone]).mean())
    expected = [g / 3 for _, each, _ in alone for g in each]
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_modules_with_other_options_shapes_or_masks_are_computed_apart(monkeypatch):
    torch.manual_seed(0)
    x, mask = torch.randn(2, 4, SIZE, dtype=torch.double), torch.ones(2, 1, 4, dtype=torch.bool)
    other = torch.arange(4) < torch.tensor([[[4]], [[1]]])  # a sequence that does not count
    kinds = [(x, x, mask), (x, x, mask), (x, x, other), (x[:, :3], x[:, :3], mask[..., :3]), (x, x[:, :3], None)]
    modules = [module() for _ in kinds] + [module(lambda_d=2.0)]
    inputs = [*kinds, kinds[0]]
    losses, _, counts = collected(modules, inputs, monkeypatch)
    assert sorted(counts) == [1] * 8 + [2] * 2
    monkeypatch.undo()
    alone = [collected([one], [some])[0] for one, some in zip(modules, inputs, strict=True)]
    for name, loss in losses.items():
        torch.testing.assert_close(loss, torch.stack([each[name] for each in alone]).mean())


def test_losses_of_sides_are_summed():
    torch.manual_seed(0)
    mixture, options = Mixture(HEADS, 3, 4), SMAOptions(n_clusters_z=3)
    sides = [Side(mixture(torch.randn(2, HEADS, time, 4)), None, 0.1) for time in (5, 6)]
    results = []
    for some in (sides, sides[:1], sides[1:]):
        with scope() as shared:
            collect_losses(token_losses, options, mixture, some)
        results.append(shared.losses())
    assert results[0].keys() == {"kl_z", "diversity_z"}
    for name, both in results[0].items():
        torch.testing.assert_close(both, results[1][name] + results[2][name])


def test_half_precision_around_the_model_does_not_reach_the_losses():
    torch.manual_seed(0)
    mixture = Mixture(HEADS, 3, 4)
    clustering = mixture(torch.randn(2, HEADS, 5, 4))
    with torch.autocast("cpu", torch.bfloat16), scope() as shared:
        collect_losses(token_losses, SMAOptions(n_clusters_z=3), mixture, [Side(clustering, None, 0.1)])
        half = shared.losses()
    with scope() as shared:
        collect_losses(token_losses, SMAOptions(n_clusters_z=3), mixture, [Side(clustering, None, 0.1)])
    assert half.keys() == shared.losses().keys() == {"kl_z", "diversity_z"}
    assert all(torch.equal(half[name], loss) for name, loss in shared.losses().items())
