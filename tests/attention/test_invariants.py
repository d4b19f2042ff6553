"""The laws every attention core obeys, whatever its method; a new core gets them by being in CORES."""

import pytest
import torch

from espnet_diverse.attention import CORES, build_attention
from espnet_diverse.attention.multi_head import Memory
from espnet_diverse.scope import scope

SIZE, HEADS = 16, 4
NULL = {
    "softmax": {},
    "sma": {"nu": 0.0, "noise_std": 0.0, "lambda_k": 0.0, "lambda_d": 0.0},
    "sdma": {"nu": 0.0, "noise_std": 0.0, "lambda_k": 0.0, "lambda_d": 0.0, "lambda_q": 0.0, "lambda_x": 0.0},
}
#: Every sample has the default task here; batches that mix conditions stand in test_head_selection.py.
GROUP = {"strategy": "group", "pool": 8, "conditions": {"lang": ["ar", "de"]}, "default_condition": {"lang": "de"}}
VARIANTS = {
    "sma:paper": {"preset": "paper"},
    "sma:released": {"preset": "released"},
    "sma:annealed": {"scale_s": "anneal", "noise_order": "before"},
    "sma:learned": {"approx_var": "learned", "dv_form": "balanced"},
    "sdma:paper": {"preset": "paper"},
    "sdma:released": {"preset": "released"},
    "sdma:released-learned": {"preset": "released", "approx_var": "learned", "scale_s": 10},
    "sdma:annealed": {"scale_s": "anneal", "noise_order": "before", "centroid_learning_rate_scale": 5.0},
    "sdma:learned": {"approx_var": "learned"},
    "sdma:tempered": {"mi_density": "tempered", "dv_form": "balanced"},
    "softmax:group": {"selection": GROUP},
    "softmax:subset": {"selection": GROUP | {"strategy": "subset", "kl_weight": 1.0}},
    "softmax:static": {"selection": GROUP | {"strategy": "static"}},
    "sma:group": {"selection": GROUP},
    "sdma:subset": {"selection": GROUP | {"strategy": "subset", "subset_order": "score"}},
}
each_core = pytest.mark.parametrize("core", [*CORES, *VARIANTS])
each_position = pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])


def build(core, **options):
    """An attention in double precision: a core, or one of its variants, with more options."""
    return build_attention(core.split(":")[0], SIZE, HEADS, **(VARIANTS.get(core, {}) | options)).double()


def make(core, updates=2000.0, **options):
    """The same in evaluation mode, with a mixing rate that is not 0."""
    torch.manual_seed(3)
    module = build(core, **options).eval()
    for name, parameter in module.named_parameters():
        if "mixture" in name:
            parameter.data += 0.5 * torch.randn_like(parameter)
    for name, buffer in module.named_buffers():
        if name.endswith("updates.count"):
            buffer.fill_(updates)
    return module


def null(core):
    """Options at which a core, or a variant of it, is softmax attention."""
    return NULL[core.split(":")[0]]


def inputs(batch=2, time=7, relative=False):
    torch.manual_seed(5)
    x = torch.randn(batch, time, SIZE, dtype=torch.double)
    return x, [torch.randn(1, 2 * time - 1, SIZE, dtype=torch.double)] if relative else []


def causal(time):
    return torch.ones(time, time, dtype=torch.bool).tril().unsqueeze(0)


@each_core
@each_position
def test_shape_and_weights(core, relative):
    module, (x, position) = make(core, relative=relative), inputs(relative=relative)
    assert module(x, x, x, *position, None).shape == x.shape
    assert module.attn is None
    with scope(keep_attention=True):
        module(x, x, x, *position, None)
    assert module.attn.shape == (2, HEADS, 7, 7)
    torch.testing.assert_close(module.attn.sum(dim=-1), torch.ones(2, HEADS, 7, dtype=torch.double))


@each_core
@each_position
@pytest.mark.parametrize("masked", ["none", "padding", "causal"])
def test_fused_equals_explicit_weights(core, relative, masked):
    module, (x, position) = make(core, relative=relative), inputs(relative=relative)
    mask = {"none": None, "padding": torch.arange(7) < torch.tensor([[[7]], [[4]]]), "causal": causal(7)}[masked]
    fused = module(x, x, x, *position, mask)
    with scope(keep_attention=True):
        explicit = module(x, x, x, *position, mask)
    torch.testing.assert_close(fused, explicit, rtol=1e-9, atol=1e-9)


@each_core
def test_padding_changes_nothing(core):
    module, (x, _) = make(core), inputs()
    mask = torch.arange(7) < torch.tensor([[[4]], [[4]]])
    padded = x.clone()
    padded[:, 4:] = 1e3
    torch.testing.assert_close(module(padded, padded, padded, mask)[:, :4], module(x[:, :4], x[:, :4], x[:, :4], None))


@each_core
def test_batch_equals_singles(core):
    module, (x, _) = make(core), inputs(batch=3)
    lengths = [7, 5, 2]
    together = module(x, x, x, torch.arange(7) < torch.tensor(lengths)[:, None, None])
    for i, n in enumerate(lengths):
        alone = x[i : i + 1, :n]
        torch.testing.assert_close(together[i : i + 1, :n], module(alone, alone, alone, None))


@each_core
def test_cached_step_equals_last_row_of_the_full_pass(core):
    module, (x, _) = make(core, causal=True), inputs()
    full = module(x, x, x, causal(7))
    for t in range(1, 8):
        step = module(x[:, t - 1 : t], x[:, :t], x[:, :t], causal(t)[:, -1:])
        torch.testing.assert_close(step, full[:, t - 1 : t])


@each_core
def test_remembered_keys_give_what_the_full_pass_gives(core):
    module, (x, _) = make(core, causal=True), inputs()
    full = module(x, x, x, causal(7))
    memories = [module.remember(x[:, :3]), *(module.project(x[:, t : t + 1])[1] for t in range(3, 7))]
    parts = zip(*memories, strict=True)
    memory = Memory(*(None if part[0] is None else torch.cat(part, dim=2) for part in parts))
    late = x[:, 3:]
    recalled = module.recall(module.ask(late), late, memory, causal(7)[:, 3:].expand(2, -1, -1))
    torch.testing.assert_close(recalled, full[:, 3:])


@each_core
def test_cross_attention_over_padded_memory(core):
    module, (x, _) = make(core), inputs()
    memory = torch.randn(2, 9, SIZE, dtype=torch.double)
    mask = torch.arange(9) < torch.tensor([[[9]], [[6]]])
    out = module(x, memory, memory, mask)
    torch.testing.assert_close(out[1:], module(x[1:], memory[1:, :6], memory[1:, :6], None))


@each_core
def test_gradients_are_finite_even_for_a_fully_masked_row(core):
    module, (x, _) = make(core), inputs()
    module.train()
    x.requires_grad_()
    mask = torch.arange(7) < torch.tensor([[[7]], [[0]]])
    with scope() as shared:
        loss = module(x, x, x, mask).square().sum() + shared.total_loss()
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(x.grad).all()
    for name, parameter in module.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), name


@each_core
def test_null_setting_is_softmax(core):
    module, (x, _) = make(core, **null(core)), inputs()
    module.prune()
    softmax = make("softmax")
    softmax.load_state_dict({k: v for k, v in module.state_dict().items() if not k.startswith("core.")})
    mask = torch.arange(7) < torch.tensor([[[7]], [[4]]])
    module.train()
    with scope() as shared:
        torch.testing.assert_close(module(x, x, x, mask), softmax(x, x, x, mask))
    assert float(torch.as_tensor(shared.total_loss()).detach()) == 0.0


@each_core
def test_expand_kv_projects_a_repeated_memory_once(core):
    module, (x, _) = make(core), inputs()
    memory = torch.randn(1, 5, SIZE, dtype=torch.double).expand(2, -1, -1)
    torch.testing.assert_close(module(x, memory, memory, None, expand_kv=True), module(x, memory, memory, None))


@each_core
def test_attention_dropout_acts_in_training_only(core):
    torch.manual_seed(0)
    module = build(core, dropout=0.9, **null(core))
    x, _ = inputs()
    trained = module(x, x, x, None)
    module.eval()
    assert not torch.allclose(trained, module(x, x, x, None))
    torch.testing.assert_close(module(x, x, x, None), module(x, x, x, None), rtol=0, atol=0)


def test_unknown_names_list_the_known_ones():
    with pytest.raises(ValueError, match="unknown attention 'softmaxx'; known: softmax sma sdma"):
        build_attention("softmaxx", SIZE, HEADS)
    with pytest.raises(ValueError, match="attention 'sma' has no option 'n_cluster'; known: n_clusters_z"):
        build_attention("sma", SIZE, HEADS, n_cluster=3)
    with pytest.raises(ValueError, match="width 16 is not a multiple of 3 heads"):
        build_attention("softmax", SIZE, 3)


@each_core
@each_position
def test_half_precision_by_autocast_is_close_to_full(core, relative):
    module, (x, position) = make(core, relative=relative).float(), inputs(relative=relative)
    x, position = x.float().requires_grad_(), [p.float() for p in position]
    mask = torch.arange(7) < torch.tensor([[[7]], [[4]]])
    full = module(x, x, x, *position, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16), scope() as shared:
        half = module(x, x, x, *position, mask)
        loss = half.float().square().mean() + shared.total_loss()
    torch.testing.assert_close(half.float(), full, rtol=0.1, atol=0.05)
    loss.backward()
    assert torch.isfinite(x.grad).all()
