"""The invariants of everything that a core declares in `supports`; a new core of the package gets them from CORES."""

import pytest
import torch
from references.core_variants import (
    HEADS,
    SIZE,
    VARIANTS,
    build,
    fits,
    inputs,
    make,
    softmax_equivalent,
    supporting,
    supporting_by_position,
)

from espnet_diverse.attention import CORES, Core, KVCache, build_attention
from espnet_diverse.attention.pruning import prune_heads
from espnet_diverse.scope import scope


def causal(time):
    return torch.ones(time, time, dtype=torch.bool).tril().unsqueeze(0)


@supporting_by_position()
def test_shape(core, relative):
    module, (x, position) = make(core, relative=relative), inputs(relative=relative)
    assert module(x, x, x, *position, None).shape == x.shape
    assert module.attn is None


@supporting_by_position("explicit_weights")
def test_weights_sum_to_one(core, relative):
    module, (x, position) = make(core, relative=relative), inputs(relative=relative)
    with scope(keep_attention=True):
        module(x, x, x, *position, None)
    assert module.attn.shape == (2, HEADS, 7, 7)
    torch.testing.assert_close(module.attn.sum(dim=-1), torch.ones(2, HEADS, 7, dtype=torch.double))


@supporting_by_position("explicit_weights", "padding", "causal")
@pytest.mark.parametrize("masked", ["none", "padding", "causal"])
def test_fused_equals_explicit_weights(core, relative, masked):
    module, (x, position) = make(core, relative=relative), inputs(relative=relative)
    mask = {"none": None, "padding": torch.arange(7) < torch.tensor([[[7]], [[4]]]), "causal": causal(7)}[masked]
    fused = module(x, x, x, *position, mask)
    with scope(keep_attention=True):
        explicit = module(x, x, x, *position, mask)
    told = mask[:, 0] if masked == "padding" else slice(None)
    torch.testing.assert_close(fused[told], explicit[told], rtol=1e-9, atol=1e-9)


@supporting("padding")
def test_padding_changes_nothing(core):
    module, (x, _) = make(core), inputs()
    mask = torch.arange(7) < torch.tensor([[[4]], [[4]]])
    padded = x.clone()
    padded[:, 4:] = 1e3
    torch.testing.assert_close(module(padded, padded, padded, mask)[:, :4], module(x[:, :4], x[:, :4], x[:, :4], None))


@supporting("padding")
def test_batch_equals_singles(core):
    module, (x, _) = make(core), inputs(batch=3)
    lengths = [7, 5, 2]
    together = module(x, x, x, torch.arange(7) < torch.tensor(lengths)[:, None, None])
    for i, n in enumerate(lengths):
        alone = x[i : i + 1, :n]
        torch.testing.assert_close(together[i : i + 1, :n], module(alone, alone, alone, None))


@supporting("causal")
def test_no_query_sees_later_keys(core):
    module, (x, _) = make(core, causal=True), inputs()
    before, changed = module(x, x, x, causal(7)), x.clone()
    changed[:, 4:] = 1e3
    torch.testing.assert_close(module(changed, changed, changed, causal(7))[:, :4], before[:, :4])


@supporting("causal", "cached_decoding")
def test_cached_step_equals_last_row_of_the_full_pass(core):
    module, (x, _) = make(core, causal=True), inputs()
    full = module(x, x, x, causal(7))
    for t in range(1, 8):
        step = module(x[:, t - 1 : t], x[:, :t], x[:, :t], causal(t)[:, -1:])
        torch.testing.assert_close(step, full[:, t - 1 : t])


@supporting("causal", "cached_decoding")
def test_cached_keys_give_the_result_of_the_full_pass(core):
    module, (x, _) = make(core, causal=True), inputs()
    full = module(x, x, x, causal(7))
    caches = [module.cache_kv(x[:, :3]), *(module.project_qkv(x[:, t : t + 1])[1] for t in range(3, 7))]
    parts = zip(*caches, strict=True)
    cache = KVCache(*(None if part[0] is None else torch.cat(part, dim=2) for part in parts))
    late = x[:, 3:]
    cached = module.attend_cached(module.project_query(late), late, cache, causal(7)[:, 3:].expand(2, -1, -1))
    torch.testing.assert_close(cached, full[:, 3:])


SUMMED = [name for name in [*CORES, *VARIANTS] if CORES[name.split(":")[0]].accumulate is not Core.accumulate]


@pytest.mark.parametrize("core", SUMMED)
def test_sums_take_the_place_of_cached_keys(core):
    module, (x, _) = make(core, causal=True), inputs()
    full, late, seen = module(x, x, x, causal(7)), x[:, 5:], torch.ones(2, 1, 3, dtype=torch.bool)
    first, middle, last = (module.cache_kv(x[:, part]) for part in (slice(2), slice(2, 5), slice(5, 7)))
    sums = module.accumulate(middle._replace(sums=module.accumulate(first, None)), seen)
    cached = module.attend_cached(
        module.project_query(late), late, last._replace(sums=sums), causal(2).expand(2, -1, -1)
    )
    torch.testing.assert_close(cached, full[:, 5:])


@pytest.mark.parametrize("core", [name for name in SUMMED if fits(name, ["cross_attention"])])
def test_sums_over_a_padded_memory(core):
    module, (x, _) = make(core, cross=True), inputs()
    memory = torch.randn(2, 9, SIZE, dtype=torch.double)
    mask = torch.arange(9) < torch.tensor([[[9]], [[6]]])
    keys = module.cache_kv(memory)
    cache = keys.of_keys(lambda x: x[:, :, :0])._replace(sums=module.accumulate(keys, mask))
    for one, rows in ((cache, [0, 1]), (cache.keep(torch.tensor([1])), [1])):
        cached = module.attend_cached(module.project_query(x[rows]), x[rows], one, None)
        torch.testing.assert_close(cached, module(x, memory, memory, mask)[rows])


@supporting("cross_attention", "padding")
def test_cross_attention_over_padded_memory(core):
    module, (x, _) = make(core, cross=True), inputs()
    memory = torch.randn(2, 9, SIZE, dtype=torch.double)
    mask = torch.arange(9) < torch.tensor([[[9]], [[6]]])
    out = module(x, memory, memory, mask)
    torch.testing.assert_close(out[1:], module(x[1:], memory[1:, :6], memory[1:, :6], None))


@supporting("cross_attention", "cached_decoding")
def test_cached_cross_attention_equals_the_full_pass(core):
    module, (x, _) = make(core, cross=True), inputs()
    memory = torch.randn(2, 9, SIZE, dtype=torch.double)
    cached = module.attend_cached(module.project_query(x), x, module.cache_kv(memory), None)
    torch.testing.assert_close(cached, module(x, memory, memory, None))


@supporting_by_position("padding")
def test_all_gradients_exist_and_are_finite_even_for_a_fully_masked_row(core, relative):
    """Training in several processes waits for the gradient of each parameter."""
    module, (x, position) = make(core, relative=relative), inputs(relative=relative)
    module.train()
    x.requires_grad_()
    mask = torch.arange(7) < torch.tensor([[[7]], [[0]]])
    with scope() as shared:
        loss = module(x, x, x, *position, mask).square().sum() + shared.total_loss()
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(x.grad).all()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize("core", [core for core in [*CORES, *VARIANTS] if softmax_equivalent(core) is not None])
def test_the_softmax_equivalent_setting_is_softmax(core):
    module, (x, _) = make(core, **softmax_equivalent(core)), inputs()
    prune_heads(module)
    softmax = make("softmax")
    softmax.load_state_dict({k: v for k, v in module.state_dict().items() if not k.startswith("core.")})
    mask = torch.arange(7) < torch.tensor([[[7]], [[4]]])
    module.train()
    with scope() as shared:
        torch.testing.assert_close(module(x, x, x, mask), softmax(x, x, x, mask))
    assert float(torch.as_tensor(shared.total_loss()).detach()) == 0.0


@supporting("cross_attention")
def test_expand_kv_projects_a_repeated_memory_once(core):
    module, (x, _) = make(core, cross=True), inputs()
    memory, projected = torch.randn(1, 5, SIZE, dtype=torch.double).expand(2, -1, -1), []
    module.linear_v.register_forward_hook(lambda _, given, __: projected.append(len(given[0])))
    torch.testing.assert_close(module(x, memory, memory, None, expand_kv=True), module(x, memory, memory, None))
    assert module.selection or list(dict.fromkeys(projected)) == [1, 2]  # tied values are a second projection


@supporting()
def test_attention_dropout_acts_in_training_only(core):
    torch.manual_seed(0)
    module = build(core, dropout=0.9, **(softmax_equivalent(core) or {}))
    x, _ = inputs()
    trained = module(x, x, x, None)
    module.eval()
    assert not torch.allclose(trained, module(x, x, x, None))
    torch.testing.assert_close(module(x, x, x, None), module(x, x, x, None), rtol=0, atol=0)


@supporting()
def test_a_masked_head_adds_nothing_to_the_output(core):
    module, (x, _) = make(core), inputs()
    heads = module.selection(2).picks[0] if module.selection else torch.arange(HEADS)
    full = module(x, x, x, None)
    module.head_mask = torch.arange(module.selection.pool if module.selection else HEADS) != heads[1]
    masked, module.head_mask = module(x, x, x, None), None
    assert not torch.allclose(masked, full)
    module.linear_out.weight.data[:, module.d_k : 2 * module.d_k] = 0
    torch.testing.assert_close(masked, module(x, x, x, None))


@supporting()
def test_a_declared_limit_of_length_is_the_true_one(core):
    """A core that declares a limit must work up to it; one that declares none must work at any length."""
    module, (x, _) = make(core), inputs()
    long = x[:1, :1].expand(-1, module.core.supports.max_length or 300, -1)
    assert torch.isfinite(module(long, long, long, None)).all()


def test_unknown_names_list_the_known_ones():
    with pytest.raises(ValueError, match="unknown attention 'softmaxx'; did you mean 'softmax'?"):
        build_attention("softmaxx", SIZE, HEADS)
    with pytest.raises(ValueError, match="unknown option 'n_cluster' of attention 'sma'; did you mean 'n_clusters_z'"):
        build_attention("sma", SIZE, HEADS, n_cluster=3)
    with pytest.raises(ValueError, match="width 16 is not a multiple of 3 heads"):
        build_attention("softmax", SIZE, 3)


@supporting_by_position("padding")
def test_half_precision_by_autocast_is_close_to_full(core, relative):
    module, (x, position) = make(core, relative=relative).float(), inputs(relative=relative)
    x, position = x.float().requires_grad_(), [p.float() for p in position]
    mask = torch.arange(7) < torch.tensor([[[7]], [[4]]])
    full = module(x, x, x, *position, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16), scope() as shared:
        half = module(x, x, x, *position, mask)
        loss = half.float().square().mean() + shared.total_loss()
    if module.core.continuous:
        torch.testing.assert_close(half.float(), full, rtol=0.1, atol=0.05)
    loss.backward()
    assert torch.isfinite(x.grad).all()


@supporting("padding")
def test_a_model_in_half_precision_is_close_to_one_in_full(core):
    module, (x, _) = make(core).float(), inputs()
    x, mask = x.float(), torch.arange(7) < torch.tensor([[[7]], [[4]]])
    with scope():
        full, half = module(x, x, x, mask), module.bfloat16()(*[x.bfloat16()] * 3, mask)
    assert torch.isfinite(half).all()
    if module.core.continuous:
        torch.testing.assert_close(half, full.bfloat16(), rtol=0.1, atol=0.1)


@supporting()
def test_a_core_is_given_half_precision_only_if_it_declares_it(core):
    module, (x, _) = make(core).float(), inputs()
    x, seen = x.float(), []
    hook = module.core.register_forward_pre_hook(lambda _, given: seen.append({t.dtype for t in tensors(given[0])}))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert module(x, x, x, None).dtype == torch.bfloat16
    hook.remove()
    declared = module.core.supports.half_precision
    assert (torch.bfloat16 in seen[0]) == declared
    if not declared:
        assert seen == [{torch.float32}]


def tensors(heads):
    """All floating-point tensors that a core is given."""
    values = [*vars(heads).values(), *(heads.perturbed or ())]
    return [value for value in values if torch.is_tensor(value) and value.is_floating_point()]
