"""The table of runs: its runs can be started, finished ones are skipped, and stopped ones continue.

The recipe is a stand-in: a shell that starts a program, as the recipes of egs do; the shell ends at once on SIGTERM,
and the program saves first.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from espnet_diverse.runs.config import merge

EGS = Path(__file__).resolve().parents[2] / "egs"
RUNS = yaml.safe_load((EGS / "reproduce.yaml").read_text(encoding="utf-8"))
AGAIN = "; the same command continues from there"
RUN_SH = """#!/usr/bin/env bash
set -euo pipefail
trap true EXIT
PYTHON program "$@"
"""
PROGRAM = """
import json, os, signal, sys, time
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with open("calls", "a") as file:
    print(json.dumps(given), file=file)
step = "compare" if "--stage" in given and "--score_options" in given else "train"
step = "prepare" if "--stop_stage" in given else step
saved = os.path.join("exp", given["--tag"], "saved_" + step)

def note(*words):
    with open("notes", "a") as file:
        print(given["--tag"], *words, file=file)

def stop(number, _):
    note(step, signal.Signals(number).name)
    time.sleep(1)
    open(saved, "w").close()
    note(step, "saved")
    sys.exit(75)

signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
if "broken" in given["--tag"]:
    sys.exit("it breaks")
os.makedirs(os.path.dirname(saved), exist_ok=True)
note(step, "continues" if os.path.exists(saved) else "begins")
ends = time.monotonic() + (0 if os.path.exists(saved) else json.loads(os.environ["TAKES"]).get(step, 0))
while time.monotonic() < ends:
    time.sleep(0.05)
decode = os.path.splitext(os.path.basename(given.get("--decode_config", "decode")))[0]
for name in given["--test_sets"].split() if step != "prepare" else []:
    folder = os.path.join("exp", given["--tag"], decode, name)
    os.makedirs(folder, exist_ok=True)
    open(os.path.join(folder, "text"), "w").close()
    overall = {"score": 30 + int(given["--seed"]) + 5 * ("new" in given["--tag"])}
    if step == "compare":
        overall["baseline"] = {"p_value": 0.01}
    with open(os.path.join(folder, "perplexity.json"), "w") as file:
        json.dump({"perplexity": 20.5, "word_perplexity": 205.125}, file)
    with open(os.path.join(folder, "score.json"), "w") as file:
        json.dump({"metrics": {"bleu": {"overall": overall, "averages": {"AVG": {"score": 1.0}}}}}, file)
sys.exit(2)  # some utterances were skipped
"""
EXPERIMENT = {
    **{"recipe": "some/mt1", "corpus": "texts", "config": "model/x,{},conf/y.yaml", "metric": "bleu"},
    **{"sets": ["dev", "test"], "baseline": "old", "seeds": [0, 1]},
    "runs": {"old": {"fragments": "a"}, "new": {"fragments": "b", "set": ["k=1"], "expected": "more"}},
}


class Walk:
    """A copy of reproduce.py beside the stand-in, and its calls."""

    def __init__(self, folder: Path):
        self.folder, self.recipe, self.results = folder, folder / "some" / "mt1", folder / "reproduce.tsv"
        self.recipe.mkdir(parents=True)
        for name in ("reproduce.py",):
            shutil.copy(EGS / name, folder)
        (self.recipe / "run.sh").write_text(RUN_SH.replace("PYTHON", sys.executable))
        (self.recipe / "run.sh").chmod(0o755)
        (self.recipe / "program").write_text(PROGRAM)

    def start(self, *options: str, takes: dict[str, float] | None = None, **changes) -> subprocess.Popen:
        """Start it: `takes` has the seconds of each step, `changes` replace keys of the experiment."""
        (self.folder / "reproduce.yaml").write_text(yaml.safe_dump({"mine": EXPERIMENT | changes}, sort_keys=False))
        environment = {**os.environ, "TAKES": json.dumps(takes or {})}
        command = [sys.executable, str(self.folder / "reproduce.py"), *options]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env=environment, text=True, **pipes)

    def __call__(self, *options: str, **settings) -> subprocess.CompletedProcess:
        process = self.start(*options, **settings)
        out, err = process.communicate(timeout=100)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def run(self, *options: str, **settings) -> subprocess.CompletedProcess:
        return self("run", "--corpus", "texts=/the texts", *options, **settings)

    def calls(self) -> list[dict]:
        return [json.loads(line) for line in (self.recipe / "calls").read_text().splitlines()]

    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.results.read_text().splitlines()[1:]]

    def notes(self) -> list[str]:
        notes = self.recipe / "notes"
        return notes.read_text().replace("mine_", "").replace("_seed0", "").splitlines() if notes.is_file() else []

    def wait_for(self, *notes: str) -> None:
        ends = time.monotonic() + 60
        while not set(notes) <= set(self.notes()):
            assert time.monotonic() < ends, self.notes()
            time.sleep(0.05)


@pytest.fixture
def walk(tmp_path):
    return Walk(tmp_path / "my egs")


def test_all_runs_of_a_seed_come_before_the_next_seed_and_are_done_once(walk):
    result = walk.run()
    assert (result.returncode, result.stderr) == (0, "")
    trained = [call for call in walk.calls() if not {"--stop_stage", "--stage"} & call.keys()]
    assert [call["--tag"] for call in trained] == [
        f"mine_{name}_seed{seed}" for seed in (0, 1) for name in ("old", "new")
    ]
    assert trained[1] == {
        **{"--corpus_dir": "/the texts", "--data_dir": "data/mine", "--tag": "mine_new_seed0", "--seed": "0"},
        **{"--config": "model/x,b,conf/y.yaml", "--set": "k=1", "--test_sets": "dev test", "--metric": "bleu"},
    }
    assert "mine/new/0: dev 35.00, test 35.00 (expected: more)" in result.stdout
    before = len(walk.calls())
    assert walk.run().stdout == "0 runs done, 0 left\n" and len(walk.calls()) == before
    assert [row[:7] for row in walk.rows()[:4]] == [
        ["mine", "old", "0", "dev", "bleu", "30.00", ""],
        ["mine", "old", "0", "test", "bleu", "30.00", ""],
        ["mine", "new", "0", "dev", "bleu", "35.00", "0.010"],
        ["mine", "new", "0", "test", "bleu", "35.00", "0.010"],
    ]
    table = walk("table").stdout.splitlines()
    assert table[0] == "| mine | dev | test | seeds |" and table[3] == "| new | 35.5 ± 0.7 | 35.5 ± 0.7 | 2 |"
    assert {line.split()[0] for line in walk("list").stdout.splitlines()} == {"done"}


def test_a_row_of_the_score_a_generated_corpus_and_a_prepared_one(walk):
    assert walk("run", "--only", "mine/old/1", corpus="synthetic", row="AVG").returncode == 0
    assert walk.calls()[-1]["--corpus"] == "synthetic"
    assert walk.rows()[0][5] == "1.00"
    assert walk.run("--only", "mine/old/0", "--jobs", "2", prepared=True).returncode == 0
    last = walk.calls()[-1]
    assert (last["--data_dir"], last["--stage"]) == ("/the texts", "tokens")


def test_searches_and_weights_to_begin_with(walk):
    runs = {"old": {"fragments": "a"}, "new": {"fragments": "b", "init_param": "exp/start_seed{seed}/x.pth"}}
    assert walk.run(decode_config="conf/decode_real.yaml", runs=runs, seeds=[0]).returncode == 0
    assert {call["--decode_config"] for call in walk.calls()} == {"conf/decode_real.yaml"}
    assert walk.calls()[-1]["--score_options"] == " --baseline exp/mine_old_seed0/decode_real/test/text"
    begun = {call["--tag"]: call.get("--init_param") for call in walk.calls()}
    assert begun == {"mine_old_seed0": None, "mine_new_seed0": "exp/start_seed0/x.pth"}


def test_language_models_have_their_perplexity_and_no_scoring(walk):
    assert walk.run(metric="word_perplexity", seeds=[0]).returncode == 0
    assert not any("--metric" in call for call in walk.calls())
    assert walk.rows()[1][:7] == ["mine", "old", "0", "test", "word_perplexity", "205.12", ""]


@pytest.mark.parametrize("step", ["prepare", "train", "compare"])
def test_nothing_starts_after_the_time_limit_and_begun_runs_resume(walk, step):
    minutes = "0.1" if step == "compare" else "0.05"  # two runs are trained and scored before the comparison
    result = walk.run("--minutes", minutes, takes={step: 60}, seeds=[0], baseline="old")
    left = 1 if step == "compare" else 2
    assert (result.returncode, result.stdout.splitlines()[-1]) == (75, f"{2 - left} runs done, {left} left{AGAIN}")
    run = "new" if step == "compare" else "old"
    assert walk.notes()[-3:] == [f"{run} {step} begins", f"{run} {step} SIGTERM", f"{run} {step} saved"]
    assert len(walk.rows() if walk.results.is_file() else []) == 2 * (2 - left)
    assert walk.run(seeds=[0]).returncode == 0
    assert f"{run} {step} continues" in walk.notes() and len(walk.rows()) == 4


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_a_signal_is_forwarded_and_waits_for_the_save(walk, number, code):
    process = walk.start("run", "--corpus", "texts=/d", "--jobs", "2", takes={"train": 60}, seeds=[0])
    walk.wait_for("old train begins", "new train begins")
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == code and out.endswith(f"0 runs done, 2 left{AGAIN}\n")
    said = [signal.Signals(number).name, "saved"]
    assert sorted(walk.notes()[4:]) == sorted(f"{run} train {what}" for run in ("new", "old") for what in said)
    assert walk.run("--jobs", "2", seeds=[0]).returncode == 0 and "old train continues" in walk.notes()


def test_a_program_that_was_stopped_from_elsewhere_is_left_for_another_call(walk):
    stopping = PROGRAM.replace("ends =", "os.kill(os.getpid(), signal.SIGTERM)\nends =")
    (walk.recipe / "program").write_text(stopping)
    result = walk.run("--only", "*/old/0")
    assert result.returncode == 75 and result.stdout.endswith(f"0 runs done, 1 left{AGAIN}\n")


def test_a_program_that_does_not_stop_is_killed(walk):
    script = walk.folder / "reproduce.py"
    script.write_text(script.read_text().replace("Programs()", "Programs(grace=1.0)"))
    (walk.recipe / "program").write_text(PROGRAM.replace("signal.SIGTERM, stop", "signal.SIGTERM, signal.SIG_IGN"))
    assert walk.run("--minutes", "0.05", takes={"prepare": 60}).returncode == 75
    assert walk.notes() == ["old prepare begins"]


def test_a_run_that_fails_is_named_with_its_log_and_does_not_stop_the_others(walk):
    result = walk.run(runs={"broken": {"fragments": "a"}, "old": {"fragments": "a"}}, seeds=[0])
    assert result.returncode == 1 and "1 runs done, 1 left" in result.stdout
    name, _, log = result.stderr.strip().partition(" failed; its log is ")
    assert name == "error: mine/broken/0" and Path(log).read_text() == "it breaks\n"


def test_scores_that_cannot_be_read_fail_their_run_alone(walk):
    result = walk.run(row="AVERAGE", seeds=[0], runs={"old": {"fragments": "a"}})
    assert result.returncode == 1 and "mine/old/0: KeyError: 'AVERAGE'" in result.stderr
    assert "error: mine/old/0 failed" in result.stderr and not walk.results.exists()


@pytest.mark.parametrize(
    ("options", "changes", "text"),
    [
        (["run"], {}, "error: mine/old/0 needs a corpus; give --corpus texts=DIR, or leave it out by --only"),
        (["run", "--only", "his/*"], {}, "matches --only 'his/*'; `list` shows all"),
        (["run", "--corpus", "texts"], {}, "error: --corpus texts is not NAME=DIR"),
        (["run", "--corpus", "texts=/d", "--jobs", "0"], {}, "error: --jobs 0 is no number of runs; give 1 or more"),
        (["list", "--table", "no.yaml"], {}, "error: no.yaml: No such file or directory"),
        (["list"], {"baseline": "odl"}, "reproduce.yaml: mine has no run 'odl', which is its baseline"),
        (["list"], {"recipe": "some/mt2"}, "reproduce.yaml: mine has the recipe some/mt2, and "),
        (["list"], {"seed": 1}, "reproduce.yaml: mine has an unknown key 'seed'; known: baseline config corpus"),
        (["list"], {"runs": {"a": {"fragment": "x"}}}, "mine/a has an unknown key 'fragment'; known: expected"),
    ],
)
def test_invalid_options_and_tables_are_refused_in_one_line(walk, options, changes, text):
    result = walk(*options, **changes)
    assert result.returncode == 1 and text in result.stderr and result.stderr.count("\n") == 1


TITLES = "experiment\trun\tseed\tset\tmetric\tscore\tp\tcommit\tprocessor\n"
ROW = "mine\told\t0\tdev\tbleu\t29.00\t\tabc\tCPU"


def test_a_run_with_scores_of_some_sets_is_made_again(walk):
    walk.results.write_text(f"{TITLES}{ROW}\n")
    assert walk.run(seeds=[0]).returncode == 0
    assert sorted((row[1], row[3], row[5]) for row in walk.rows()) == [
        *(("new", "dev", "35.00"), ("new", "test", "35.00")),
        *(("old", "dev", "30.00"), ("old", "test", "30.00")),
    ]


@pytest.mark.parametrize("row", ["mine\told\t0\tdev", ROW.replace("29.00", "-"), f"{ROW}\tmore"])
def test_a_wrong_row_of_the_results_is_named(walk, row):
    walk.results.write_text(f"{TITLES}{row}\n{ROW}\n")
    result = walk("table")
    assert result.returncode == 1 and "reproduce.tsv:2: not a row of " in result.stderr


def test_scores_of_runs_that_the_table_lacks_are_said(walk):
    walk.results.write_text(f"{TITLES}{ROW}\n{ROW.replace('old', 'former')}\n")
    result = walk("table")
    assert result.returncode == 0 and "reproduce.tsv has scores of mine/former/0, which " in result.stderr
    assert "| old | 29.0 |  | 1 |" in result.stdout


@pytest.mark.parametrize("experiment", RUNS)
def test_the_configurations_of_the_table_merge(experiment, monkeypatch):
    shared = RUNS[experiment]
    monkeypatch.chdir(EGS / shared["recipe"])
    assert shared["baseline"] in shared["runs"]
    for settings in shared["runs"].values():
        merged = merge(shared["config"].format(settings["fragments"]).split(","), settings.get("set", []))
        net = next((name for name in ("lm", "classifier") if name in merged), "encoder")
        default = "cls" if net == "classifier" else net  # part of the name of its fragment, for softmax by default
        core = merged[f"{net}_conf"].get("attention", {}).get("core", default)
        assert core in settings["fragments"] or f"{net}_conf.attention.core={core}" in settings["set"]


def test_joint_8_has_eight_heads_wherever_joint_4_has_four(monkeypatch):
    for shared in (shared for shared in RUNS.values() if "joint_8" in shared["runs"]):
        monkeypatch.chdir(EGS / shared["recipe"])
        heads = {}
        for name in ("joint_4", "joint_8"):
            settings = shared["runs"][name]
            merged = merge(shared["config"].format(settings["fragments"]).split(","), settings.get("set", []))
            heads[name] = [merged[net]["attention_heads"] for net in ("encoder_conf", "decoder_conf")]
        assert heads == {"joint_4": [4, 4], "joint_8": [8, 8]}


def test_no_score_is_kept_twice():
    rows = (EGS / "reproduce.tsv").read_text(encoding="utf-8").splitlines()
    keys = ["\t".join(row.split("\t")[:5]) for row in rows]
    assert len(keys) == len(set(keys))
