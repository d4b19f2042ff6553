"""Head selection around every core: batches that mix conditions, pruning, and which heads are selected."""

import copy

import numpy as np
import pytest
import torch

from espnet_diverse.attention import CORES, build_attention, build_selection
from espnet_diverse.attention.head_patterns import HeadPatterns
from espnet_diverse.attention.pruning import prune_heads, pruned
from espnet_diverse.attention.selection import head_gather, learned_selection
from espnet_diverse.attention.selection.selection_options import SelectionOptions
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.functional.pool_linear import pool_linear
from espnet_diverse.scope import scope

SIZE, HEADS = 16, 4
LANGUAGES = ["ar", "de", "el"]
DOMAINS = ["news", "talk"]
STRATEGIES = {
    "group": {"strategy": "group", "pool": 8},
    "group:contiguous": {"strategy": "group", "pool": 8, "group_layout": "contiguous"},
    "subset": {"strategy": "subset", "pool": 7},
    "subset:score": {"strategy": "subset", "pool": 7, "subset_order": "score"},
    "static": {"strategy": "static"},
    "static:families": {"strategy": "static", "families": [["ar"], ["de", "el"]]},
}
each_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
#: Cores that can be used for all that is tested here; a core that supports less has tests of its own.
USES = ("head_selection", "relative_position", "causal", "cached_decoding", "explicit_weights")
each_core = pytest.mark.parametrize("core", [c for c in CORES if CORES[c].supports.missing(USES) is None])
each_position = pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])


def build(core, strategy, seed=3, relative=False, patterns=None, causal=False, **options):
    """An attention by language in double precision, for evaluation, with a mixing rate that is not 0."""
    torch.manual_seed(seed)
    selection = {"conditions": {"lang": LANGUAGES}} | STRATEGIES[strategy] | options
    given = {"head_patterns": patterns} if patterns else {}
    module = build_attention(core, SIZE, HEADS, relative=relative, causal=causal, selection=selection, **given)
    module.double().eval()
    for name, buffer in module.core.named_buffers():
        if name.endswith("updates.count"):
            buffer.fill_(2000.0)
    return module


def inputs(batch, relative=False, time=7):
    torch.manual_seed(5)
    positions = [torch.randn(1, 2 * time - 1, SIZE, dtype=torch.double)] if relative else []
    return torch.randn(batch, time, SIZE, dtype=torch.double), positions


def languages(*ids, **options):
    return scope({"lang": torch.tensor(ids)}, **options)


# Invariants of batches that mix conditions


@each_core
@each_strategy
@each_position
def test_a_mixed_batch_equals_its_samples_alone_and_padding_changes_nothing(core, strategy, relative):
    module = build(core, strategy, relative=relative)
    x, positions = inputs(5, relative)
    conditions, lengths = [2, 0, 1, 0, 2], [7, 7, 7, 7, 7] if relative else [7, 5, 6, 2, 7]
    padded = torch.where(lengths_to_mask(torch.tensor(lengths), 7).unsqueeze(-1), x, 1e3)
    with languages(*conditions):
        mixed = module(padded, padded, padded, *positions, lengths_to_mask(torch.tensor(lengths), 7).unsqueeze(1))
    for i, (condition, n) in enumerate(zip(conditions, lengths, strict=True)):
        alone = x[i : i + 1, :n]
        with languages(condition):
            torch.testing.assert_close(mixed[i : i + 1, :n], module(alone, alone, alone, *positions, None))


@each_core
@each_strategy
def test_a_cached_step_equals_the_last_row_of_the_full_pass(core, strategy):
    module, (x, _) = build(core, strategy), inputs(3)
    causal = torch.ones(7, 7, dtype=torch.bool).tril().unsqueeze(0)
    with languages(1, 0, 1):
        full = module(x, x, x, causal)
        for t in range(1, 8):
            step = module(x[:, t - 1 : t], x[:, :t], x[:, :t], causal[:, t - 1 : t, :t])
            torch.testing.assert_close(step, full[:, t - 1 : t])


@each_core
@each_strategy
@each_position
def test_fused_equals_explicit_weights(core, strategy, relative):
    module, (x, positions) = build(core, strategy, relative=relative), inputs(3, relative)
    with languages(1, 0, 1):
        fused = module(x, x, x, *positions, None)
    with languages(1, 0, 1, keep_attention=True):
        torch.testing.assert_close(module(x, x, x, *positions, None), fused)
    assert module.attn.shape == (3, HEADS, 7, 7)


@each_core
@each_strategy
def test_gradients_are_finite_even_for_a_fully_masked_row(core, strategy):
    module, (x, _) = build(core, strategy, kl_weight=0.1).train(), inputs(3)
    x.requires_grad_()
    with languages(0, 2, 0) as shared:
        out = module(x, x, x, torch.arange(7) < torch.tensor([[[7]], [[0]], [[3]]]))
        (out.square().sum() + shared.total_loss()).backward()
    assert torch.isfinite(x.grad).all()
    for name, parameter in module.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), name


@each_core
@each_strategy
@each_position
def test_pruned_equals_masked(core, strategy, relative):
    module, (x, positions) = build(core, strategy, relative=relative), inputs(2, relative)
    built = build_attention(core, SIZE, HEADS, relative=relative).double()
    for condition in range(3):
        plain = copy.deepcopy(module)
        with languages(condition):
            masked = module(x, x, x, *positions, None)
            prune_heads(plain)
        built.load_state_dict(plain.state_dict())
        torch.testing.assert_close(plain(x, x, x, *positions, None), masked, atol=1e-10, rtol=1e-10)


@each_strategy
@pytest.mark.parametrize("training", [True, False])
def test_a_pruned_copy_leaves_the_mode_of_every_module(strategy, training):
    module = build("softmax", strategy).train(training)
    with languages(1):
        pruned(module)
    assert {part.training for part in module.modules()} == {training}
    with languages(1, 2), pytest.raises(ValueError):
        pruned(module)
    assert {part.training for part in module.modules()} == {training}


@each_strategy
def test_expand_kv_with_one_language_and_with_several(strategy):
    module, (x, _) = build("softmax", strategy), inputs(3)
    memory = torch.randn(1, 5, SIZE, dtype=torch.double).expand(3, -1, -1)
    for conditions in ([1], [1, 1, 1], [2, 0, 1]):
        with languages(*conditions):
            torch.testing.assert_close(module(x, memory, memory, None, expand_kv=True), module(x, memory, memory, None))


@each_core
def test_strategy_none_is_plain_attention_to_the_bit(core):
    torch.manual_seed(3)
    plain = build_attention(core, SIZE, HEADS).eval()
    torch.manual_seed(3)
    module = build_attention(core, SIZE, HEADS, selection={"strategy": "none", "pool": 12}).eval()
    x = torch.randn(2, 7, SIZE)
    assert plain.state_dict().keys() == module.state_dict().keys()
    assert torch.equal(plain(x, x, x, None), module(x, x, x, None))


def test_one_family_owns_all_heads_of_plain_attention():
    module = build("softmax", "static", families=[LANGUAGES])
    plain = build_attention("softmax", SIZE, HEADS).double()
    plain.load_state_dict(module.state_dict())
    x, _ = inputs(3)
    with languages(2, 0, 1):
        assert torch.equal(module(x, x, x, None), plain(x, x, x, None))


# Which heads are selected


def test_samples_of_one_language_agree_in_training():
    module, (x, _) = build("softmax", "subset").train(), inputs(1)
    seen = set()
    for _ in range(10):
        with languages(1, 0, 1):
            a, _, b = module(*[x.expand(3, -1, -1)] * 3, None)
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12)
        seen.add(round(float(a.detach().sum()), 9))
    assert len(seen) > 1


@each_strategy
def test_evaluation_is_deterministic_and_follows_the_picks(strategy):
    module, (x, _) = build("softmax", strategy), inputs(3)
    with languages(2, 0, 1):
        assert torch.equal(module(x, x, x, None), module(x, x, x, None))
        chosen = module.selection(3)
    heads = torch.arange(module.selection.pool).unsqueeze(1)
    assert torch.equal(chosen.rows(heads).squeeze(-1), module.selection.picks()[[2, 0, 1]])
    assert chosen.weights is None


def test_static_families_share_their_heads_and_no_others():
    assert build("softmax", "static:families").selection.picks().tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [4, 5, 6, 7]]
    assert build("softmax", "static").selection.picks()[:, 0].tolist() == [0, 4, 8]


def test_language_and_domain_together_multiply_the_odds():
    options = {"by": ["lang", "domain"], "conditions": {"lang": LANGUAGES, "domain": DOMAINS}}
    module, (x, _) = build("softmax", "subset", **options), inputs(2)
    selection = module.selection
    assert selection.picks().shape == (3, 2, HEADS)
    assert selection.picks("lang").shape == (3, HEADS) and selection.picks("domain").shape == (2, HEADS)
    product = selection.logits_lang[2].exp() * selection.logits_domain[1].exp()
    assert selection.picks()[2, 1].tolist() == sorted(product.argsort(descending=True)[:HEADS].tolist())
    with scope({"lang": torch.tensor([0, 2]), "domain": torch.tensor([1])}):
        chosen = selection(2)
    assert torch.equal(chosen.picks, selection.picks()[[0, 2], [1, 1]])
    with scope({"lang": torch.tensor([0, 2]), "domain": torch.tensor([1, 1])}):
        mixed = module.train()(x, x, x, None)
    mixed.sum().backward()
    assert (selection.logits_domain.grad[0] == 0).all() and (selection.logits_domain.grad[1] != 0).any()


def test_logits_start_as_released():
    torch.manual_seed(0)
    options = SelectionOptions(strategy="subset", pool=1000, conditions={"lang": LANGUAGES})
    logits = learned_selection.LearnedSelection(4, options).logits("lang")
    assert (logits >= np.log(0.01)).all() and (logits <= 0).all()
    assert float(logits.mean().detach()) == pytest.approx(np.log(0.01) / 2, abs=0.1)


def test_learning_prefers_the_head_that_helps():
    """The gradient through the straight-through weight is that of the sample: a better head gains."""
    torch.manual_seed(0)
    options = SelectionOptions(strategy="group", pool=2, tau=1.0, conditions={"lang": ["ar"]})
    selection = build_selection(options, 1)
    values = torch.tensor([0.0, 1.0])
    optimizer = torch.optim.Adam(selection.parameters(), lr=0.1)
    for _ in range(200):
        with languages(0):
            chosen = selection(1)
        loss = ((chosen.weights * (values[chosen.picks] - 0.5)).sum() - 0.5).square()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert selection.picks().tolist() == [[1]]


def test_projections_of_one_input_share_a_call(monkeypatch):
    module, (x, _) = build("softmax", "group"), inputs(3)
    widths = []

    def watched(y, weight, *others):
        widths.append(weight.size(1) // module.d_k)
        return pool_linear(y, weight, *others)

    monkeypatch.setattr(head_gather, "pool_linear", watched)
    with languages(0, 2, 0):
        module(x, x, x, None)
        module(x, x[:, :5], x[:, :5], None)
        module(x, memory := x.flip(1), memory, None)
        module.cache_kv(x), module.project_query(x)
    assert widths == [3, 1, 1, 1, 1, 2, 2, 1]


# Gradients of all candidates


def summed_over_candidates(module, x, ids, mask, seen=None):
    """Output of softmax attention by (8) in loops over samples and heads, all of which have gradients.

    Head p sees the pairs seen[p] (T, T), or all.
    """
    selection, width = module.selection, SIZE // HEADS
    phi, out = selection.logits("lang"), []
    y = torch.sigmoid((phi + NOISE) / selection.options.tau)
    places = selection.places().tolist()
    for b, language in enumerate(ids):
        q, k, v = (linear(x[b]).view(-1, selection.pool, width) for linear in module._projections())
        chosen = selection._pick(phi + NOISE)[language].tolist()
        slots = [x.new_zeros(x.size(1), width) for _ in range(HEADS)]
        for p in range(selection.pool):
            allowed = mask[b] if seen is None else mask[b] & seen[p]
            logits = (q[:, p] @ k[:, p].T / width**0.5).masked_fill(~allowed, -torch.inf)
            z = float(p in chosen) + y[language, p] - y[language, p].detach()
            slots[places[p]] = slots[places[p]] + z * (logits.softmax(-1) @ v[:, p])
        out.append(module.linear_out(torch.cat(slots, -1)))
    return torch.stack(out)


NOISE = torch.randn(3, 8, generator=torch.Generator().manual_seed(1), dtype=torch.double)


@pytest.mark.parametrize("layout", ["strided", "contiguous"])
@pytest.mark.parametrize("ids", [(1, 1), (2, 0), (0, 1, 2)], ids=str)
def test_logits_get_the_gradients_of_all_candidates(layout, ids, monkeypatch):
    monkeypatch.setattr(learned_selection, "logistic_noise", lambda phi: NOISE[list(dict.fromkeys(ids))])
    options = {"group_layout": layout, "all_candidates": True}
    module = build("softmax", "group", **options).train()
    (x, _), mask = inputs(len(ids)), lengths_to_mask(torch.tensor([7, 4, 5])[: len(ids)], 7).unsqueeze(1)
    slope = torch.randn_like(x)
    with languages(*ids):
        out = module(x, x, x, mask)
    expected = summed_over_candidates(module, x, ids, mask)
    torch.testing.assert_close(out, expected)
    parameters = list(module.parameters())
    found, wanted = (torch.autograd.grad(y, parameters, slope) for y in (out, expected))
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)
    logits = found[[name for name, _ in module.named_parameters()].index("selection.logits_lang")]
    assert logits[list(ids)].ne(0).all()
    off = build("softmax", "group", group_layout=layout).train()
    with languages(*ids):
        assert torch.equal(off(x, x, x, mask), out)


# Patterns of the heads of the pool

CAUSAL = ["global", {"window": 1}, {"window": 2}, "global", "previous", "start", {"window": 3}, {"block": 2}]


@pytest.mark.parametrize("ids", [(1, 1), (0, 1, 2)], ids=str)
def test_a_selected_head_keeps_its_pattern(ids, monkeypatch):
    monkeypatch.setattr(learned_selection, "logistic_noise", lambda phi: NOISE[list(dict.fromkeys(ids))])
    module = build("softmax", "group", patterns=CAUSAL, all_candidates=True).train()
    (x, _), mask = inputs(len(ids)), torch.ones(len(ids), 1, 7, dtype=torch.bool)
    i, j = torch.arange(7).unsqueeze(-1), torch.arange(7)
    near, everything = (i - j).abs(), torch.ones(7, 7, dtype=torch.bool)
    seen = [everything, near <= 1, near <= 2, everything, j == (i - 1).clamp(min=0), j + 0 * i == 0, near <= 3]
    seen += [i // 2 == j // 2]
    slope = torch.randn_like(x)
    with languages(*ids):
        out = module(x, x, x, mask)
    expected = summed_over_candidates(module, x, ids, mask, seen)
    torch.testing.assert_close(out, expected)
    found, wanted = (torch.autograd.grad(y, list(module.parameters()), slope) for y in (out, expected))
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("core", ["softmax", "sdma", "window"])
@pytest.mark.parametrize("strategy", ["group", "subset"])
def test_patterns_of_a_mixed_batch_match_its_samples_alone_pruned_and_cached(core, strategy):
    patterns = CAUSAL if strategy == "group" else CAUSAL[:7]
    module = build(core, strategy, patterns=patterns, causal=True)
    (x, _), causal = inputs(3), torch.ones(1, 7, 7, dtype=torch.bool).tril()
    with languages(2, 0, 1):
        mixed = module(x, x, x, causal)
        torch.testing.assert_close(
            module.attend_cached(module.project_query(x), x, module.cache_kv(x), causal.expand(3, -1, -1)), mixed
        )
    for sample, language in zip(range(3), (2, 0, 1), strict=True):
        one = x[sample : sample + 1]
        with languages(language):
            torch.testing.assert_close(module(one, one, one, causal), mixed[sample : sample + 1])
            plain = pruned(module)
        assert len(module.patterns.patterns) == module.pool
        torch.testing.assert_close(plain(one, one, one, causal), mixed[sample : sample + 1])


def test_layers_share_the_patterns_of_the_pool(monkeypatch):
    first, second = (build("softmax", "group", seed=seed, patterns=CAUSAL) for seed in (1, 2))
    (x, _), made = inputs(2), []
    whole = HeadPatterns.__call__
    monkeypatch.setattr(HeadPatterns, "__call__", lambda self, mask: made.append(self) or whole(self, mask))
    mask = torch.ones(2, 1, 7, dtype=torch.bool)
    with languages(0, 2):
        first(x, x, x, mask), second(x, x, x, mask)
    assert len(made) == 1


@each_core
def test_candidates_that_are_not_selected_leave_all_else_as_it_is(core):
    """Losses, statistics, counts of updates, state and the gradients of all but the logits."""
    (x, positions), found = inputs(2, relative=True), []
    for wanted in (False, True):
        module = build(core, "group", relative=True, all_candidates=wanted).train()
        torch.manual_seed(2)
        with languages(0, 2) as shared:
            out = module(x, x, x, *positions, None)
        (out.square().sum() + shared.total_loss()).backward()
        kept = {name: p.grad for name, p in module.named_parameters() if "logits" not in name}
        found.append([out, shared.losses(), shared.stats(), dict(module.named_buffers()), kept])
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


def test_only_groups_have_candidates():
    with pytest.raises(ValueError, match="all_candidates"):
        build("softmax", "subset", all_candidates=True)
