"""Learned head selection: steps of the logits, schedules of noise and temperature, statistics, checkpoints."""

import pytest
import torch

from espnet_diverse.attention import build_selection, set_updates_of_run
from espnet_diverse.attention.selection.selection_options import SelectionOptions
from espnet_diverse.scope import scope

HEADS, POOL = 2, 6
LANGUAGES = ["ar", "de", "el"]
each_strategy = pytest.mark.parametrize("strategy", ["group", "subset"])


def build(strategy="group", seed=3, **options):
    torch.manual_seed(seed)
    given = {"strategy": strategy, "pool": POOL, "conditions": {"lang": LANGUAGES}} | options
    return build_selection(SelectionOptions(**given), HEADS).double()


def select(module, *ids):
    with scope({"lang": torch.tensor(ids)}) as shared:
        return module(len(ids)), {name: float(value) for name, value in shared.stats().items()}


def step(module, optimizer, max_norm=None):
    """One update by a loss that depends on the selected heads; return the statistics of its forward pass."""
    factors = torch.linspace(-1.0, 2.0, POOL, dtype=torch.double)
    chosen, stats = select(module, 0, 1, 2)
    optimizer.zero_grad()
    (chosen.weights * factors[chosen.picks]).sum().backward()
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    optimizer.step()
    return stats


# Steps of the logits


@pytest.mark.parametrize("max_norm", [None, 1e-3])
@pytest.mark.parametrize(
    ("optimizer", "options"), [("Adam", {"eps": 1e-12}), ("AdamW", {"weight_decay": 0.1}), ("SGD", {"momentum": 0.9})]
)
def test_every_optimizer_moves_the_logits_by_the_factor_more(optimizer, options, max_norm):
    moved, gradients = [], []
    for scale in (1.0, 16.0):
        module = build(logits_learning_rate_scale=scale, noise_steps=1)
        module.updates.count.fill_(5.0)  # no noise, so that both select the same heads
        before = module.logits("lang").detach().clone()
        step(module, getattr(torch.optim, optimizer)(module.parameters(), lr=1e-3, **options), max_norm)
        moved.append(module.logits("lang").detach() - before)
        gradients.append(module.logits_lang.grad)
    torch.testing.assert_close(gradients[0], gradients[1])
    if optimizer == "AdamW":  # weights decay in proportion to their size, whatever the factor
        moved = [each + 1e-4 * before for each in moved]
    torch.testing.assert_close(moved[1], 16 * moved[0])
    assert moved[0].abs().max() > 0


@pytest.mark.parametrize("scale", [16.0, 30.0])
def test_checkpoints_hold_the_logits_themselves_for_any_factor(scale):
    plain, scaled = build(), build(seed=4, logits_learning_rate_scale=scale)
    old = plain.state_dict()
    assert old.keys() == scaled.state_dict().keys() == {"logits_lang", "updates.count"}
    scaled.load_state_dict(old)
    torch.testing.assert_close(scaled.logits("lang"), plain.logits_lang)
    torch.testing.assert_close(scaled.state_dict()["logits_lang"], old["logits_lang"])
    assert torch.equal(plain.state_dict()["logits_lang"], plain.logits_lang)
    assert torch.equal(scaled.picks(), plain.picks())


def test_the_factor_leaves_the_first_logits_as_released():
    logits = build(logits_learning_rate_scale=16.0, pool=600).logits("lang").detach()
    assert float(logits.min()) == pytest.approx(-4.6052, abs=0.05) and float(logits.max()) == pytest.approx(0, abs=0.05)


# Schedules


@pytest.mark.parametrize(
    ("schedule", "expected"), [("constant", [1, 1, 1, 1, 0, 0]), ("linear", [1, 0.75, 0.5, 0.25, 0, 0])]
)
@pytest.mark.parametrize(("steps", "run"), [(8, None), (0.8, 10)])
def test_noise_follows_its_schedule_in_updates_or_a_share_of_the_run(schedule, expected, steps, run):
    module = build(noise_schedule=schedule, noise_steps=steps)
    if run:
        set_updates_of_run(module, run)
    factors = [float(module.noise_scale(torch.tensor(float(updates)))) for updates in (0, 2, 4, 6, 8, 10)]
    assert factors == pytest.approx(expected)
    assert build().noise_scale(torch.tensor(1e9)) == 1.0


def test_temperature_and_kl_take_a_share_of_the_run_too():
    module = build(tau_schedule="linear", tau_final=1.0, tau_steps=0.5, kl_weight=1.0, kl_warmup_steps=0.1)
    set_updates_of_run(module, 40)
    assert float(module.tau(torch.tensor(10.0))) == pytest.approx(3.0)
    losses = []
    for updates in (0.0, 2.0, 4.0, 8.0):
        module.updates.count.fill_(updates)
        with scope({"lang": torch.tensor([0])}) as shared:
            module(1)
        losses.append(float(shared.losses()["head_kl"].detach()))
    assert losses == pytest.approx([0, losses[3] / 2, losses[3], losses[3]])


@pytest.mark.parametrize("unused", [{"tau_steps": 0.5}, {"kl_warmup_steps": 0.5}])
def test_a_schedule_that_is_not_used_needs_no_length_of_the_run(unused):
    select(build(**unused), 0)


@each_strategy
def test_without_noise_training_selects_the_heads_of_evaluation(strategy):
    module = build(strategy, noise_steps=0.8, noise_schedule="linear")
    set_updates_of_run(module, 10)
    assert any(not torch.equal(select(module, 0, 1, 2)[0].picks, module.picks()) for _ in range(20))
    module.updates.count.fill_(8.0)
    for _ in range(20):
        chosen, stats = select(module, 0, 1, 2)
        assert torch.equal(chosen.picks, module.picks()) and stats["heads_by_noise"] == 0.0
    assert chosen.weights.requires_grad


@each_strategy
def test_certain_logits_select_as_in_evaluation_though_their_samples_are_equal(strategy):
    module = build(strategy, noise_steps=1, tau=0.5).float()
    module.updates.count.fill_(1.0)
    with torch.no_grad():
        module.logits_lang.copy_(torch.tensor([20.0, 21.0, 22.0, 23.0, 24.0, 25.0]).expand(3, -1))  # sigmoid(40) is 1
    assert torch.equal(select(module, 0, 1, 2)[0].picks, module.picks())


# Statistics


@each_strategy
def test_statistics_equal_naive_loops(strategy):
    module = build(strategy)
    start = module.logits_lang.detach().clone()
    with torch.no_grad():
        module.logits_lang.add_(torch.randn_like(module.logits_lang))
    chosen, stats = select(module, 2, 0, 2)
    gaps, changed = [], []
    for row, picks in zip(module.logits_lang[[2, 0]].tolist(), chosen.picks.tolist(), strict=True):
        if strategy == "group":
            groups = [sorted(((row[head], head) for head in range(g, POOL, HEADS)), reverse=True) for g in range(HEADS)]
            gaps += [group[0][0] - group[1][0] for group in groups]
            best = {group[0][1] for group in groups}
        else:
            ranked = sorted(((value, head) for head, value in enumerate(row)), reverse=True)
            gaps.append(ranked[HEADS - 1][0] - ranked[HEADS][0])
            best = {head for _, head in ranked[:HEADS]}
        changed.append(len(best - set(picks)) / HEADS)
    assert stats["logit_gap"] == pytest.approx(sum(gaps) / len(gaps))
    assert stats["heads_by_noise"] == pytest.approx(sum(changed) / 2)
    distances = [abs(a - b) for a, b in zip(module.logits_lang.flatten().tolist(), start.flatten(), strict=True)]
    assert stats["logit_movement"] == pytest.approx(float(sum(distances)) / len(distances))


def test_statistics_of_several_conditions_are_of_the_sum_of_their_logits():
    module = build(by=["lang", "domain"], conditions={"lang": LANGUAGES, "domain": ["news", "talk"]})
    with torch.no_grad():
        module.logits_domain.add_(1.0)
    with scope({"lang": torch.tensor([1]), "domain": torch.tensor([0])}) as shared:
        module(1)
    phi = (module.logits_lang[1] + module.logits_domain[0]).detach().view(-1, HEADS).sort(0).values
    stats = shared.stats()
    assert float(stats["logit_gap"]) == pytest.approx(float((phi[-1] - phi[-2]).mean()))
    assert float(stats["logit_movement"]) == pytest.approx(2 / 5)  # two of five rows have moved by 1


def test_decoding_collects_nothing():
    module = build()
    with scope({"lang": torch.tensor([0])}, collect=False) as shared:
        module(1)
    assert shared.stats() == {}


# Resumption


def test_a_resumed_run_equals_an_uninterrupted_one():
    options = {"noise_steps": 0.75, "noise_schedule": "linear", "logits_learning_rate_scale": 16.0}

    def fresh():
        module = build(**options)
        set_updates_of_run(module, 8)
        return module, torch.optim.Adam(module.parameters(), lr=1e-2)

    def train(module, optimizer, updates):
        return [torch.manual_seed(update) and step(module, optimizer) for update in updates]

    straight, optimizer = fresh()
    expected = train(straight, optimizer, range(8))
    first, optimizer = fresh()
    seen = train(first, optimizer, range(3))
    saved = first.state_dict(), optimizer.state_dict()
    second, optimizer = fresh()
    second.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    seen += train(second, optimizer, range(3, 8))
    assert seen == expected and expected[-1]["logit_movement"] > 0.5
    assert torch.equal(second.logits("lang"), straight.logits("lang"))
