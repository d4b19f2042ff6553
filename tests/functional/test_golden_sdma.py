"""SDMA's functions against arrays of its equations; attention/test_golden_released.py has those of its modules."""

from pathlib import Path

import numpy as np
import pytest
import torch
from references.posteriors import kl_of, mi_of, responsibility

from espnet_diverse.functional import blockwise
from espnet_diverse.functional.blockwise import sdma_attention
from espnet_diverse.functional.information import diversity, query_mi_lower
from espnet_diverse.functional.masks import causal
from espnet_diverse.functional.mixed_attention import dense, mixed_weights
from espnet_diverse.functional.mixture import log_density
from espnet_diverse.functional.redundancy import head_redundancy_matrix, layer_redundancy
from espnet_diverse.functional.semantic import gamma_schedule, semantic_mask

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "sdma"
PAPER = dict(np.load(GOLDEN / "golden_paper.npz"))
PAPER_CASES = ["h2c4", "h4c8", "h3c2", "h4c4s10", "h8c12"]
REDUNDANCY_CASES = ["red0", "red1", "red2", "red_same", "red_disjoint"]


def tensors(arrays, prefix=""):
    """Arrays whose key begins with `prefix`, as tensors; floating ones in double precision."""
    picked = {key.removeprefix(prefix): torch.tensor(value) for key, value in arrays.items() if key.startswith(prefix)}
    return {key: value.double() if value.is_floating_point() else value for key, value in picked.items()}


def split(x, heads):
    """(..., T, M) -> (..., H, T, M / H)."""
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)


def exact(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-9, rtol=1e-9)


class Paper:
    """One case of the paper's arrays: inputs, mixtures and projected heads."""

    def __init__(self, case):
        self.golden = g = tensors(PAPER, f"{case}/")
        heads = int(g["n_heads"])
        self.z = split(g["x"], heads) / g["s"]
        self.raw_q, self.k, self.v = (split(g["x"] @ g[f"W_{n}"] + g[f"b_{n}"], heads) for n in "qkv")
        self.q = self.raw_q / g["s"]
        self.mixture_z, self.mixture_q = ([g[f"{m}_{n}"] for n in ("log_pi", "mu", "log_var")] for m in "zq")


@pytest.fixture(params=PAPER_CASES)
def paper(request):
    return Paper(request.param)


@pytest.fixture
def small_blocks(monkeypatch):
    """Have even these small sequences cut into several blocks."""
    monkeypatch.setattr(blockwise, "block_size", lambda device: 16)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("masked", [False, True], ids=["full", "causal"])
def test_paper_attention(paper, masked):
    g, mask = paper.golden, causal(len(paper.golden["x"])) if masked else None
    names = ("causal_A", "causal_M", "causal_Abar") if masked else ("eq1_A", "eq10_M", "eq2_Abar")
    p = responsibility(paper.z, *paper.mixture_z)
    exact(p, g["eq9_P_z"])
    weights, attended = (mixed_weights(paper.raw_q, paper.k, p, p, gamma, mask) for gamma in (0.0, 1.0))
    for name, value in zip(names, (weights, semantic_mask(p, p, mask), attended), strict=True):
        exact(value, g[name])
    for gamma in (0.0, 0.5, 0.9):
        mixed = mixed_weights(paper.raw_q, paper.k, p, p, gamma, mask)
        exact(mixed, g[f"{'causal' if masked else 'eq11'}_Ahat_g{gamma}"])
        for function in (dense, sdma_attention):
            value = function(paper.raw_q, paper.k, paper.v, p, p, gamma, mask)
            exact(value.transpose(-3, -2).flatten(-2), g[f"{'causal_' if masked else ''}context_g{gamma}"])


def test_paper_information(paper):
    g, joint = paper.golden, log_density(paper.q, *paper.mixture_q)
    p = responsibility(paper.q, *paper.mixture_q)
    exact(p, g["eq9_P_q"])
    exact(joint.logsumexp(-1), g["eq18_log_p_q"])
    exact(joint.log_softmax(-2), g["eq17_log_p_q_given_c"])
    exact(mi_of(paper.q, *paper.mixture_q), g["eq21_L_Dqq"])
    exact(p @ p.transpose(-2, -1), g["eq19_f"])
    exact(query_mi_lower(p), g["eq22_L_Dxq"])
    exact(query_mi_lower(p) + torch.tensor(len(g["x"])).double().log(), g["eq15_L_Dxq_infonce"])


def test_paper_losses(paper):
    g, total = paper.golden, paper.golden["ce"].clone()
    for name, x, mixture in (("z", paper.z, paper.mixture_z), ("q", paper.q, paper.mixture_q)):
        p = responsibility(x, *mixture)
        kl, spread = kl_of(x, *mixture, float(g["approx_var"])), diversity(p)
        exact(kl, g[f"eq20_KL_{name}"])
        exact(kl, g[f"eq20_KL_{name}_gauss"] + g[f"eq20_KL_{name}_cat"])
        exact(spread, g[f"eq23_L_DV_{name}"])
        exact(diversity(p, form="code"), g[f"code_L_DV_{name}"])
        total += 0.001 * kl + 1.0 * spread
    total += 30 * mi_of(paper.q, *paper.mixture_q)
    total -= 4 * query_mi_lower(responsibility(paper.q, *paper.mixture_q))
    exact(total, g["eq24_total"])


@pytest.mark.parametrize("case", REDUNDANCY_CASES)
def test_paper_redundancy(case):
    g = tensors(PAPER, f"{case}/")
    exact(layer_redundancy(g["A"]), g["LR"])
    exact(head_redundancy_matrix(g["A"]).mean(), g["HR"])


def test_paper_mixing_rate():
    exact(gamma_schedule(torch.tensor(PAPER["gamma/t"]).double()), torch.tensor(PAPER["gamma/value"]))


def test_every_array_of_the_paper_is_known():
    assert {key.split("/")[0] for key in PAPER} == {*PAPER_CASES, *REDUNDANCY_CASES, "gamma"}
