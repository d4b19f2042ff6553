"""Linformer's projection along time: golden arrays, naive loops, finite differences."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from references import linformer as oracle

from espnet_diverse.functional.linformer import project_time

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "methods" / "linformer.npz"


def test_equals_the_golden_arrays_without_heads():
    g = {name: torch.from_numpy(array) for name, array in np.load(GOLDEN).items() if name.startswith("slides_")}
    k, v = (project_time(g[f"slides_{name}"], g["slides_C"].unsqueeze(0)) for name in "EF")
    out = F.scaled_dot_product_attention(g["slides_Q"].unsqueeze(0), k, v)
    torch.testing.assert_close(out[0], g["slides_O"], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("time", [1, 4, 6])
def test_equals_loops_and_padding_changes_nothing(draw, time):
    projection, x = draw.normal(3, 6), draw.normal(2, time, 5)
    lengths = [time, max(time - 2, 0)]
    valid = torch.arange(time) < torch.tensor(lengths).unsqueeze(1)
    out = project_time(projection, x, valid)
    for row, length in enumerate(lengths):
        expected = oracle.project_time(projection.detach().numpy(), x[row].detach().numpy(), length)
        torch.testing.assert_close(out[row].detach(), torch.from_numpy(expected), rtol=1e-10, atol=1e-10)
    changed = torch.where(valid.unsqueeze(-1), x, 1e3)
    torch.testing.assert_close(project_time(projection, changed, valid), out)


def test_gradcheck(draw):
    valid = torch.tensor([[True, True, True, True], [True, True, False, False]])
    given = draw.normal(2, 5), draw.normal(2, 4, 3)
    assert torch.autograd.gradcheck(lambda projection, x: project_time(projection, x, valid), given)
