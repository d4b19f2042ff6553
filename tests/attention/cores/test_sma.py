"""The SMA core against loops in double precision: clustering (9), mask (10), mixing (11) and (2), gradients, noise."""

import numpy as np
import pytest
import torch
from references import sdma as oracle

from espnet_diverse.attention import Heads, Inspection, build_attention, build_core
from espnet_diverse.functional.semantic import semantic_mask
from espnet_diverse.scope import scope

B, H, T, D = 2, 2, 5, 3
SIZE = H * D
UPDATES = 800.0
PADDED = torch.arange(T) < torch.tensor([5, 3]).view(B, 1, 1, 1)
CAUSAL = torch.ones(T, T, dtype=torch.bool).tril().view(1, 1, T, T)
each_mask = pytest.mark.parametrize("mask", [None, PADDED, CAUSAL], ids=["none", "padding", "causal"])


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.double)


def make(updates=UPDATES, **options):
    """A core with clusters that differ, after some updates."""
    torch.manual_seed(1)
    core = build_core("sma", SIZE, H, {"n_clusters_z": 3} | options).double().eval()
    for parameter in core.token_mixture.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    core.updates.count.fill_(updates)
    return core


def heads(mask, cross=False, **options):
    query = draw(B, T, SIZE)
    key = draw(B, T, SIZE, seed=1) if cross else query
    q, k, v = (draw(B, H, T, D, seed=seed) for seed in (2, 3, 4))
    return Heads(q, k, v, query, key, q, mask=mask, **options)


def posteriors(core, x):
    """(9) of tokens x (B, T, M) by loops, (B, H, T, C)."""
    components = [part.detach().numpy() for part in core.token_mixture.components()]
    tokens = x.view(B, T, H, D).transpose(1, 2).numpy()
    return np.array(
        [[oracle.responsibility(tokens[b, h], *(part[h] for part in components)) for h in range(H)] for b in range(B)]
    )


@each_mask
@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
def test_equals_loops(mask, cross):
    core, given = make(), heads(mask, cross, need_weights=True)
    context, weights = core(given)
    assert float(core.gamma()) == pytest.approx(oracle.gamma(UPDATES, core.options.nu, core.options.gamma_rate))
    p_query, p_key = posteriors(core, given.query), posteriors(core, given.key)
    seen = torch.ones(B, H, T, T, dtype=torch.bool) if mask is None else mask.expand(B, H, T, T)
    for b in range(B):
        for h in range(H):
            q, k = given.q[b, h].numpy(), given.k[b, h].numpy()
            mixed = oracle.mixed_attention(q, k, p_query[b, h], p_key[b, h], float(core.gamma()), seen[b, h].numpy())
            torch.testing.assert_close(weights[b, h].detach(), torch.tensor(mixed))
            torch.testing.assert_close(context[b, h].detach(), torch.tensor(mixed) @ given.v[b, h])


@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "weights"])
def test_gradcheck(need_weights):
    core = make()
    core.token_mixture.requires_grad_(True)

    def context(query, q, k, v):
        return core(Heads(q, k, v, query, query, q, mask=PADDED, need_weights=need_weights))[0]

    given = heads(None)
    inputs = [x.clone().requires_grad_() for x in (given.query, given.q, given.k, given.v)]
    assert torch.autograd.gradcheck(context, inputs)
    context(*inputs).square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in core.token_mixture.parameters())


def test_features_of_keys_are_their_posteriors():
    core, given = make(), heads(PADDED)
    features = core.key_features(given.key, given.k)
    np.testing.assert_allclose(features.detach().numpy(), posteriors(core, given.key))
    cached = Heads(given.q, given.k, given.v, given.query, given.query, given.q, mask=PADDED, key_features=features)
    torch.testing.assert_close(core(cached)[0], core(given)[0])


def test_it_has_the_two_losses_of_the_semantic_mask():
    x = draw(B, T, SIZE)
    with scope() as shared:
        build_attention("sma", SIZE, H).double()(x, x, x, None)
    assert set(shared.losses()) == {"kl_z", "diversity_z"}


def test_the_mask_and_posteriors_are_kept_only_with_the_weights():
    core, given = make(), heads(PADDED, cross=True, need_weights=True)
    core(given)
    seen = core.inspect()
    p_query, p_key = seen.posteriors["query inputs"], seen.posteriors["key inputs"]
    np.testing.assert_allclose(p_query.numpy(), posteriors(core, given.query))
    np.testing.assert_allclose(p_key.numpy(), posteriors(core, given.key))
    torch.testing.assert_close(seen.maps["semantic"].values, semantic_mask(p_query, p_key, PADDED))
    core(heads(PADDED))
    assert core.inspect() == Inspection()


def test_inputs_are_perturbed_in_training_only():
    core, x, memory = make(), draw(B, T, SIZE), draw(B, T, SIZE, seed=1)
    assert core.perturb(x, x, x) == (x, x, x)
    core.train()
    itself, cross = core.perturb(x, x, x), core.perturb(x, memory, memory)
    assert itself.query is itself.key is itself.value and not torch.equal(itself.query, x)
    assert cross.key is cross.value and not torch.equal(cross.key, memory)


def test_the_mask_can_be_left_out_of_causal_evaluation():
    core = build_core("sma", SIZE, H, {"decoder_test_mask": False}, causal=True)
    core.updates.count.fill_(UPDATES)
    assert float(core.gamma()) > 0
    assert float(core.eval().gamma()) == 0


@pytest.mark.parametrize("noise_on", ["all", "queries"])
def test_noise_does_not_replace_values_by_keys(noise_on):
    attention = build_attention("sma", SIZE, H, noise_std=1e-9, noise_on=noise_on).train()
    query, key, value = torch.randn(3, 2, 5, SIZE).unbind()
    noisy = attention(query, key, value, None)
    attention.eval()
    torch.testing.assert_close(noisy, attention(query, key, value, None), atol=1e-5, rtol=1e-5)
