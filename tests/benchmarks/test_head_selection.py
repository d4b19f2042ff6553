"""The benchmark of head selection at a tiny size: complete tables, and a comparison with what computes the same."""

from pathlib import Path

import torch

from espnet_diverse.attention import build_attention
from espnet_diverse.scope import scope

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "head_selection.py"


def test_the_tables_are_complete(tiny_step, capsys):
    import head_selection

    size = ["--times", "6", "--steps", tiny_step, "--step_time", "12", "--utterances", "3", "--languages", "2"]
    head_selection.main([*size, "--repeats", "2"])
    printed = capsys.readouterr().out
    assert "2 languages a batch; ratios of medians of 2 rounds" in printed
    tables = [line for line in printed.splitlines() if line.startswith("**")]
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    assert [table.split(",")[0].split(":")[0] for table in tables] == ["**One attention module", "**A training step"]
    assert rows[0][1:5] == ["plain ms", "group", "subset", "all heads"]
    assert [row[0] for row in rows] == ["B, T", "3, 6", "B, T", f"{tiny_step}: 3, 12"]
    assert all(float(cell) > 0 for row in rows[1::2] for cell in row[1:])


def test_computing_all_heads_gives_what_computing_the_picked_ones_gives():
    from head_selection import _ComputeAll

    torch.manual_seed(0)
    selection = {"strategy": "subset", "pool": 8, "conditions": {"lang": ["ar", "de"]}}
    attention = build_attention("softmax", 16, 4, selection=selection).double().eval()
    x, mask = torch.randn(3, 5, 16).double(), torch.ones(3, 1, 5, dtype=torch.bool)
    mask[1, :, 3:] = False
    for ids in ([0, 1, 0], [1, 1, 1]):
        with scope({"lang": torch.tensor(ids)}):
            torch.testing.assert_close(_ComputeAll(attention)(x, x, x, mask), attention(x, x, x, mask))
