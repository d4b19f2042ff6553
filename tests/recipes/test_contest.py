"""A contest of three attentions with two seeds on the synthetic Aishell corpus, killed while it trains, and resumed.

`make recipes` runs it: six trainings, each in a process of its own.
"""

import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest
from demo.pages import CHROMIUM, page_width

from espnet_diverse.contest.scores import read_results

METHODS = ["attention/softmax", "attention/sma", "attention/window"]


def start(recipes, log):
    words = [*METHODS, "--recipe", "egs/aishell/asr1", "--config", "model/tiny,{},conf/demo.yaml", "--epochs", "1"]
    words += ["--recipe_options", "--corpus synthetic --corpus_size tiny", "--test_sets", "test", "--seeds", "0", "1"]
    words += ["--output_dir", "out/which", "--average_number", "1", "--timing", "1", "--analyse", "2"]
    command = [sys.executable, "-m", "espnet_diverse", "contest", *words]
    return subprocess.Popen(command, cwd=recipes, stdout=log.open("w"), stderr=subprocess.STDOUT)


def wait_for(process, condition):
    ends = time.monotonic() + 900
    while not condition():
        assert process.poll() is None and time.monotonic() < ends
        time.sleep(0.1)


@pytest.mark.recipes
@pytest.mark.timeout(1800)
def test_a_contest_that_is_killed_continues_and_ends_with_its_report(recipes, tmp_path):
    exp, out = recipes / "egs/aishell/asr1/exp", recipes / "out" / "which"
    process = start(recipes, tmp_path / "first")
    second = exp / "which_sma_seed0.log"
    wait_for(process, lambda: second.is_file() and "train epoch 1 of 1" in second.read_text())
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [(row["run"], row["seed"]) for row in read_results(out / "contest.tsv")] == [("softmax", "0")]
    said = (tmp_path / "first").read_text()
    assert "training takes about " in said and said.index("training takes about ") < said.index("which/softmax/0: log")
    done = (exp / "which_softmax_seed0" / "checkpoint.pth").stat()
    trained = (exp / "which_softmax_seed0.log").read_text()

    process = start(recipes, tmp_path / "second")
    assert process.wait(timeout=1500) == 0, (tmp_path / "second").read_text()
    assert (exp / "which_softmax_seed0" / "checkpoint.pth").stat().st_mtime_ns == done.st_mtime_ns
    assert "[train] espnet-diverse train" not in (exp / "which_softmax_seed0.log").read_text()[len(trained) :]
    said = (tmp_path / "second").read_text()
    assert said.startswith("6 runs, 1 of them done\n") and "timing" not in said
    assert "6 runs done, 0 left" in said and "3 methods, 2 seeds, CER on test: " in said
    rows = read_results(out / "contest.tsv")
    assert [(row["run"], row["seed"]) for row in rows] == [
        (name, seed) for seed in "01" for name in ("softmax", "sma", "window")
    ]
    markdown = (out / "contest.md").read_text()
    for named in ("forest_test.png", "costs.png", "curves.png", "redundancy.png", "| window | attention/window |"):
        assert named in markdown
    assert (out / "contest.html").read_text().count("<img ") == 4
    if CHROMIUM is not None and find_spec("playwright"):
        assert page_width(out / "contest.html", 390) == 390
