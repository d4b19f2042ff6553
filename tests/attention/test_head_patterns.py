"""Heads that differ by construction, in attention, against a softmax for each head."""

import pytest
import torch

from espnet_diverse.attention import Stream, build_attention
from espnet_diverse.attention.cores import softmax
from espnet_diverse.attention.head_patterns import (
    HeadPattern,
    HeadPatterns,
    build_head_patterns,
    head_patterns,
)
from espnet_diverse.attention.relative_position import PositionTerm
from espnet_diverse.option_checks import OptionError
from espnet_diverse.scope import scope

SIZE, HEADS, TIME = 16, 8, 7
ALL = ["global", {"window": 2}, "forward", "backward", "previous", "next", "start", "end"]
MASK = torch.arange(TIME) < torch.tensor([7, 4]).view(2, 1, 1)


def attention(core="softmax", patterns=ALL, **options):
    torch.manual_seed(0)
    return build_attention(core, SIZE, HEADS, head_patterns=patterns, **options).double().eval()


def tokens(time=TIME):
    return torch.randn(2, time, SIZE, generator=torch.Generator().manual_seed(1), dtype=torch.double)


@pytest.mark.parametrize("long", [False, True], ids=["one mask", "by pattern"])
def test_each_head_is_softmax_over_its_own_keys(long, monkeypatch):
    monkeypatch.setattr(softmax, "_LONG", 1 if long else 100)
    module, x = attention(), tokens()
    q, k, v = (
        linear(x).view(2, TIME, HEADS, -1).transpose(1, 2)
        for linear in (module.linear_q, module.linear_k, module.linear_v)
    )
    context = torch.zeros_like(v)
    for b, n in enumerate([7, 4]):
        for i in range(n):
            keys = [range(n), range(max(i - 2, 0), min(i + 3, n)), range(i + 1), range(i, n)]
            keys += [[max(i - 1, 0)], [min(i + 1, n - 1)], [0], [n - 1]]
            for h, seen in enumerate(keys):
                seen = list(seen)
                weights = (q[b, h, i] @ k[b, h, seen].T / q.size(-1) ** 0.5).softmax(-1)
                context[b, h, i] = weights @ v[b, h, seen]
    expected = module.linear_out(context.transpose(1, 2).reshape(2, TIME, SIZE))
    out = module(x, x, x, MASK)
    torch.testing.assert_close(out[MASK[:, 0]], expected[MASK[:, 0]])


def test_a_query_of_cross_attention_has_its_own_position_in_the_source_or_the_last_one():
    module, x, source = attention(cross=True), tokens(9), tokens()
    q, k, v = (
        linear(y).view(2, len(y[0]), HEADS, -1).transpose(1, 2)
        for linear, y in ((module.linear_q, x), (module.linear_k, source), (module.linear_v, source))
    )
    context = torch.zeros_like(q)
    for b, n in enumerate([7, 4]):
        for i in range(9):
            p = min(i, n - 1)
            keys = [range(n), range(max(p - 2, 0), min(p + 3, n)), range(p + 1), range(p, n)]
            keys += [[max(p - 1, 0)], [min(p + 1, n - 1)], [0], [n - 1]]
            for h, seen in enumerate(map(list, keys)):
                weights = (q[b, h, i] @ k[b, h, seen].T / q.size(-1) ** 0.5).softmax(-1)
                context[b, h, i] = weights @ v[b, h, seen]
    expected = module.linear_out(context.transpose(1, 2).reshape(2, 9, SIZE))
    torch.testing.assert_close(module(x, source, source, MASK), expected)
    cache = module.cache_kv(source)
    for i in (0, 3, 8):  # several hypotheses of one position
        some = torch.cat([x[:, i : i + 1], x[:, :1]], 1)
        found = module.attend_cached(module.project_query(some), some, cache, Stream(MASK, query_position=i))
        torch.testing.assert_close(found[:, :1], expected[:, i : i + 1])


@pytest.mark.parametrize("masked", [False, True])
def test_long_sequences_have_the_result_and_gradients_of_short_ones(masked, monkeypatch):
    results = []
    for limit in (1000, 1):
        monkeypatch.setattr(softmax, "_LONG", limit)
        module, x = attention(), tokens().requires_grad_()
        out = module(x, x, x, MASK if masked else None)
        keep = MASK[:, 0] if masked else torch.ones(2, TIME, dtype=torch.bool)
        out[keep].square().sum().backward()
        results.append((out[keep], x.grad, module.linear_q.weight.grad, module.linear_v.weight.grad))
    for short, long in zip(*results, strict=True):
        torch.testing.assert_close(long, short)


@pytest.mark.parametrize("patterns", [["global", "previous"], ["next", "global", "start", "end"]])
def test_heads_of_one_key_take_no_pairs_at_any_length(patterns, monkeypatch):
    module, x = attention(patterns=patterns), tokens()
    with scope(keep_attention=True):
        expected = module(x, x, x, MASK)
    monkeypatch.setattr(HeadPatterns, "allowed", lambda *_: pytest.fail("pairs were computed"))
    torch.testing.assert_close(module(x, x, x, MASK)[MASK[:, 0]], expected[MASK[:, 0]])


def test_heads_that_all_have_one_key_project_values_alone(monkeypatch):
    module, x = attention(patterns=["previous"]), tokens()
    v = module.linear_v(x)
    expected = module.linear_out(torch.cat([v[:, :1], v[:, :-1]], dim=1))
    for linear in (module.linear_q, module.linear_k):
        monkeypatch.setattr(linear, "forward", lambda *_: pytest.fail("queries or keys were projected"))
    torch.testing.assert_close(module(x, x, x), expected)


@pytest.mark.parametrize("core", ["sma", "sdma"])
def test_semantic_masks_stay_within_the_patterns(core):
    module, x = attention(core), tokens()
    module.core.updates.count.fill_(2000)
    with scope(keep_attention=True):
        module(x, x, x, MASK)
    assert (module.attn[:, 2].triu(1) == 0).all() and (module.attn[:, 3].tril(-1) == 0).all()
    assert (module.attn[1, :, :, 4:] == 0).all()
    torch.testing.assert_close(module.attn[0].sum(-1), torch.ones(HEADS, TIME, dtype=torch.double))


def test_a_window_core_intersects_its_window_with_the_patterns():
    module, x = attention("window", window=1), tokens()
    with scope(keep_attention=True):
        module(x, x, x, MASK)
    far = (torch.arange(TIME).unsqueeze(-1) - torch.arange(TIME)).abs() > 1
    assert (module.attn[:, :, far] == 0).all() and (module.attn[:, 2].triu(1) == 0).all()


STRIDED, FIXED = [{"window": 3}, {"strided": 3}], [{"block": 3}, {"ends": 3}]
WIDER = [{"block": 3}, {"ends": [3, 2]}]


@pytest.mark.parametrize("pair", [STRIDED, FIXED, WIDER], ids=["strided", "fixed", "wider"])
@pytest.mark.parametrize("causal", [False, True])
def test_sparse_transformer_patterns_match_their_masks(pair, causal, monkeypatch):
    """Child et al. 2019, section 4.3: of two heads one sees the keys near by, and the other every third."""
    mask = MASK & torch.ones(TIME, TIME, dtype=torch.bool).tril() if causal else MASK
    results = []
    for limit in (1000, 1):
        monkeypatch.setattr(softmax, "_LONG", limit)
        module, x = attention(patterns=pair, causal=causal), tokens().requires_grad_()
        out = module(x, x, x, mask)[MASK[:, 0]]
        out.square().sum().backward()
        results.append((out, x.grad, module.linear_k.weight.grad))
    for short, long in zip(*results, strict=True):
        torch.testing.assert_close(long, short)
    with scope(keep_attention=True):
        module(x, x, x, mask)
    i, j = torch.arange(TIME).unsqueeze(-1), torch.arange(TIME)
    near = (i - j).abs() <= 3 if "window" in pair[0] else i // 3 == j // 3
    far = (i - j) % 3 == 0 if "window" in pair[0] else (j % 3 >= (1 if pair is WIDER else 2)) | (i == j)
    for h, seen in enumerate((near, far)):
        assert torch.equal(module.attn[0, h] > 0, seen & mask[0])


RELATIVE = ["global", {"window": 2}, {"window": 500}, {"strided": 5}, {"block": 4}, "previous", {"window": 40}, "next"]


def relative(time, rows):
    """An attention with relative position, an input of two sequences, the position embeddings, and the mask."""
    module = attention(patterns=RELATIVE, relative=True)
    torch.nn.init.normal_(module.pos_bias_u)
    torch.nn.init.normal_(module.pos_bias_v)
    positions = torch.randn(1, rows, SIZE, generator=torch.Generator().manual_seed(2), dtype=torch.double)
    return module, tokens(time), positions, torch.arange(time) < torch.tensor([time, time - 30]).view(2, 1, 1)


def test_each_head_with_relative_position_is_softmax_over_its_own_keys(monkeypatch):
    monkeypatch.setattr(softmax, "_LONG", 1)
    time = 120
    module, x, positions, mask = relative(time, 2 * time - 1)
    q, k, v, p = (
        linear(y).view(len(y), -1, HEADS, SIZE // HEADS).transpose(1, 2)
        for linear, y in zip(
            (module.linear_q, module.linear_k, module.linear_v, module.linear_pos), (x, x, x, positions), strict=True
        )
    )
    i, j = torch.arange(time).unsqueeze(-1), torch.arange(time)
    context = torch.zeros_like(v)
    for b, n in enumerate([time, time - 30]):
        seen = [i >= 0, (i - j).abs() <= 2, i >= 0, (i - j) % 5 == 0, i // 4 == j // 4]
        seen += [j == (i - 1).clamp(min=0), (i - j).abs() <= 40, j == (i + 1).clamp(max=n - 1)]
        for h, pairs in enumerate(seen):
            content = (q[b, h] + module.pos_bias_u[h]) @ k[b, h].T
            by_distance = (q[b, h] + module.pos_bias_v[h]) @ p[0, h].T  # for distances T-1 ... -(T-1)
            logits = content + by_distance.gather(1, time - 1 - (i - j))
            logits = (logits / q.size(-1) ** 0.5).masked_fill(~(pairs & (j < n)), -torch.inf)
            context[b, h] = logits.softmax(-1) @ v[b, h]
    expected = module.linear_out(context.transpose(1, 2).reshape(2, time, SIZE))
    torch.testing.assert_close(module(x, x, x, positions, mask)[mask[:, 0]], expected[mask[:, 0]])


def test_windows_with_relative_position_take_no_matrix_of_all_pairs(monkeypatch):
    monkeypatch.setattr(softmax, "_LONG", 1)
    module, x, positions, mask = relative(120, 239)
    sizes, matrix = [], PositionTerm.matrix
    monkeypatch.setattr(PositionTerm, "matrix", lambda term: sizes.append(term.q.size(1)) or matrix(term))
    module(x, x, x, positions, mask)
    assert sizes == [1, 1, 1]  # of the global head, and of those whose windows are nearly as wide as the sequence


@pytest.mark.parametrize("rows", [239, 120], ids=["by distance", "older encoders"])
def test_relative_position_by_pattern_has_the_result_and_gradients_of_a_mask(rows, monkeypatch):
    results = []
    for limit in (1000, 1):
        monkeypatch.setattr(softmax, "_LONG", limit)
        module, x, positions, mask = relative(120, rows)
        x.requires_grad_()
        out = module(x, x, x, positions, mask)[mask[:, 0]]
        out.square().sum().backward()
        results.append((out, x.grad, module.linear_pos.weight.grad, module.pos_bias_v.grad))
    for short, long in zip(*results, strict=True):
        torch.testing.assert_close(long, short)


@pytest.mark.parametrize(
    ("core", "patterns", "linear"),
    [
        ("softmax", [{"window": 2}, "next"], True),
        ("softmax", [{"window": 2}, "global"], False),
        ("softmax", None, False),
        ("sma", [{"window": 2}], False),
        ("window", None, True),
    ],
    ids=str,
)
def test_attention_whose_heads_all_see_few_keys_is_linear(core, patterns, linear):
    assert attention(core, patterns).linear is linear


def test_global_heads_are_softmax_attention():
    module, x = attention(patterns=["global"]), tokens()
    plain = build_attention("softmax", SIZE, HEADS).double().eval()
    plain.load_state_dict(module.state_dict())
    torch.testing.assert_close(module(x, x, x, MASK), plain(x, x, x, MASK))


def test_layers_share_one_mask():
    first, second, x = attention(), attention(), tokens()
    made = []
    with scope():
        for module in (first, second):
            module.core.register_forward_pre_hook(lambda _, given: made.append(given[0].allowed()))
            module(x, x, x, MASK)
    assert made[0] is made[1]


def test_a_list_is_repeated_over_the_heads():
    patterns = build_head_patterns(head_patterns(["global", {"window": 3}]), 4)
    assert patterns.patterns == (HeadPattern("global"), HeadPattern("window", 3)) * 2
    assert patterns.groups() == {HeadPattern("global"): [0, 2], HeadPattern("window", 3): [1, 3]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("global", "head_patterns must be a list of patterns"),
        ([], "head_patterns must be a list of patterns"),
        (["globl"], "unknown pattern of a head 'globl'; did you mean 'global'"),
        (["window"], "must be a width of at least 0, as in `window: 2`, but is None"),
        ([{"window": -1}], "must be a width of at least 0"),
        ([{"strided": 0}], "strided of head_patterns must be a size of at least 1, as in `strided: 2`, but is 0"),
        ([{"ends": 0}], "as in `ends: 2`, or a size and a number up to it, as in `ends: .8, 2.`, but is 0"),
        ([{"ends": [3, 4]}], "ends of head_patterns must be a size of at least 1, .*, but is .3, 4."),
        ([{"ends": [3, 0]}], "but is .3, 0."),
        ([{"ends": [3]}], "but is .3."),
        ([{"block": [3, 2]}], "block of head_patterns must be a size of at least 1, as in `block: 2`, but is .3, 2."),
        ([{"forward": 2}], "pattern forward has no width; give the name alone"),
    ],
)
def test_wrong_patterns_are_refused(given, said):
    with pytest.raises(OptionError, match=said):
        head_patterns(given)


def test_options_are_those_of_the_configuration():
    given = ["global", {"window": 2}, {"ends": 8}, {"ends": [8, 2]}]
    assert [each.option for each in head_patterns(given)] == given


def test_patterns_that_do_not_fit_are_refused():
    with pytest.raises(OptionError, match="3 patterns do not fit 4 heads; give a number that divides it"):
        build_head_patterns(head_patterns(["global", "start", "end"]), 4)
    with pytest.raises(OptionError, match="pattern next does not fit causal attention; choose from global window"):
        build_head_patterns(head_patterns(["global", "next"]), 4, causal=True)
    with pytest.raises(ValueError, match="does not support patterns of heads, which head_patterns needs; choose"):
        build_attention("luna", SIZE, 4, head_patterns=["forward"])


def test_a_tracer_gets_one_mask_for_every_length(monkeypatch):
    monkeypatch.setattr(softmax, "_LONG", TIME)
    module, x, longer = attention().requires_grad_(False), tokens(), tokens(TIME + 4)
    traced = torch.jit.trace(lambda x: module(x, x, x, None), x, check_trace=False)
    torch.testing.assert_close(traced(longer), module(longer, longer, longer, None))
