"""SMA and SDMA against arrays of the modules released with the SDMA paper; see tests/golden/sdma/README.md.

`preset: released` reproduces them, losses over padding and gradients included. One thing it does not repeat: with
cached decoding the released code compares a query's clusters with themselves, so that its semantic mask is uniform.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from espnet_diverse.attention import build_attention
from espnet_diverse.attention.cores import sdma, sma
from espnet_diverse.attention.mixtures import noise as noise_module
from espnet_diverse.functional.masks import causal, lengths_to_mask
from espnet_diverse.scope import scope

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "sdma"
CASES = {entry["name"]: entry for entry in json.loads((GOLDEN / "index.json").read_text())}
STEP = "espnet_causal_step_h4c4_g50_fix_eval"
NAMES = {
    "linear_query": "linear_q",
    "linear_key": "linear_k",
    "linear_value": "linear_v",
    "linear_output": "linear_out",
    "linear_semantic_var": "core.token_variance",
    "linear_semantic_var_k": "core.memory_variance",
    "linear_head_var": "core.query_variance",
    **{f"{old}_log_prior": "core.token_mixture.log_prior" for old in ("semantic", "tok")},
    **{f"{old}_log_var": "core.token_mixture.log_var" for old in ("semantic", "tok")},
    **{f"{old}_mu": "core.token_mixture.mean" for old in ("semantic", "tok")},
    "head_log_prior": "core.query_mixture.log_prior",
    "head_log_var": "core.query_mixture.log_var",
    "head_mu": "core.query_mixture.mean",
}
#: Weights of the losses in the objective whose gradients were stored: .3 KL + .7 DV + .5 (10 D_qq - D_xq).
WEIGHTS = {"lambda_k": 0.3, "lambda_d": 0.7, "lambda_q": 5.0, "lambda_x": 0.5}


def ours(name):
    """A released parameter's name in our module."""
    stem, dot, rest = name.partition(".")
    return NAMES.get(stem, stem) + dot + rest


class Case:
    """Arrays of one case, and our module with its parameters, in double precision and in the case's mode."""

    def __init__(self, name, **options):
        entry = CASES.get(name, {"H": 4, "C": 4, "kind": "causal_step", "train": False})
        self.kind = entry["kind"]
        arrays = {key: torch.tensor(value) for key, value in np.load(GOLDEN / f"{name}.npz").items()}
        self.golden = {key: x.double() if x.is_floating_point() else x for key, x in arrays.items()}
        released = {
            "approx_var": "learned" if entry.get("var_estimation") else 0.01,
            "centroid_gradient_scale": entry.get("grad_multiplier", 5.0),
            "cross": self.kind == "cross",
            "causal": self.kind.startswith("causal"),
            "decoder_test_mask": self.kind != "causal_step",  # without a cache the released code keeps its mask
        }
        self.scale = entry.get("s", 1)
        if self.scale == 10:  # the Fairseq module: its noise comes after the clustering then
            released |= {"scale_s": 10.0, "noise_order": "after"}
        clusters = {"n_clusters_z": entry["C"], "n_clusters_q": entry["C"]}
        options = {"preset": "released"} | released | clusters | WEIGHTS | options
        self.size = self.golden["query"].size(-1)
        self.module = build_attention("sdma", self.size, entry["H"], **options).double().train(entry["train"])
        state = {ours(key): value for key, value in self.stored("param/").items()}
        del state["var"], state["num_updates"]
        missing, unexpected = self.module.load_state_dict(state, strict=False)
        assert (missing, unexpected) == (["core.updates.count"], [])
        self.query = self.golden["query"].requires_grad_()
        self.key = self.golden["key"] if self.kind in ("cross", "causal_step") else self.query
        self.mask = lengths_to_mask(self.golden["key_lengths"], self.key.size(1)).unsqueeze(1)
        if self.kind == "causal":  # the released code does not look at padding then, which lies in the future
            self.mask = causal(self.query.size(1)).unsqueeze(0)

    def stored(self, prefix):
        return {key.removeprefix(prefix): x for key, x in self.golden.items() if key.startswith(prefix)}

    def run(self, monkeypatch, updates=None):
        """Forward with the stored noise at a number of updates; the stored one unless given."""
        noise = iter(self.stored("noise/").values())

        def stored_noise(like, std):
            drawn = next(noise)
            return std * (drawn if drawn.shape == like.shape else drawn.transpose(1, 2).reshape(like.shape))

        for user in (sma, sdma):
            monkeypatch.setattr(user, "gaussian_noise", stored_noise)
        count = self.golden["param/num_updates"] if updates is None else torch.tensor(updates)
        self.module.core.updates.count = count.double().squeeze()
        with scope(keep_attention=True) as self.shared:
            return self.module(self.query, self.key, self.key, self.mask)


def close(actual, expected, atol=2e-6, rtol=1e-4):
    torch.testing.assert_close(actual.detach(), expected, atol=atol, rtol=rtol)


@pytest.fixture(params=[name for name in CASES if CASES[name]["kind"] != "causal_step"])
def name(request):
    return request.param


@pytest.fixture
def case(name):
    return Case(name)


def test_every_stored_noise_is_replaced():
    assert sma.gaussian_noise is sdma.gaussian_noise is noise_module.gaussian_noise


def test_attention(case, monkeypatch):
    posteriors = []
    for mixture in (case.module.core.token_mixture, case.module.core.query_mixture):
        mixture.register_forward_hook(lambda module, _, output: posteriors.append((module, output.p)))
    tolerance = 2e-6 if case.scale == 1 else 2e-5
    output, g = case.run(monkeypatch), case.golden
    close(output, g["output"], tolerance)
    close(case.module.attn, g["Ahat"], tolerance)
    close(case.module.core.inspect().maps["semantic"].values, g["M"])
    queries = [p for module, p in posteriors if module is case.module.core.query_mixture]
    tokens = [p for module, p in posteriors if module is case.module.core.token_mixture]
    close(queries[0], g["P_q"])
    assert len(tokens) == (2 if case.kind == "cross" else 1)
    for p, name in zip(tokens, ("P_zq", "P_zk"), strict=False):
        close(p, g[name])


@pytest.mark.parametrize(("updates", "weights"), [(0.0, "A"), (1e9, "Abar")])
def test_attention_before_and_after_mixing(name, monkeypatch, updates, weights):
    case = Case(name, nu=1.0)
    case.run(monkeypatch, updates)
    close(case.module.attn, case.golden[weights], 2e-6 if case.scale == 1 else 2e-5)


def test_losses_over_padding_too(case, monkeypatch):
    case.run(monkeypatch)
    losses, g = case.shared.losses(), case.golden
    close((losses["kl_z"] + losses["kl_q"]) / WEIGHTS["lambda_k"], g["loss_kl"].mean(), 2e-5)
    close((losses["diversity_z"] + losses["diversity_q"]) / WEIGHTS["lambda_d"], g["loss_div"].mean(), 2e-5)
    close((losses["head_mi"] + losses["query_mi"]) / WEIGHTS["lambda_x"], g["loss_mi"].mean(), 2e-5)


def test_gradients(case, monkeypatch):
    objective = (case.run(monkeypatch) * case.golden["obj_out_weights"]).sum() + case.shared.total_loss()
    objective.backward()
    close(objective, case.golden["obj"], 2e-5)
    gradients = {name: parameter.grad for name, parameter in case.module.named_parameters()}
    tolerance = 2e-5 if case.scale == 1 else 1e-3  # of single precision, for gradients up to 100
    for name, expected in case.stored("grad/").items():
        close(gradients[ours(name)], expected, tolerance)
    close(case.query.grad, case.golden["grad_query"], tolerance)


def test_cached_step_keeps_the_mask_that_the_released_one_loses(monkeypatch):
    case = Case(STEP, decoder_test_mask=True)
    step, x = case.run(monkeypatch), case.key
    full = case.module(x, x, x, causal(x.size(1)).unsqueeze(0))
    assert torch.equal(case.query[:, 0], x[:, -1])
    torch.testing.assert_close(step, full[:, -1:])
    assert (step - case.golden["output"]).abs().max() > 1e-3
    close(case.golden["M"], torch.full_like(case.golden["M"], 1 / x.size(1)))


def test_cached_step_without_the_mask_is_the_released_one(monkeypatch):
    case = Case(STEP)
    close(case.run(monkeypatch), case.golden["output"])
    close(case.module.attn, case.golden["Ahat"])
