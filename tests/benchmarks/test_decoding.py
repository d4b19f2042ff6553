"""The benchmark of searches, as a user runs it at a tiny size: a complete table; times are not judged."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "decoding.py"


def benchmark(*options):
    command = [sys.executable, SCRIPT, *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_table_is_complete_and_the_searches_agree():
    size = ["--config", "model/tiny", "--characters", 60, "--seconds", 1, 2, "--batches", 1, 3, "--repeats", 1]
    result = benchmark(*size, "--utterances", 3, "--espnet_utterances", 2)
    assert result.returncode == 0, result.stderr[-2000:]
    lines = [line.strip("|").split(" | ") for line in result.stdout.splitlines() if line.startswith("| ")]
    assert [cell.strip() for cell in lines[0]][:4] == ["utterances", "ESPnet RTF", "single", "batch 3"]
    assert [line[0].strip() for line in lines[1:]] == ["2x1/32/64, 1 s", "2x1/32/64, 2 s"]
    for line in lines[1:]:
        assert float(line[1]) > 0 and all(cell.endswith(" x)") for cell in line[2:4])
        assert line[4] == "4/4" and float(line[5]) < 1e-4


def test_a_trained_model_needs_data():
    result = benchmark("--model_dir", "exp")
    assert result.returncode == 2
    assert "--model_dir and --data_dir go together" in result.stderr.splitlines()[-1]
