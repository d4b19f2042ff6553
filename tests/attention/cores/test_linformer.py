"""The Linformer core: golden arrays of the released code, naive loops, differences, options, cost."""

import pytest
import torch
from references import linformer as oracle
from references.golden import golden

from espnet_diverse.attention import build_attention, build_core
from espnet_diverse.attention.cores.linformer import LinformerOptions
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.scope import scope

LANGUAGES = {"strategy": "subset", "pool": 5, "conditions": {"lang": ["ar", "de", "el"]}}


def build(**options):
    torch.manual_seed(0)
    sizes = {"compressed_length": 3, "max_length": 10}
    return build_attention("linformer", 8, 2, **(sizes | options)).double().eval()


def inputs(*shape):
    torch.manual_seed(1)
    return torch.randn(*shape, dtype=torch.double)


def released(shared):
    """Arrays of the released code, and our attention with its parameters."""
    found = golden("linformer")
    g = {name.removeprefix(f"shared{shared:d}_"): array for name, array in found.items() if f"shared{shared:d}" in name}
    module = build(compressed_length=5, max_length=20, shared=shared)
    state = {f"linear_{x}.{p}": g[f"{x}_proj.{p}"] for x in ("q", "k", "v", "out") for p in ("weight", "bias")}
    state |= {f"core.time_{x}": g[f"compress_{x}.weight"] for x in ("k" if shared else "kv")}
    module.load_state_dict(state)
    return g, module


@pytest.mark.parametrize("shared", [False, True])
def test_equals_the_released_code(shared):
    """Without padding its own output; with padding its output after padded frames are set to zero."""
    g, module = released(shared)
    x, mask = g["x"], lengths_to_mask(g["lengths"], 6).unsqueeze(1)
    torch.testing.assert_close(module(x, x, x, None), g["out"], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(module(x, x, x, mask), g["out_pad_zeroed"], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shared", [False, True])
def test_equals_loops(shared):
    module, x, lengths = build(shared=shared), inputs(2, 6, 8), [6, 4]
    merged = []
    module.linear_out.register_forward_pre_hook(lambda _, given: merged.append(given[0]))
    module(x, x, x, lengths_to_mask(torch.tensor(lengths), 6).unsqueeze(1))
    weights = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
    times = weights["core.time_k"], weights["core.time_k" if shared else "core.time_v"]
    query = module.linear_q(x).detach().numpy()
    for b, length in enumerate(lengths):
        for part in (slice(0, 4), slice(4, 8)):
            names = [(f"linear_{x}.weight", f"linear_{x}.bias") for x in "kv"]
            projected = [tuple(weights[name][part] for name in pair) for pair in names]
            expected = oracle.head(query[b][:, part], x[b].numpy(), length, *times, *projected)
            torch.testing.assert_close(merged[0][b, :, part].detach(), torch.from_numpy(expected))


def test_gradcheck():
    module, x = build(), inputs(1, 4, 8).requires_grad_()
    mask = torch.tensor([[[True, True, True, False]]])

    def attend(x, *projections):
        given = dict(zip(("core.time_k", "core.time_v"), projections, strict=True))
        return torch.func.functional_call(module, given, (x, x, x, mask))

    projections = [projection.detach().clone().requires_grad_() for projection in module.core.parameters()]
    assert torch.autograd.gradcheck(attend, (x, *projections))


def test_key_and_value_may_be_different_inputs():
    module, (x, value) = build(shared=True), inputs(2, 1, 6, 8)
    assert not torch.allclose(module(x, x, value, None), module(x, x, x, None))
    torch.testing.assert_close(module(x, x, x.clone(), None), module(x, x, x, None))


def test_a_mixed_batch_of_selected_heads_equals_its_samples_alone():
    """The rows are the same for all heads, so the heads may differ between samples."""
    module, x, ids = build(selection=LANGUAGES), inputs(3, 6, 8), [2, 0, 1]
    with scope({"lang": torch.tensor(ids)}):
        mixed = module(x, x, x, None)
    for b, condition in enumerate(ids):
        with scope({"lang": torch.tensor([condition])}):
            torch.testing.assert_close(mixed[b : b + 1], module(*[x[b : b + 1]] * 3, None))


def test_a_longer_input_is_refused():
    module = build()
    assert module.core.supports.max_length == 10
    with pytest.raises(ValueError, match="attention 'linformer' supports at most 10 positions, and 11 are needed"):
        module(*[inputs(1, 11, 8)] * 3, None)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"causal": True}, "'linformer' does not support causal self-attention; choose one that does: softmax"),
        ({"cross": True}, "'linformer' does not support cross-attention; choose one that does: softmax"),
        ({"relative": True}, "'linformer' does not support relative position; choose one that does: softmax"),
        ({"compressed_length": 0}, "compressed_length must be at least 1, but is 0"),
        ({"max_length": 0}, "max_length must be at least 1, but is 0"),
        ({"shared": 1}, "shared must be true or false, but is 1"),
    ],
)
def test_invalid_options_and_unsupported_uses_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        build(**options)


def test_sharing_saves_one_projection():
    sizes = {"compressed_length": 3, "max_length": 10}
    cores = [build_core("linformer", 8, 2, {"shared": shared, **sizes}) for shared in (False, True)]
    assert [sum(p.numel() for p in core.parameters()) for core in cores] == [2 * 3 * 10, 3 * 10]
    assert LinformerOptions().compressed_length < LinformerOptions().max_length


def test_e_and_f_start_alike_with_any_initialisation_of_espnet():
    from espnet2.torch_utils.initialize import initialize

    module = build(compressed_length=5, max_length=20)
    initialize(module, "normal")  # with a deviation of 0.02
    bound = (6 / 25) ** 0.5
    for weight in (module.core.time_k, module.core.time_v):
        assert 0.8 * bound < float(weight.detach().abs().max()) <= bound
