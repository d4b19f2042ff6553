"""The benchmark of text translation at a tiny size: a complete table; times are not judged."""

import runpy
import sys
from pathlib import Path

import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "translation.py"


def test_the_table_is_complete(tiny_translation, monkeypatch, capsys):
    run, root = tiny_translation, tiny_translation.train_dir.parent
    sizes = ["--batch_tokens", "60", "--tokens", "100", "--repeats", "2", "--threads", str(torch.get_num_threads())]
    folders = {"train_dir": run.train_dir, "tokens_dir": run.tokens_dir, "src_tokens_dir": root / "src_tokens"}
    paths = [word for name, path in folders.items() for word in (f"--{name}", str(path))]
    options = [
        "--config",
        str(root / "mt.yaml"),
        "--stats_dir",
        str(run.stats_dir),
        *paths,
        *sizes,
        "--memory",
        "--use_amp",
    ]
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *options])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows] == ["contestant", "espnet folded", "espnet numel", "ours", "ours, use_amp"]
    for _, batches, tokens, padding, speed, ratio, peak in rows[1:]:
        assert int(batches) > 0 and int(tokens) > 20 and 0 <= float(padding) < 100
        assert float(speed) > 0 and float(ratio) > 0 and int(peak) >= 0
