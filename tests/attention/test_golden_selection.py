"""Head selection against arrays of the released code; see tests/golden/methods/README.md."""

import pytest
import torch
from references.golden import golden

from espnet_diverse.attention import build_attention
from espnet_diverse.attention.selection import learned_selection
from espnet_diverse.scope import scope


@pytest.fixture(params=["group", "subset", "subset:sorted"])
def released(request):
    """Arrays of the released code, and our module with its parameters of layer `layer_idx`."""
    strategy, _, order = request.param.partition(":")
    arrays = golden(f"head_select_{strategy}")
    layer = int(arrays["layer_idx"])
    options = {"strategy": strategy, "pool": 8, "conditions": {"lang": ["first", "second", "third"]}}
    options["subset_order"] = "index" if order else "score"
    module = build_attention("softmax", 16, 4, selection=options).double()
    names = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "out": "out_proj"}
    state = {f"linear_{name}.weight": arrays[f"W_{theirs}"] for name, theirs in names.items()}
    state |= {f"linear_{name}.bias": arrays[f"b_{theirs}"] for name, theirs in names.items()}
    state |= {"selection.logits_lang": arrays["logits"][:, layer], "selection.updates.count": torch.tensor(0.0)}
    module.load_state_dict(state)
    return arrays, module, "_sorted" if order else ""


def noise_of(arrays, monkeypatch):
    """Draw the noise of the arrays for the conditions in the order in which the batch has them."""
    conditions = list(dict.fromkeys(arrays["task_ids"].tolist()))
    drawn = (arrays["gumbel1"] - arrays["gumbel2"])[conditions, int(arrays["layer_idx"])]
    monkeypatch.setattr(learned_selection, "logistic_noise", lambda phi: drawn)


@pytest.mark.parametrize("mode", ["eval", "noisy"])
def test_output_and_gradients_equal_the_released_codes(released, mode, monkeypatch):
    arrays, module, suffix = released
    noise_of(arrays, monkeypatch)
    if mode == "eval":
        monkeypatch.setattr(learned_selection, "logistic_noise", torch.zeros_like)
    x, mask = arrays["x"], ~arrays["key_padding_mask"].unsqueeze(1)
    with scope({"lang": arrays["task_ids"]}, keep_attention=True):
        out = module.train()(x, x, x, mask)
        weights = module.attn.mean(1)
        causal = module(x, x, x, torch.ones(7, 7, dtype=torch.bool).tril().unsqueeze(0))
    torch.testing.assert_close(out, arrays[f"{mode}_out{suffix}"], atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(weights, arrays[f"{mode}_attn_mean"], atol=1e-10, rtol=1e-10)
    if not suffix:
        torch.testing.assert_close(causal, arrays[f"{mode}_causal_out"], atol=1e-10, rtol=1e-10)
        (out * arrays["R"]).sum().backward()
        layer = int(arrays["layer_idx"])
        for ours, theirs in (
            (module.selection.logits_lang.grad, arrays[f"{mode}_grad_logits"][:, layer]),
            (module.linear_q.weight.grad, arrays[f"{mode}_grad_Wq"]),
            (module.linear_v.weight.grad, arrays[f"{mode}_grad_Wv"]),
        ):
            torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)


def test_evaluation_equals_the_released_codes_without_noise(released):
    arrays, module, suffix = released
    x, mask = arrays["x"], ~arrays["key_padding_mask"].unsqueeze(1)
    with scope({"lang": arrays["task_ids"]}, keep_attention=True):
        out = module.eval()(x, x, x, mask)
    torch.testing.assert_close(out, arrays[f"eval_out{suffix}"], atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(module.attn.mean(1), arrays["eval_attn_mean"], atol=1e-10, rtol=1e-10)
    with scope({"lang": arrays["task_ids"]}):
        causal = module(x, x, x, torch.ones(7, 7, dtype=torch.bool).tril().unsqueeze(0))
    if not suffix:
        torch.testing.assert_close(causal, arrays["eval_causal_out"], atol=1e-10, rtol=1e-10)
