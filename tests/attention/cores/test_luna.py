"""The Luna core: golden arrays of the released code, naive loops, differences, options, cost."""

import pytest
import torch
from references import luna as oracle
from references.golden import golden

from espnet_diverse.attention import Stream, build_attention, build_core
from espnet_diverse.attention.cores.luna import FirstRows
from espnet_diverse.functional.masks import causal, lengths_to_mask
from espnet_diverse.functional.position import sinusoids

ARRAYS = golden("luna")
OURS = {"pq": "core.linear_p", "q": "linear_q", "out": "linear_out"}
NESTED = {
    "tied": {"pc": ("linear_k", "linear_v"), "c": ("core.linear_packed_k", "core.linear_packed_v")},
    "untied": {
        "pk": ("linear_k",),
        "pv": ("linear_v",),
        "k": ("core.linear_packed_k",),
        "v": ("core.linear_packed_v",),
    },
}
CAUSAL = {"pc": ("core.linear_context",), "c": ("linear_k", "linear_v")}


def build(size=8, heads=2, **options):
    torch.manual_seed(0)
    return build_attention("luna", size, heads, **({"length": 4} | options)).double().eval()


def inputs(*shape):
    torch.manual_seed(1)
    return torch.randn(*shape, dtype=torch.double)


def released(case, names, **options):
    """Our attention with the parameters of the released code. Its layer is given P; `first` is ours and stays."""
    module = build(**options)
    named = {theirs: (ours,) for theirs, ours in OURS.items()} | names
    state = {
        f"{ours}.{part}": ARRAYS[f"{case}_{theirs}_proj.{part}"]
        for theirs, all_ours in named.items()
        for ours in all_ours
        for part in ("weight", "bias")
    }
    module.load_state_dict(state | {"core.first.weight": module.core.first.weight})
    return module


def exact(actual, expected):
    torch.testing.assert_close(actual.detach(), torch.as_tensor(expected), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", ["self", "cross"])
def test_equals_the_released_code(tied, kind):
    case = "tied" if tied else "untied"
    module = released(f"{case}_{kind}", NESTED[case], pack_heads=4, tied=tied, cross=kind == "cross")
    module.core.norm = torch.nn.Identity()  # the released attention returns Y_P before residual and norm
    x, context, padding = ARRAYS["x"], ARRAYS["x"], ARRAYS["pad"]
    if kind == "cross":
        context, padding = ARRAYS["ctx"], ARRAYS["ctx_pad"]
    stream = Stream(~padding.unsqueeze(1), ARRAYS["px"])
    exact(module(x, context, context, stream), ARRAYS[f"{case}_{kind}_out"])
    exact(stream.state - ARRAYS["px"], ARRAYS[f"{case}_{kind}_p_out"])


def test_the_causal_form_equals_the_released_code(monkeypatch):
    module, x = released("causal", CAUSAL, causal=True), ARRAYS["x"]
    monkeypatch.setattr(FirstRows, "forward", lambda self: ARRAYS["px"])
    exact(module(x, x, x, causal(9).unsqueeze(0)), ARRAYS["causal_out"])


@pytest.mark.parametrize("options", [{}, {"pack_heads": 4}, {"tied": False, "pack_heads": 1}])
@pytest.mark.parametrize("lengths", [[7, 3], [7, 0]])
def test_equals_loops(options, lengths):
    module, x = build(**options), inputs(2, 7, 8)
    merged = []
    module.linear_out.register_forward_pre_hook(lambda _, given: merged.append(given[0]))
    mask = lengths_to_mask(torch.tensor(lengths), 7)
    module(x, x, x, mask.unsqueeze(1))
    core = module.core
    p = core.linear_p(core.first())[0].detach().numpy()
    q, k, v = (linear(x).detach().numpy() for linear in (module.linear_q, module.linear_k, module.linear_v))
    unpack = [lambda row, linear=linear: linear(torch.from_numpy(row)).detach().numpy() for linear in unpacking(core)]
    for b in range(2):
        expected, _ = oracle.nested(p, q[b], k[b], v[b], *unpack, core.pack_heads, 2, mask[b].numpy())
        exact(merged[0][b], expected)


def unpacking(core):
    return core.linear_packed_k, core.linear_packed_v


def test_the_causal_form_equals_loops():
    module, x = build(causal=True, tied=False), inputs(2, 7, 8)
    merged = []
    module.linear_out.register_forward_pre_hook(lambda _, given: merged.append(given[0]))
    valid = lengths_to_mask(torch.tensor([7, 4]), 7)
    module(x, x, x, causal(7) & valid.unsqueeze(1))
    parts = module.linear_q(x), module.linear_k(x), module.linear_v(x), module.core.linear_context(x)
    p = module.core.linear_p(module.core.first())[0].detach().numpy()
    for b in range(2):
        q, k, v, context = (part[b].detach().numpy() for part in parts)
        for head in (slice(0, 4), slice(4, 8)):
            w = oracle.pattern(p[:, head], context[:, head])
            seen = (causal(7) & valid[b]).numpy()
            exact(merged[0][b, :, head], oracle.causal(q[:, head], k[:, head], v[:, head], w, seen))


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradcheck(is_causal):
    module, x = build(4, 2, length=2, causal=is_causal), inputs(1, 4, 4).requires_grad_()
    mask = causal(4).unsqueeze(0) if is_causal else torch.tensor([[[True, True, True, False]]])
    weight = module.core.first.weight.detach().clone().requires_grad_()

    def attend(x, weight):
        return torch.func.functional_call(module, {"core.first.weight": weight}, (x, x, x, mask))

    assert torch.autograd.gradcheck(attend, (x, weight))


def test_without_a_mask_a_causal_query_sees_all_keys():
    module, x = build(causal=True), inputs(1, 5, 8)
    everything = torch.ones(1, 1, 5, dtype=torch.bool)
    torch.testing.assert_close(module(x[:, -1:], x, x, None), module(x[:, -1:], x, x, everything))


def test_a_short_context_uses_as_many_rows_as_it_has_positions():
    module, x = build(length=6), inputs(1, 3, 8)
    before = module(x, x, x, None)
    module.core.first.weight.data[3:] = 1e3
    torch.testing.assert_close(module(x, x, x, None), before, rtol=0, atol=0)
    module.core.first.weight.data[2:] = 1e3
    assert not torch.allclose(module(x, x, x, None), before)


def test_the_first_rows_start_as_released():
    """Drawn from N(0, 1/M), multiplied by sqrt(M), plus positions; ESPnet's `init` does not change that."""
    from espnet2.torch_utils.initialize import initialize

    torch.manual_seed(0)
    module = build_attention("luna", 64, 4, length=50)
    initialize(module, "xavier_uniform")
    first = module.core.first
    assert float(first.weight.std().detach()) == pytest.approx(64**-0.5, rel=0.1)
    torch.testing.assert_close(first()[0] - sinusoids(torch.arange(50), 64).float(), 8 * first.weight)
    assert "core.first.positions" not in module.state_dict()


def test_tied_values_have_the_projection_of_the_keys():
    tied, untied = build(), build(tied=False)
    assert tied.linear_v is tied.linear_k and untied.linear_v is not untied.linear_k
    counts = [sum(p.numel() for p in module.parameters()) for module in (tied, untied)]
    assert counts == [5 * 72 + 4 * 8, 7 * 72 + 4 * 8]
    assert set(tied.state_dict()) == set(untied.state_dict())  # names of ESPnet's checkpoints


def test_the_causal_form_is_computed_in_full_precision():
    supports = [build_core("luna", 8, 2, causal=is_causal).supports for is_causal in (False, True)]
    assert [each.half_precision for each in supports] == [True, False]


STATIC = {"strategy": "static", "conditions": {"lang": ["ar"]}}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"relative": True}, "'luna' does not support relative position; choose one that does: softmax sma sdma"),
        ({"selection": STATIC}, "'luna' does not support head selection; choose one that does: softmax sma sdma"),
        ({"pack_heads": 3}, "width 8 is not a multiple of 3 pack_heads; choose a divisor, or 0"),
        ({"pack_heads": 4, "causal": True}, "attention with 2 heads cannot have 4 pack_heads; give as many, or 0"),
        ({"length": 0}, "length must be at least 1, but is 0"),
        ({"packed_dropout": 1.0}, "packed_dropout must be at least 0 and below 1, but is 1.0"),
        ({"tied": "yes"}, "tied must be true or false, but is 'yes'"),
    ],
)
def test_invalid_options_and_unsupported_uses_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        build(**options)


def test_the_causal_form_has_no_summary():
    assert build_core("luna", 8, 2, {"length": 4}, causal=True).reduce_keys(iter([]), Stream()) is None
