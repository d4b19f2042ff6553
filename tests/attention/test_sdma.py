"""SMA and SDMA as modules: their losses, their schedule, their masks. The equations are tested under functional/."""

from types import SimpleNamespace

import pytest
import torch

from espnet_diverse.attention import build_attention
from espnet_diverse.attention.update_counter import UpdateCounter
from espnet_diverse.scope import scope
from espnet_diverse.training import averaging, checkpoint

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


def test_sma_has_the_two_losses_of_the_semantic_mask(x):
    losses, _ = losses_of(build_attention("sma", SIZE, HEADS).double(), x, None)
    assert set(losses) == {"kl_z", "diversity_z"}


@pytest.mark.parametrize("kind", ["self", "causal", "cross"])
def test_padding_never_enters_a_loss(x, kind):
    module = build_attention("sdma", SIZE, HEADS).double().eval()
    lengths = torch.tensor([9, 5, 3])
    valid = torch.arange(9) < lengths[:, None]
    mask = valid[:, None]
    if kind == "causal":
        mask = mask & torch.ones(9, 9, dtype=torch.bool).tril()
    memory = torch.randn(3, 6, SIZE, dtype=torch.double) if kind == "cross" else None
    if kind == "cross":
        mask = torch.ones(3, 1, 6, dtype=torch.bool)
    before, _ = losses_of(module, x, mask, memory, valid)
    after, _ = losses_of(module, x.masked_fill(~valid[..., None], 50.0), mask, memory, valid)
    for name in before:
        torch.testing.assert_close(before[name], after[name])


def test_no_loss_is_computed_outside_a_scope(x, monkeypatch):
    module = build_attention("sdma", SIZE, HEADS).double()
    monkeypatch.setattr("espnet_diverse.attention.sdma.head_mi_upper", lambda *a: pytest.fail("computed a loss"))
    module(x, x, x, None)


@pytest.mark.parametrize("options", [{}, {"preset": "paper"}, {"preset": "released"}, {"mi_density": "tempered"}])
def test_parameters_added_are_those_of_the_paper(options):
    """C(H + 2M + 1 + 2D) a module: a mixture a head over tokens, one mixture for all heads over queries."""
    module = build_attention("sdma", SIZE, HEADS, n_clusters_z=C, n_clusters_q=C, **options)
    plain = build_attention("softmax", SIZE, HEADS)
    added = sum(p.numel() for p in module.parameters()) - sum(p.numel() for p in plain.parameters())
    assert added == C * (HEADS + 2 * SIZE + 1 + 2 * SIZE // HEADS)


def test_gamma_follows_optimizer_updates_not_forward_passes(x):
    module = build_attention("sma", SIZE, HEADS).double()
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


def test_counter_does_not_take_loading_for_an_update():
    counter, weight = UpdateCounter(), torch.nn.Linear(2, 2).weight
    counter(weight)
    with torch.no_grad():
        weight.zero_()
    counter.load_state_dict({"count": torch.tensor(0.0)})
    assert float(counter(weight)) == 0


def test_counter_goes_on_after_loading_as_if_there_had_been_no_stop():
    straight, weight = UpdateCounter(), torch.nn.Linear(2, 2).weight
    resumed = UpdateCounter()
    for step in range(6):
        straight(weight)
        with torch.no_grad():
            weight.add_(1)
        if step == 2:  # a checkpoint is written between an update and the next forward pass
            resumed.load_state_dict(straight.state_dict())
    for _ in range(3):
        resumed(weight)
        with torch.no_grad():
            weight.add_(1)
    assert float(resumed.count) == float(straight.count) == 5


def test_averaging_checkpoints_averages_the_count(tmp_path):
    module = build_attention("sdma", SIZE, HEADS).eval()
    for epoch, count in ((1, 1000.0), (2, 3000.0)):
        module.core.updates.count.fill_(count)
        checkpoint.save(module.state_dict(), tmp_path / f"{epoch}epoch.pth")
    stats = {epoch: {"valid": {"acc": 0.5}} for epoch in (1, 2)}
    reporter = SimpleNamespace(stats=stats, has=lambda *_: True)
    averaging.average_best(tmp_path, reporter, [("valid", "acc", "max")], [2])
    module.load_state_dict(checkpoint.load(tmp_path / "valid.acc.ave.pth"))
    assert float(module.core.updates.count) == 2000
    assert float(module.core.gamma()) == pytest.approx(1 - 2.718281828 ** (-5e-4 * 2000))


def test_semantic_mask_is_kept_with_the_weights(x):
    module = build_attention("sma", SIZE, HEADS).double().eval()
    with scope(keep_attention=True):
        module(x, x, x, None)
    torch.testing.assert_close(module.core.semantic.sum(-1), torch.ones(3, HEADS, 9, dtype=torch.double))
    module(x, x, x, None)
    assert module.core.semantic is None


def test_noise_moves_the_output_in_training_only(x):
    module = build_attention("sdma", SIZE, HEADS, noise_std=0.3).double()
    assert not torch.equal(module(x, x, x, None), module(x, x, x, None))
    module.eval()
    assert torch.equal(module(x, x, x, None), module(x, x, x, None))
