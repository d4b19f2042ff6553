"""The table of runs: what is in it can be run, and what has been run is skipped; a stand-in is the recipe."""

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

from espnet_diverse.training.config import merge

EGS = Path(__file__).resolve().parents[2] / "egs"
TABLE = yaml.safe_load((EGS / "reproduce.yaml").read_text(encoding="utf-8"))
RECIPE = """#!/usr/bin/env python3
import json, os, sys, time
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with open("calls", "a") as file:
    print(json.dumps(given), file=file)
if "broken" in given["--tag"]:
    sys.exit("it breaks")
for name in given["--test_sets"].split() if given.get("--stop_stage") != "tokens" else []:
    time.sleep(float(os.environ.get("SECONDS_OF_A_RUN", 0)))
    folder = os.path.join("exp", given["--tag"], "decode", name)
    os.makedirs(folder, exist_ok=True)
    open(os.path.join(folder, "text"), "w").close()
    overall = {"score": 30 + int(given["--seed"]) + 5 * ("new" in given["--tag"])}
    if "--baseline" in given.get("--score_options", ""):
        overall["baseline"] = {"p_value": 0.01}
    with open(os.path.join(folder, "perplexity.json"), "w") as file:
        json.dump({"perplexity": 20.5, "word_perplexity": 205.125}, file)
    with open(os.path.join(folder, "score.json"), "w") as file:
        json.dump({"metrics": {"bleu": {"overall": overall, "averages": {"AVG": {"score": 1.0}}}}}, file)
"""
EXPERIMENT = {
    **{"recipe": "some/mt1", "corpus": "texts", "config": "model/x,{},conf/y.yaml", "metric": "bleu"},
    **{"sets": ["dev", "test"], "baseline": "old", "seeds": [0, 1]},
    "runs": {"old": {"fragments": "a"}, "new": {"fragments": "b", "set": ["k=1"], "expected": "more"}},
}


@pytest.fixture
def reproduce(tmp_path):
    """reproduce(action, *options, table={...}) runs a copy of the script beside a recipe that only writes scores."""
    folder = tmp_path / "my egs"
    (folder / "some" / "mt1").mkdir(parents=True)
    for name in ("reproduce.py", "job_pool.py", "run_table.py"):
        shutil.copy(EGS / name, folder)
    run_sh = folder / "some" / "mt1" / "run.sh"
    run_sh.write_text(RECIPE.replace("/usr/bin/env python3", sys.executable))
    run_sh.chmod(0o755)

    def run(*options: str, **changes) -> subprocess.CompletedProcess:
        environment = {**os.environ, **{name: changes.pop(name) for name in list(changes) if name.isupper()}}
        (folder / "reproduce.yaml").write_text(yaml.safe_dump({"mine": EXPERIMENT | changes}, sort_keys=False))
        command = [sys.executable, str(folder / "reproduce.py"), *options]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    run.folder = folder
    return run


def calls(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "some" / "mt1" / "calls").read_text().splitlines()]


def test_all_runs_of_a_seed_come_before_the_next_seed_and_are_done_once(reproduce):
    result = reproduce("run", "--corpus", "texts=/the texts")
    assert (result.returncode, result.stderr) == (0, "")
    trained = [call for call in calls(reproduce.folder) if not {"--stop_stage", "--stage"} & call.keys()]
    tags = [f"mine_{name}_seed{seed}" for seed in (0, 1) for name in ("old", "new")]
    assert [call["--tag"] for call in trained] == tags
    assert trained[1] == {
        **{"--corpus_dir": "/the texts", "--data_dir": "data/mine", "--tag": "mine_new_seed0", "--seed": "0"},
        **{"--config": "model/x,b,conf/y.yaml", "--set": "k=1", "--test_sets": "dev test", "--metric": "bleu"},
    }
    assert "mine/new/0: dev 35.00, test 35.00 (expected: more)" in result.stdout
    before = len(calls(reproduce.folder))
    assert reproduce("run", "--corpus", "texts=/the texts").stdout == "0 runs done, 0 left\n"
    assert len(calls(reproduce.folder)) == before
    rows = [line.split("\t") for line in (reproduce.folder / "reproduce.tsv").read_text().splitlines()]
    assert [row[:7] for row in rows[1:5]] == [
        ["mine", "old", "0", "dev", "bleu", "30.00", ""],
        ["mine", "old", "0", "test", "bleu", "30.00", ""],
        ["mine", "new", "0", "dev", "bleu", "35.00", "0.010"],
        ["mine", "new", "0", "test", "bleu", "35.00", "0.010"],
    ]
    table = reproduce("table").stdout.splitlines()
    assert table[0] == "| mine | dev | test | seeds |" and table[3] == "| new | 35.5 ± 0.7 | 35.5 ± 0.7 | 2 |"
    assert {line.split()[0] for line in reproduce("list").stdout.splitlines()} == {"done"}


@pytest.mark.parametrize("action", ["list", "table"])
def test_a_reader_that_has_gone_ends_the_listing_in_silence(action):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, EGS / "reproduce.py", action]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (result.returncode, result.stderr) == (-signal.SIGPIPE, "")


def test_a_row_of_the_score_a_generated_corpus_and_a_prepared_one(reproduce):
    assert reproduce("run", "--only", "mine/old/1", corpus="synthetic", row="AVG").returncode == 0
    assert calls(reproduce.folder)[-1]["--corpus"] == "synthetic"
    assert (reproduce.folder / "reproduce.tsv").read_text().splitlines()[1].split("\t")[5] == "1.00"
    result = reproduce("run", "--only", "mine/old/0", "--corpus", "texts=/d", "--jobs", "2", prepared=True)
    assert result.returncode == 0, result.stderr
    last = calls(reproduce.folder)[-1]
    assert (last["--data_dir"], last["--stage"]) == ("/d", "tokens")


def test_a_search_of_its_own_has_its_own_folder(reproduce):
    run_sh = reproduce.folder / "some" / "mt1" / "run.sh"
    run_sh.write_text(run_sh.read_text().replace('"decode", name', '"decode_real", name'))
    assert reproduce("run", "--corpus", "texts=/d", decode_config="conf/decode_real.yaml", seeds=[0]).returncode == 0
    assert {call["--decode_config"] for call in calls(reproduce.folder)} == {"conf/decode_real.yaml"}
    last = calls(reproduce.folder)[-1]
    assert last["--score_options"] == " --baseline exp/mine_old_seed0/decode_real/test/text"


def test_language_models_have_their_perplexity_and_no_scoring(reproduce):
    assert reproduce("run", "--corpus", "texts=/d", metric="word_perplexity", seeds=[0]).returncode == 0
    assert not any("--metric" in call for call in calls(reproduce.folder))
    rows = [line.split("\t") for line in (reproduce.folder / "reproduce.tsv").read_text().splitlines()]
    assert rows[2][:7] == ["mine", "old", "0", "test", "word_perplexity", "205.12", ""]


def test_a_run_can_begin_with_the_weights_of_another(reproduce):
    runs = {"old": {"fragments": "a"}, "new": {"fragments": "b", "init_param": "exp/start_seed{seed}/x.pth"}}
    assert reproduce("run", "--corpus", "texts=/d", runs=runs, seeds=[3]).returncode == 0
    begun = {call["--tag"]: call.get("--init_param") for call in calls(reproduce.folder)}
    assert begun == {"mine_old_seed3": None, "mine_new_seed3": "exp/start_seed3/x.pth"}


def test_when_the_time_is_over_it_stops_and_says_what_is_left(reproduce):
    start = time.monotonic()
    options = ("run", "--corpus", "texts=/d", "--minutes", "0.02")
    result = reproduce(*options, SECONDS_OF_A_RUN="60")
    assert result.returncode == 75 and result.stdout.endswith("0 runs done, 4 left\n")
    assert time.monotonic() - start < 50
    assert not (reproduce.folder / "reproduce.tsv").exists()


def test_a_run_that_fails_is_named_with_its_log_and_does_not_stop_the_others(reproduce):
    runs = {"broken": {"fragments": "a"}, "old": {"fragments": "a"}}
    result = reproduce("run", "--corpus", "texts=/d", runs=runs, seeds=[0])
    assert result.returncode == 1 and "1 runs done, 1 left" in result.stdout
    name, _, log = result.stderr.strip().partition(" failed; its log is ")
    assert name == "error: mine/broken/0" and Path(log).read_text() == "it breaks\n"


@pytest.mark.parametrize(
    ("options", "changes", "text"),
    [
        (["run"], {}, "error: mine/old/0 needs a corpus; give --corpus texts=DIR, or leave it out by --only"),
        (["run", "--only", "his/*"], {}, "matches --only 'his/*'; `list` shows all"),
        (["run", "--corpus", "texts"], {}, "error: --corpus texts is not NAME=DIR"),
        (["run", "--corpus", "texts=/d", "--jobs", "0"], {}, "error: --jobs 0 is no number of runs; give 1 or more"),
        (["list"], {"baseline": "odl"}, "reproduce.yaml: mine has no run 'odl', which is its baseline"),
        (["list"], {"recipe": "some/mt2"}, "reproduce.yaml: mine has the recipe some/mt2, and "),
        (["list"], {"seed": 1}, "reproduce.yaml: mine has an unknown key 'seed'; known: baseline config corpus"),
        (["list"], {"runs": {"a": {"fragment": "x"}}}, "mine/a has an unknown key 'fragment'; known: expected"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(reproduce, options, changes, text):
    result = reproduce(*options, **changes)
    assert result.returncode == 1 and text in result.stderr and result.stderr.count("\n") == 1


TITLES = "experiment\trun\tseed\tset\tmetric\tscore\tp\tcommit\tprocessor\n"
ROW = "mine\told\t0\tdev\tbleu\t29.00\t\tabc\tCPU"
DONE = [("old", "dev", "30.00"), ("old", "test", "30.00"), ("new", "dev", "35.00"), ("new", "test", "35.00")]


@pytest.mark.parametrize("half", ["", TITLES, f"{TITLES}{ROW}\n", f"{TITLES}{ROW}", f"{TITLES}{ROW}\nmine\told\t0\tte"])
def test_a_run_that_was_killed_as_it_wrote_its_scores_is_not_done(reproduce, half):
    results = reproduce.folder / "reproduce.tsv"
    results.write_text(half)
    listed = reproduce("list", seeds=[0])
    assert listed.stdout.split()[:2] == ["waiting", "mine/old/0"] and listed.stderr.count("\n") == half.endswith("te")
    assert reproduce("run", "--corpus", "texts=/d", seeds=[0]).returncode == 0
    rows = [line.split("\t") for line in results.read_text().splitlines()]
    assert rows[0] == TITLES.split() and sorted((row[1], row[3], row[5]) for row in rows[1:]) == sorted(DONE)
    assert not list(results.parent.glob(".reproduce*"))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("mine\told\t0\tdev", "reproduce.tsv:2: has 4 cells, not 9; mend or delete the line"),
        (ROW.replace("29.00", "-"), "reproduce.tsv:2: seed '0' or score '-' is no number; mend"),
    ],
)
def test_a_wrong_row_of_the_results_is_named(reproduce, row, said):
    (reproduce.folder / "reproduce.tsv").write_text(f"{TITLES}{row}\n{ROW}\n")
    result = reproduce("table")
    assert result.returncode == 1 and said in result.stderr and result.stderr.count("\n") == 1


def test_scores_of_runs_that_the_table_lacks_are_said(reproduce):
    (reproduce.folder / "reproduce.tsv").write_text(f"{TITLES}{ROW}\n{ROW.replace('old', 'former')}\n")
    result = reproduce("table")
    assert result.returncode == 0 and "reproduce.tsv has scores of mine/former/0, which " in result.stderr
    assert "| old | 29.0 |  | 1 |" in result.stdout


@pytest.mark.parametrize("experiment", TABLE)
def test_the_configurations_of_the_table_merge(experiment, monkeypatch):
    shared = TABLE[experiment]
    monkeypatch.chdir(EGS / shared["recipe"])
    assert shared["baseline"] in shared["runs"]
    for settings in shared["runs"].values():
        merged = merge(shared["config"].format(settings["fragments"]).split(","), settings.get("set", []))
        net = "lm" if "lm" in merged else "encoder"
        core = merged[f"{net}_conf"].get("attention", {}).get("core", net)  # of a language model, softmax by default
        assert core in settings["fragments"] or f"{net}_conf.attention.core={core}" in settings["set"]


def test_joint_8_has_eight_heads_wherever_joint_4_has_four(monkeypatch):
    for shared in (shared for shared in TABLE.values() if "joint_8" in shared["runs"]):
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
