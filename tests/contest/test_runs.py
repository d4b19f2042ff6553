"""Runs as commands: of recipes and of data directories."""

import dataclasses
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from espnet_diverse.bin.plan_steps import make_step
from espnet_diverse.contest.data_runs import DataRun
from espnet_diverse.contest.runs import RecipeRun, read_runs
from espnet_diverse.errors import ConfigError

SHARED = {"config": "model/tiny,{}", "metric": "bleu", "sets": ["dev", "test"], "baseline": "softmax"}
OF_DATA = {
    **SHARED,
    **{"task": "mt", "train": "train", "valid": "dev", "tokens_dir": None, "token_type": "bpe", "vocab_size": 500},
    **{"average": ("valid.acc", 3), "nj": 2, "ngpu": 0, "cluster": "", "decode_config": "decode/joint"},
}
SETTINGS = {"fragments": "attention/sdma", "set": ["optim_conf.lr=0.001"]}


def data_run(folder, **changes):
    return DataRun("mine", {**OF_DATA, **changes}, "sdma", 3, SETTINGS, Path("my data"), folder)


def plan(command):
    """The steps of the plan of a command, which all parse."""
    assert command[:4] == [sys.executable, "-m", "espnet_diverse", "plan"]
    lines = [line.split("\t") for line in Path(command[4]).read_text().splitlines()]
    steps = [make_step(stage, shlex.split(words)) for stage, words in lines]
    return [(step.stage, step.argv[1:]) for step in steps]


def value(words, option):
    return words[words.index(option) + 1]


def test_the_plan_of_a_data_directory_prepares_once_for_all_seeds(tmp_path):
    steps = plan(data_run(tmp_path).preparation())
    assert [words[0] for _, words in steps] == ["tokens", "stats"]
    tokens, stats = (words for _, words in steps)
    assert tokens[1:4] == ["--text", "my data/train/text", "my data/train/src_text"]
    assert (value(tokens, "--type"), value(tokens, "--vocab_size")) == ("bpe", "500")
    assert value(stats, "--output_dir") == str(tmp_path / "stats" / "sdma")
    assert value(stats, "--config") == "model/tiny,attention/sdma"
    assert not any("seed" in word for word in stats)


def test_the_plan_of_a_data_directory_trains_decodes_and_scores(tmp_path):
    run = data_run(tmp_path, score_options="--tokenize 13a --samples 200", ngpu=1, cluster="local")
    steps = plan(run.command())
    assert [words[0] for _, words in steps] == ["train", "average", "decode", "score", "decode", "score"]
    train, average, decode, score = (words for _, words in steps[:4])
    assert value(train, "--stats_dir") == str(tmp_path / "stats" / "sdma")
    assert [each for option, each in zip(train, train[1:], strict=False) if option == "--set"] == [
        *("optim_conf.lr=0.001", "seed=3")
    ]
    assert (value(train, "--task"), value(train, "--ngpu"), value(average, "--number")) == ("mt", "1", "3")
    assert value(decode, "--data_dir") == "my data/dev"
    assert (value(decode, "--device"), value(decode, "--cluster")) == ("cuda", "local")
    assert value(decode, "--output_dir") == str(run.decoded("sdma", "dev")) == str(run.folder / "joint" / "dev")
    assert score[-4:] == ["--tokenize", "13a", "--samples", "200"]


def test_a_vocabulary_that_is_there_is_not_made(tmp_path):
    steps = plan(data_run(tmp_path, tokens_dir=Path("my tokens")).preparation())
    assert [words[0] for _, words in steps] == ["stats"] and value(steps[0][1], "--tokens_dir") == "my tokens"


def test_language_models_have_their_perplexity_computed(tmp_path):
    steps = plan(data_run(tmp_path, task="lm", metric="word_perplexity").command())
    assert [words[0] for _, words in steps] == ["train", "average", "perplexity", "perplexity"]


@pytest.mark.parametrize(("pairs", "texts"), [(False, ["text"]), (True, ["text", "src_text"])])
def test_classifiers_classify_and_their_vocabulary_has_both_texts_of_pairs(tmp_path, pairs, texts):
    run = data_run(tmp_path, task="cls", metric="accuracy", pairs=pairs)
    assert [words[0] for _, words in plan(run.command())] == ["train", "average", "classify", "classify"]
    tokens = plan(run.preparation())[0][1]
    assert tokens[2 : tokens.index("--output_dir")] == [f"my data/train/{name}" for name in texts]


def test_a_trial_trains_two_short_epochs_in_a_folder_of_its_own(tmp_path):
    command, folder = data_run(tmp_path).trial(7)
    step = make_step("train", ["espnet-diverse", *command[3:]])
    assert step.argv[1] == "train" and value(step.argv, "--output_dir") == str(folder) == str(tmp_path / "trials/sdma")
    assert {"max_epoch=2", "num_iters_per_epoch=7"} <= set(command)


def recipe_run(folder, name="sdma", **changes):
    return RecipeRun("mine", {**SHARED, **changes}, name, 3, SETTINGS, folder, ["--corpus", "synthetic"], ["--nj", "2"])


def test_a_run_of_a_recipe_is_a_call_of_it(tmp_path):
    assert recipe_run(tmp_path, decode_config="decode/joint", options=["--vocab_size", "90"]).command() == [
        *("./run.sh", "--corpus", "synthetic", "--tag", "mine_sdma_seed3", "--seed", "3"),
        *("--config", "model/tiny,attention/sdma", "--set", "optim_conf.lr=0.001", "--test_sets", "dev test"),
        *("--vocab_size", "90", "--decode_config", "decode/joint", "--metric", "bleu", "--nj", "2"),
    ]
    run = recipe_run(tmp_path, nj=4, ngpu=0, cluster="")
    assert run.command()[-6:] == ["--nj", "4", "--ngpu", "0", "--nj", "2"]
    command, folder = recipe_run(tmp_path).trial(7)
    assert command[-2:] == ["--stop_stage", "train"] and folder == tmp_path / "exp" / "mine_sdma_trial"
    assert value(command, "--tag") == folder.name
    assert recipe_run(tmp_path).preparation()[-2:] == ["--stop_stage", "tokens"]


@pytest.mark.parametrize("kind", [recipe_run, data_run])
def test_of_the_path_of_weights_only_the_seed_is_replaced(tmp_path, kind):
    run = dataclasses.replace(kind(tmp_path), settings={**SETTINGS, "init_param": "exp/{method}_{seed}/a.pth"})
    assert value(run.trial(7)[0], "--init_param") == "exp/{method}_3/a.pth"


def test_without_a_search_it_matches_the_command_with_a_norm_of_length_for_text(tmp_path):
    shared = {key: value for key, value in OF_DATA.items() if key != "decode_config"}
    for task, norm in (("mt", ["--length_penalty", "1.0"]), ("asr", [])):
        run = DataRun("mine", {**shared, "task": task}, "sdma", 3, SETTINGS, Path("data"), tmp_path)
        decode = plan(run.command())[2][1]
        assert decode[decode.index("cpu") + 1 :] == [*norm, "--nj", "2"]
        assert value(decode, "--output_dir") == str(run.folder / "decode" / "dev")


@pytest.mark.parametrize(
    ("source", "options", "folder"),
    [
        (["--corpus", "synthetic"], [], "data/synthetic"),
        (["--corpus_dir", "/corpus"], [], "data"),
        ([], ["--data_dir", "data/8k"], "data/8k"),
        ([], ["--data_dir", "/elsewhere"], "/elsewhere"),
    ],
)
def test_the_data_of_a_recipe_are_where_it_puts_them(tmp_path, source, options, folder):
    run = RecipeRun("mine", SHARED, "sdma", 3, SETTINGS, tmp_path, source, options)
    assert run.data("dev") == tmp_path / folder / "dev"


def test_the_folder_of_hypotheses_has_the_name_that_a_recipe_gives_it(tmp_path):
    run = recipe_run(tmp_path, decode_config="conf/decode_0.5,beam.yaml")
    assert run.decoded("sdma", "dev") == run.folder / "decode_0.5_beam" / "dev"


def test_the_baseline_is_compared_with_only_where_it_was_decoded(tmp_path):
    run = recipe_run(tmp_path)
    assert run.comparisons() == []
    text = run.decoded("softmax", "test") / "text"
    text.parent.mkdir(parents=True)
    text.touch()
    (words,) = run.comparisons()
    assert value(words, "--score_options").strip() == "--baseline exp/mine_softmax_seed3/decode/test/text"
    assert recipe_run(tmp_path, "softmax").comparisons() == data_run(tmp_path).comparisons() == []


@pytest.fixture
def table(tmp_path):
    """table(settings of the experiment) -> the runs of a table with two methods of a recipe."""
    (tmp_path / "a" / "mt1").mkdir(parents=True)
    (tmp_path / "a" / "mt1" / "run.sh").touch()

    def read(options=(), **changes):
        runs = {"softmax": {"fragments": "x"}, "sdma": {"fragments": "y", "seeds": [0]}}
        shared = {**SHARED, "recipe": "a/mt1", "corpus": "texts", "seeds": [1, 0], "runs": runs}
        (tmp_path / "table.yaml").write_text(yaml.safe_dump({"mine": {**shared, **changes}}, sort_keys=False))
        return read_runs(tmp_path / "table.yaml", tmp_path, {"texts": "/t"}, options)

    return read


def test_a_table_of_runs_has_all_runs_of_a_seed_together(table):
    runs = table(["--ngpu", "1"])
    assert [run.label for run in runs] == ["mine/softmax/0", "mine/sdma/0", "mine/softmax/1"]
    assert runs[0].command()[-2:] == ["--ngpu", "1"]


@pytest.mark.parametrize(
    ("changes", "source"),
    [
        ({}, ["--corpus_dir", "/t", "--data_dir", "data/mine"]),
        ({"prepared": True}, ["--data_dir", "/t", "--stage", "tokens"]),
        ({"corpus": "synthetic"}, ["--corpus", "synthetic", "--data_dir", "data/mine"]),
    ],
)
def test_the_data_of_a_table_match_a_corpus_prepared_or_generated(table, changes, source):
    assert table(**changes)[0].command()[1:5] == source


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"baseline": "sma"}, "mine has no run 'sma', which is its baseline"),
        ({"runs": {"softmax": {"set": []}}}, "mine/softmax has no fragments; needed: fragments"),
        ({"recipe": "a/mt2"}, "table.yaml: mine has the recipe a/mt2, and .* no such recipe"),
    ],
)
def test_a_wrong_table_is_refused(table, changes, text):
    with pytest.raises(ConfigError, match=text):
        table(**changes)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "table.yaml is empty; give a mapping"),
        ("mine: [", "table.yaml:1: not valid YAML"),
        ("mine: 3", "table.yaml: mine is a int; give a mapping"),
        ("mine: {recipe: a/mt1}", "table.yaml: mine has no corpus; needed: recipe corpus config metric sets baseline"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(tmp_path, content, text):
    path = tmp_path / "table.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=re.escape(text)):
        read_runs(path, tmp_path, {})
