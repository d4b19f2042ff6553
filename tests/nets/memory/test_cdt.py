"""Contrastive disentangled memory: golden arrays, its losses, the ways to update it, gradients through segments."""

import math

import pytest
import torch
from references.golden import golden

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.memory.cdt import CDTMemory, CDTOptions, CDTState
from espnet_diverse.scope import scope

GOLDEN = golden("cdt")


def build(**options):
    torch.manual_seed(0)
    return CDTMemory(6, 2, CDTOptions(**{"segment": 5, "slots": 4} | options)).double()


def read(memory, x, valid=None, state=None):
    valid = torch.ones(x.shape[:3], dtype=torch.bool) if valid is None else valid
    return memory.read(x, valid, None, state)


def test_an_update_in_evaluation_equals_the_golden_arrays(monkeypatch):
    """Compression and scores, whose weights are ours, are replaced by those of the golden data."""
    memory, filled = build(tau=0.7).eval(), torch.ones(2, 5, dtype=torch.bool)
    new = CDTState(GOLDEN["Z"], GOLDEN["mu"], GOLDEN["logvar"], filled)
    logits = GOLDEN["keep_logits"]
    monkeypatch.setattr(memory, "compress", lambda code, valid: new)
    monkeypatch.setattr(memory, "score", lambda entries: logits[..., 1] - logits[..., 0])
    nothing = torch.zeros(2, 4, 6).double()
    state = memory.update(CDTState(GOLDEN["M_prev"], nothing, nothing, filled[:, :4]), [GOLDEN["S"]], filled)
    torch.testing.assert_close(state.values, GOLDEN["M_fixed_eval"], rtol=1e-10, atol=1e-10)
    kept = GOLDEN["topk_index_eval"]
    means = torch.cat([nothing, GOLDEN["mu"]], 1).gather(1, kept.unsqueeze(-1).expand(-1, -1, 6))
    assert torch.equal(state.mean, means)


def test_evaluation_takes_the_mean_and_draws_nothing():
    memory, x = build().eval(), torch.randn(2, 3, 5, 6).double()
    first, second = read(memory, x)[1], read(memory, x)[1]
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    torch.testing.assert_close(first.values, first.mean)  # 1 + p - sg(p) is 1
    training = read(memory.train(), x)[1]
    assert not torch.allclose(training.values, training.mean)


@pytest.mark.parametrize("update", ["topk", "mask", "fifo"])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_a_memory_in_half_precision_keeps_its_type(update, kind):
    slots, state = read(build(update=update).to(kind), torch.randn(2, 3, 5, 6).to(kind))
    assert slots.values.dtype == state.values.dtype == kind and state.valid.any()


@pytest.mark.parametrize("update", ["topk", "mask", "fifo"])
def test_padding_is_never_kept(update):
    memory, x = build(update=update).eval(), torch.randn(2, 3, 5, 6).double()
    valid = torch.ones(2, 3, 5, dtype=torch.bool)
    valid[1, 1, 2:] = valid[1, 2] = False
    other = x.masked_fill(~valid.unsqueeze(-1), 7.0)
    first, second = read(memory, x, valid)[1], read(memory, other, valid)[1]
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a[first.valid] if a.dim() == 3 else a, b[first.valid] if b.dim() == 3 else b)
    assert first.valid.any() and (update == "mask" or first.valid.all())


def test_first_in_first_out_keeps_the_last_frames():
    memory, x = build(update="fifo").eval(), torch.randn(1, 2, 5, 6).double()
    state = read(memory, x)[1]
    torch.testing.assert_close(state.values[0], memory.mean(x[0, 1, 1:]))
    assert not hasattr(memory, "keep")


@pytest.mark.parametrize("collect", [True, False])
def test_frames_are_encoded_once_together_for_losses_and_else_by_segments(collect):
    memory, sizes = build(), []
    for linear in (memory.mean, memory.log_var):
        linear.register_forward_hook(lambda _, given, out: sizes.append(given[0].numel() // 6))
    with scope(collect=collect):
        read(memory, torch.randn(2, 3, 5, 6).double())
    assert sizes == ([30] * 2 if collect else [10] * 6)


def oracle_losses(memory, x, valid):
    """Equations (3) and (5) in loops, from the states that the memory goes through."""
    state, options = memory.begin(2, x), memory.options
    memories, segments, constraints = {}, {}, []
    for t in range(x.size(1)):
        state = memory.update(state, memory.encode(x[:, t]), valid[:, t])
        for b in range(2):
            if not valid[b, t].any():
                continue
            frames = x[b, t][valid[b, t]]
            slots = state.valid[b].nonzero()[:, 0].tolist()
            memories[b, t], segments[b, t] = state.values[b, slots].mean(0), frames.mean(0)
            mean, log_var = memory.mean(frames), memory.log_var(frames).clamp(-6, 2)
            prior = [float(kl(m, v, torch.zeros(6), torch.zeros(6))) for m, v in zip(mean, log_var, strict=True)]
            gaussians = [(state.mean[b, i], state.log_var[b, i]) for i in slots]
            pairs = [min(float(kl(*p, *q)), options.div_cap) for p in gaussians for q in gaussians if p is not q]
            constraints.append(sum(prior) / len(prior) - sum(pairs) / max(1, len(pairs)))
    terms = []
    for (b, t), anchor in memories.items():
        if (b, t + 1) in segments:
            score = {k: math.exp(torch.cosine_similarity(anchor, s, dim=0) / 0.1) for k, s in segments.items()}
            terms.append(-math.log(score[b, t + 1] / sum(score.values())))
    return sum(terms) / len(terms), sum(constraints) / len(constraints)


def kl(m, v, m2, v2):
    return (v2 - v + (v.exp() + (m - m2) ** 2) / v2.exp() - 1).sum() / 2


def test_losses_equal_the_oracle():
    memory, x = build(div_cap=0.5, mem_weight=2.0).eval(), torch.randn(2, 4, 5, 6).double()
    valid = torch.ones(2, 4, 5, dtype=torch.bool)
    valid[1, 2, 1:] = valid[1, 3] = False
    with scope() as shared, torch.no_grad():
        read(memory, x, valid)
        nce, constraint = oracle_losses(memory, x, valid)
    assert float(shared.losses()["memory_nce"]) == pytest.approx(2 * nce, rel=1e-8)
    assert float(shared.losses()["memory_constraint"]) == pytest.approx(2 * 1.1 * constraint, rel=1e-8)


def test_several_following_segments_are_predicted():
    x, losses = torch.randn(2, 4, 5, 6).double(), []
    for steps in (1, 2, 9):
        with scope() as shared:
            read(build(nce_steps=steps).eval(), x)
        losses.append(float(shared.losses()["memory_nce"].detach()))
    assert len(set(losses)) == 3


def test_one_segment_has_nothing_to_predict():
    memory = build()
    with scope() as shared:
        read(memory, torch.randn(2, 1, 5, 6).double())
    assert shared.losses()["memory_nce"] == 0
    shared.total_loss().backward()
    gradients = [p.grad for p in memory.parameters()]
    assert all(torch.isfinite(gradient).all() for gradient in gradients if gradient is not None)


@pytest.mark.parametrize(
    ("limit", "reader", "reached"), [(None, 3, [0, 1, 2]), (0, 3, []), (1, 3, [2]), (1, 2, []), (2, 2, [0, 1])]
)
def test_gradients_stop_after_every_group_of_segments(limit, reader, reached):
    """Of what segment `reader` reads."""
    x = torch.randn(1, 4, 5, 6).double().requires_grad_()
    slots, _ = read(build(slots=20, bptt_segments=limit), x)
    if slots.values.requires_grad:
        slots.values[:, reader].sum().backward()
    gradients = torch.zeros(4) if x.grad is None else x.grad.abs().sum((0, 2, 3))
    assert gradients.nonzero()[:, 0].tolist() == reached


def test_scores_get_gradients_through_the_slots():
    memory = build(mem_weight=0.0)
    slots, _ = read(memory, torch.randn(2, 3, 5, 6).double())
    slots.values.square().sum().backward()
    assert memory.keep[2].weight.grad.abs().sum() > 0 and memory.attention.linear_q.weight.grad.abs().sum() > 0


def test_gradients_agree_with_finite_differences():
    """Without noise, and without the scores, whose gradients are straight through."""
    memory = build(update="fifo").eval()

    def losses(x):
        with scope() as shared:
            read(memory, x)
        return shared.total_loss()

    assert torch.autograd.gradcheck(losses, torch.randn(1, 2, 3, 6).double().requires_grad_())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tau": 0}, "tau must be above 0, but is 0"),
        ({"temperature": 0}, "temperature must be above 0, but is 0"),
        ({"update": "lru"}, "update must be one of topk mask fifo, but is 'lru'"),
        ({"bptt_segments": -1}, "bptt_segments must be at least 0, but is -1"),
        ({"beta": "big"}, "beta must be a number, but is 'big'"),
    ],
)
def test_wrong_options_are_named(options, said):
    with pytest.raises(ConfigError, match=said):
        CDTOptions(**options)
