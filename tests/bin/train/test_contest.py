"""The command contest: a tiny one from data to its report, and invalid options.

Commands run in the process of the tests; tests/recipes/test_contest.py has one with processes, a kill and a recipe.
"""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from references.markdown import ROOT

from espnet_diverse.bin.main import main
from espnet_diverse.contest import programs
from espnet_diverse.contest.programs import Ended
from espnet_diverse.contest.scores import read_results
from espnet_diverse.runs.config import merge
from espnet_diverse.scoring.significance import Bootstrap

CONTEST_PAGE = ROOT / "docs" / "contest.md"
SMALL = {
    **{"max_epoch": 1, "batch_type": "unsorted", "batch_size": 6, "num_workers": 0, "optim": "adam"},
    **{"optim_conf": {"lr": 0.001}, "best_model_criterion": [["valid", "acc", "max"]]},
    **{"encoder_conf": {"output_size": 16, "linear_units": 32, "num_blocks": 1}, "frontend_conf": {"n_mels": 20}},
    "decoder_conf": {"linear_units": 32},
}


@pytest.fixture
def here(tiny_run, tmp_path, monkeypatch):
    """A folder with data, a configuration and the commands that programs got; they run in this process."""
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    for name, source in (("train", tiny_run.train_dir), ("dev", tiny_run.valid_dir), ("test", tiny_run.test_dir)):
        Path("data", name).symlink_to(source)
    Path("small.yaml").write_text(yaml.safe_dump(SMALL))
    Path("typo.yaml").write_text("encoder_conf:\n  output_sise: 16\n")
    calls: list[list[str]] = []

    def run_here(self, command, folder, log):
        assert command[1:3] == ["-m", "espnet_diverse"] and folder == tmp_path
        calls.append(command[3:])
        return Ended(main(command[3:]), seconds=30.0, memory=10**9)

    monkeypatch.setattr(programs.Programs, "run", run_here)
    return calls


def contest(*options: str) -> int:
    words = ["contest", "attention/softmax", "attention/sma", "--config", "model/tiny,small.yaml"]
    return main([*words, "--data_dir", "data", "--output_dir", "out/mine", "--set", "optim_conf.lr=0.002", *options])


SEARCH = ["--decode_config", "decode/joint,short.yaml", "--seeds", "0", "1"]


@pytest.mark.recipes
@pytest.mark.slow
def test_a_contest_from_data_to_its_report_and_on_with_another_seed(here, tmp_path, capsys):
    Path("short.yaml").write_text("search: greedy\nmaxlenratio: 0.5\n")
    assert contest(*SEARCH, "--timing", "2", "--analyse", "2") == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert re.search(
        r"^training takes about [\d ms in]+ for 4 runs \(softmax \d+ s, sma \d+ s\); decoding and", said, re.M
    )
    assert re.search(r"^2 methods, 2 seeds, CER on test: .*softmax.*\.$", said, re.M)
    rows = read_results(Path("out/mine/contest.tsv"))
    assert [(row["run"], row["seed"], row["set"]) for row in rows] == [
        (name, seed, data) for seed in "01" for name in ("softmax", "sma") for data in ("dev", "test")
    ]
    scored = json.loads(Path("out/mine/runs/sma_seed1/joint_short/test/score.json").read_text())
    assert float(rows[-1]["score"]) == pytest.approx(scored["metrics"]["cer"]["overall"]["score"], abs=0.006)
    costs = json.loads(Path("out/mine/costs.json").read_text())["methods"]
    assert costs["sma"]["parameters"] > costs["softmax"]["parameters"] and costs["softmax"]["memory"] == 1
    page, markdown = (Path(f"out/mine/contest.{suffix}").read_text() for suffix in ("html", "md"))
    for heading in ("Differences", "Score against costs", "Learning curves", "Redundancy of heads", "Settings"):
        assert f">{heading}</h2>" in page and f"## {heading}\n" in markdown
    pictures = {"forest_dev.png", "forest_test.png", "costs.png", "curves.png", "redundancy.png"}
    assert set(re.findall(r"\(pictures/([^)]+)\)", markdown)) == pictures
    assert pictures <= {path.name for path in Path("out/mine/pictures").iterdir()}
    assert page.count('<img src="data:image/png;base64,') == len(pictures) and "<script" not in page
    here.clear()
    assert contest(*SEARCH, "2", "--timing", "2", "--analyse", "0") == 0
    trained = [words[1] for words in here if words[0] == "plan" and "prepare" not in words[1]]
    assert [Path(path).stem for path in trained] == ["softmax_seed2", "sma_seed2"]  # and no trial, and none again
    here.clear()
    assert contest(*SEARCH, "2", "--only_report") == 0 and here == []
    assert "2 methods, 3 seeds, CER on test" in Path("out/mine/contest.md").read_text()


def test_a_dry_run_trains_nothing(here, capsys):
    assert contest("--dry_run", "--timing", "0") == 0
    assert capsys.readouterr().out == "6 runs, 0 of them done\n" and here == []


def test_a_recipe_gets_the_options_that_both_have_and_its_metric(here, tmp_path):
    (recipe := tmp_path / "wikitext" / "lm1").mkdir(parents=True)
    for name in ("old.yaml", "new.yaml"):
        (recipe / name).write_text("{}")
    (recipe / "run.sh").write_text("#!/bin/sh\n")
    (recipe / "run.sh").chmod(0o755)
    words = ["contest", "old.yaml", "new.yaml", "--recipe", "wikitext/lm1", "--epochs", "1"]
    words += ["--config", "model/lm_tiny,{}", "--recipe_options", "--corpus_dir wikitext", "--average_number", "5"]
    assert main([*words, "--output_dir", "out", "--dry_run", "--timing", "0"]) == 0
    settings = yaml.safe_load(Path("out/contest.yaml").read_text())["settings"]
    options = ["--corpus_dir", str(Path("wikitext").absolute()), "--average_number", "5"]
    assert settings["recipe_options"] == options and settings["shared"]["metric"] == "word_perplexity"
    assert main([*words, "--output_dir", "out", "--dry_run", "--timing", "0", "--nj", "4", "--ngpu", "1"]) == 0


def test_the_errors_of_a_recipe_are_counted_as_it_scores(here, monkeypatch):
    contests = []
    monkeypatch.setattr("espnet_diverse.contest.contest.carry_out", lambda *given: contests.append(given) or 0)
    words = ["contest", "attention/softmax", "attention/sma", "--recipe", str(ROOT / "egs/mtedx/asr1")]
    for options, said in (([], "--normalise wer"), (["--score_options=--count_spaces"], "--count_spaces")):
        assert main([*words, "--only_report", "--output_dir", "out", *options]) == 0
        contest, _, metric, _ = contests.pop()
        assert contest.shared["score_options"] == said
        assert ("punct:no" in metric.signature([""], Bootstrap())) == (said == "--normalise wer")


def test_a_recipe_has_its_own_sets_and_files(here, monkeypatch):
    contests = []
    monkeypatch.setattr("espnet_diverse.contest.contest.carry_out", lambda *given: contests.append(given) or 0)
    Path("site.yaml").write_text("kind: local\n")
    words = ["contest", "attention/softmax", "attention/sma", "--recipe", str(ROOT / "egs/multi30k/mt1")]
    words += ["--decode_config", "conf/decode.yaml", "--cluster", "site.yaml", "--only_report", "--output_dir", "out"]
    assert main(words) == 0
    shared = contests.pop()[0].shared
    assert shared["sets"] == ["dev", "test_2016_flickr", "test_2017_flickr"]
    assert shared["cluster"] == str(Path("site.yaml").absolute())


def test_the_number_of_heads_of_encoder_and_decoder_is_one_fragment(here, capsys):
    command = re.search(r"^espnet-diverse (contest number_of_heads.*)$", CONTEST_PAGE.read_text("utf-8"), re.MULTILINE)
    words = shlex.split(command[1].replace("update/adam_inverse_sqrt_800,mine.yaml", "small.yaml"))
    assert main([*words, "--dry_run", "--timing", "0"]) == 0
    assert capsys.readouterr().out == "12 runs, 0 of them done\n" and here == []
    fragments = [word for word in words if word.startswith("number_of_heads/")]
    assert len(fragments) == 4
    for fragment in fragments:
        merged = merge(["model/small", fragment])
        heads = {merged[part]["attention_heads"] for part in ("encoder_conf", "decoder_conf")}
        assert heads == {int(fragment.rsplit("/", 1)[1])}


def test_there_is_no_report_of_nothing(here, capsys):
    assert contest("--only_report") == 1
    assert capsys.readouterr().out == "no run is done, so there is nothing to report\n"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--recipe x", "give the data: either --data_dir, the folder of data directories, or --recipe"),
        ("--seeds -1", "--seeds must be at least 0 and at most 4293967295, but is -1"),
        ("--seeds 1 1", "--seeds 1 1: a seed is given twice; give each once"),
        ("--test_sets dev tset", "data/tset: is no data directory; name the sets of data"),
        ("wrong=typo.yaml", "method wrong: typo.yaml:2: unknown option 'encoder_conf.output_sise'; did you mean"),
        ("--jobs 0", "jobs must be at least 1, but is 0"),
        ("--average_number 0", "--average_number must be at least 1, but is 0"),
        ("--nj 0", "--nj must be at least 1, but is 0"),
        ("--minutes 0", "minutes must be above 0, but is 0.0"),
        ("--epochs 0", "epochs must be at least 1, but is 0"),
        ("--task cls --metric cer", "--metric cer: is not measured for task cls; leave it out for accuracy"),
        ("--metric accuracy", "--metric accuracy: is not measured for task asr; leave it out for cer"),
        ("--metric blue", "unknown metric 'blue'; choose from cer, wer"),
        ("--score_options '--tokenise 13a'", "--score_options: unknown --tokenise; espnet-diverse score --help lists"),
        ("--score_options '--tokenize 13a'", "--tokenize 13a is for bleu and compound_bleu, and the metrics are cer"),
        ("--recipe_options \\'", "--recipe_options ': No closing quotation; close what is opened"),
        ("--recipe_options=--x", "--recipe_options --x: is for --recipe; leave it out"),
        ("--token_type word", "unknown vocabulary type 'word'; choose one of char"),
        ("--decode_config gone.yaml", "gone.yaml"),
        ("--cluster gone.yaml", "gone.yaml"),
        ("--score_options \\'", "--score_options ': No closing quotation; close what is opened"),
        ("--score_options '--metr wer'", "--score_options: --metric is set by contest itself; give the options of"),
        ("--score_options=--plain", "--score_options: --plain is set by contest itself; give the options of contest"),
        ("--score_options '--samples x'", "--score_options: argument --samples: invalid int value: 'x'"),
    ],
)
def test_invalid_options_are_refused_in_one_line(here, capsys, options, text):
    assert contest(*shlex.split(options)) == 1
    said = capsys.readouterr().err
    assert text in said and said.count("\n") == 1 and here == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--data_dir data", "give the configuration that all methods share, --config model/small,mine.yaml"),
        ("--recipe egs/a/vae1", "its task 'vae' has no contest; known: asr st mt nar lm cls"),
        ("--recipe egs/a/asr1 --vocab_size 3", "--vocab_size is for --data_dir; with --recipe give --recipe_options"),
        ("--recipe egs/a/asr1 --recipe_options=--dry_run", "--recipe_options: --dry_run is set by contest itself"),
        ("--recipe egs/a/asr1", "has no run.sh; give the folder of a recipe, such as egs/aishell/asr1"),
    ],
)
def test_options_that_do_not_fit_data_dir_or_recipe_are_refused(here, capsys, words, text):
    assert main(["contest", "a", "b", "--output_dir", "out", *words.split()]) == 1
    assert text in capsys.readouterr().err


def test_two_calls_do_not_carry_out_the_same_contest(here, capsys):
    from espnet_diverse.data.files.locks import folder_lock

    with folder_lock(Path("out/mine")):
        assert contest("--dry_run") == 1
    assert "out/mine: process " in capsys.readouterr().err
