"""Settings of a contest: names, one budget for all, and those that it was begun with."""

import dataclasses
from pathlib import Path

import pytest
import yaml
from references.markdown import ROOT

from espnet_diverse.contest.options import Budget
from espnet_diverse.contest.settings import Contest, methods, recipe_config, recipe_default
from espnet_diverse.errors import ConfigError, DataError

SHARED = {
    **{"config": "base.yaml", "metric": "cer", "sets": ["dev", "test"], "decode_config": "decode/joint", "task": "asr"},
    **{"tokens_dir": None, "token_type": "char", "vocab_size": None, "train": "train", "valid": "dev"},
    **{"average_number": 3, "nj": 1, "ngpu": 0, "cluster": ""},
}
FREE = Budget()
BASE = {"max_epoch": 4, "accum_grad": 2, "best_model_criterion": [["valid", "loss", "min"]]}


@pytest.fixture
def contest(tmp_path, monkeypatch):
    """contest(base=..., method=..., settings of Contest) -> a contest of two methods, in the working directory."""
    monkeypatch.chdir(tmp_path)

    def make(base=BASE, method="{}", common=(), budget=FREE, seeds=(0, 1), **changes):
        Path("base.yaml").write_text(yaml.safe_dump(base))
        Path("old.yaml").write_text("{}")
        Path("new.yaml").write_text(method)
        given = methods(["old.yaml", "new.yaml"], None, common)
        return Contest(Path("out/mine"), given, seeds, {**SHARED, **changes}, budget, data_dir=Path("data"))

    return make


def test_methods_have_the_names_of_their_fragments_or_their_own(tmp_path):
    file = tmp_path / "runs.yaml"
    file.write_text("fast:\n  fragments: attention/sma\n  set: [a=2]\n  seeds: [5]\n")
    assert list(methods(["a/alpha_0.5", "a/alpha_0.1.yaml"], None, [])) == ["alpha_0.5", "alpha_0.1"]
    found = methods(["attention/sdma,losses/sdma_text", "plain=attention/softmax"], file, ["a=1"])
    assert found == {
        "sdma_sdma_text": {"fragments": "attention/sdma,losses/sdma_text", "set": ["a=1"]},
        "plain": {"fragments": "attention/softmax", "set": ["a=1"]},
        "fast": {"fragments": "attention/sma", "set": ["a=1", "a=2"], "seeds": [5]},
    }


@pytest.mark.parametrize(
    ("given", "table", "text"),
    [
        (["attention/softmax"], "", "a contest needs two methods or more, the first as the baseline; given: 1"),
        (["a/softmax", "b/softmax"], "", "b/softmax: there is a method 'softmax' already; give NAME=FRAGMENTS with"),
        (["a b=x", "y"], "", "a b=x: 'a b' is no name of a method; give up to 100 letters, digits, and _"),
        (["../=x", "y"], "", "'../' is no name of a method"),
        (["a" * 101 + "=x", "y"], "", "a' is no name of a method"),  # a file has the name, and more
        (["x"], "y: {fragmets: z}", "runs.yaml: y has no fragments; write {fragments: attention/sdma}"),
        (["x"], "y: {fragments: z, seed: 1}", "runs.yaml: y has an unknown key 'seed'; known: expected fragments"),
        (["x"], "y: attention/sma", "runs.yaml: y has no fragments"),
        (["x"], "y: {fragments: z, seeds: 3}", "runs.yaml: y: seeds must be a list of at least 1, but is 3"),
        (["x"], "y: {fragments: z, seeds: [0, 0]}", "y: seeds 0 0: a seed is given twice; give each"),
        (["x"], "y: {fragments: z, seeds: [9999999999]}", "y: seeds must be at least 0 and at most 4293967295, but is"),
        (["x"], "y: {fragments: z, seeds: []}", "y: seeds must be a list of at least 1"),
        (["x"], "y: {fragments: z, set: a=1}", "runs.yaml: y: set must be a list of changes such as"),
        (["x"], "y: {fragments: z, init_param: 1}", "runs.yaml: y: init_param must be a path, but is 1"),
    ],
)
def test_methods_that_cannot_be_are_refused(given, table, text, tmp_path):
    file = tmp_path / "runs.yaml"
    file.write_text(table)
    with pytest.raises(ConfigError) as refused:
        methods(given, file if table else None, [])
    assert text in str(refused.value) and "\n" not in str(refused.value)


def test_all_runs_of_a_seed_come_before_the_next_and_have_one_budget(contest):
    made = contest(common=["optim_conf.lr=1"], budget=Budget(epochs=5, updates=40, patience=2), seeds=(1, 0)).runs()
    assert [run.label for run in made] == ["mine/old/0", "mine/new/0", "mine/old/1", "mine/new/1"]
    changes = ["optim_conf.lr=1", "max_epoch=5", "num_iters_per_epoch=16", "patience=2"]  # two batches an update
    assert all(run.settings["set"] == changes for run in made)
    assert [run.config for run in made[:2]] == ["base.yaml,old.yaml", "base.yaml,new.yaml"]
    assert made[0].shared["average"] == ("valid.loss", 3)
    assert contest(config="{},base.yaml").runs()[0].config == "old.yaml,base.yaml"
    assert contest().runs()[0].settings["set"] == ["max_epoch=4"]
    pair = contest(base={**BASE, "classifier": "self_attentive_pair"}).runs()[0]
    assert pair.shared["pairs"] and not made[0].shared["pairs"]


@pytest.mark.parametrize(("base", "updates"), [({}, 40), ({"num_iters_per_epoch": 20}, None)])
def test_a_method_of_two_passes_gets_half_of_the_updates(contest, base, updates):
    made = contest(
        base={**BASE, **base}, method="model_conf: {consistency: {r_drop: 1}}", budget=Budget(updates=updates)
    )
    old, new = made.runs()[:2]
    assert new.settings["set"] == ["max_epoch=4", "num_iters_per_epoch=10"]
    assert old.settings["set"] == ["max_epoch=4", *(["num_iters_per_epoch=20"] if updates else [])]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"budget": Budget(updates=30)}, "--updates 30 cannot be shared by 4 epochs of equal length; give a multiple"),
        ({"base": {"accum_grad": 1}}, "no budget: the configuration has no max_epoch; give --epochs or --updates"),
        ({"base": {**BASE, "patience": 3}}, "base.yaml:7: patience 3 would end some methods before others; remove it"),
        (
            {"method": "model_conf: {consistency: {r_drop: 1}}"},
            "new.yaml:1: each batch passes twice, which takes half of the updates; give --updates, the number of the",
        ),
        ({"method": "max_epoch: 9"}, "new.yaml:1: method new has max_epoch 9, and old 4; all methods need one budget"),
        ({"method": "batch_bins: 9"}, "new.yaml:1: method new has batch_bins 9, and old None"),
    ],
)
def test_a_budget_that_is_not_one_is_refused(contest, given, text):
    with pytest.raises(ConfigError) as refused:
        contest(**given).runs()
    assert text in str(refused.value)


def test_a_wrong_change_names_its_method(contest):
    first = contest()
    wrong = dataclasses.replace(first, methods=first.methods | {"new": {"fragments": "new.yaml", "set": ["abc"]}})
    with pytest.raises(ConfigError, match="^method new: .*'?abc"):
        wrong.merged()


def test_a_contest_keeps_its_name_when_its_folder_is_renamed(contest):
    contest().keep()
    Path("out/mine").rename("out/yours")
    assert dataclasses.replace(contest(), output_dir=Path("out/yours")).runs()[0].label == "mine/old/0"


def test_a_contest_continues_with_its_own_settings_alone(contest):
    contest().keep()
    contest().keep()
    contest(seeds=(0, 1, 2), sets=["dev", "test", "more"], nj=4).keep()  # more seeds, sets and jobs are no change
    for changed, text in (
        ({"budget": Budget(epochs=5)}, "this contest was begun with another budget.epochs: None -> 5"),
        ({"method": "grad_clip: 2"}, "this contest was begun with another new.grad_clip: not set -> 2"),
        ({"metric": "wer"}, "this contest was begun with another shared.metric: cer -> wer"),
    ):
        with pytest.raises(ConfigError) as refused:
            contest(**changed).keep()
        assert text in str(refused.value) and "give the former value, or another --output_dir" in str(refused.value)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("name: [5]\n", r"name is \[5\], and must be a text"),
        ("settings: 5\n", "settings is 5, and must be a mapping"),
        ("methods: [old]\n", r"methods is \['old'\], and must be a mapping"),
        ("methods: {old: 3}\n", r"methods\.old is 3, and must be a mapping"),
    ],
)
def test_a_record_that_no_contest_has_written_is_refused(contest, record, said):
    Path("out/mine").mkdir(parents=True)
    Path("out/mine/contest.yaml").write_text(record)
    with pytest.raises(ConfigError, match=rf"contest\.yaml: {said}; delete it to begin the contest again"):
        contest().keep()


def test_a_contest_continues_with_the_weights_that_its_runs_began_with_alone(contest):
    plain = contest()

    def begun(path):
        new = {**plain.methods["new"], "init_param": path}
        return dataclasses.replace(plain, methods={**plain.methods, "new": new})

    begun("a.pth").keep()
    begun("a.pth").keep()
    with pytest.raises(ConfigError, match="begun with another new.init_param: a.pth -> b.pth; give the former value"):
        begun("b.pth").keep()
    with pytest.raises(ConfigError, match="begun with another new.init_param: a.pth -> not set"):
        plain.keep()


def test_methods_may_come_later_but_the_baseline_stays(contest, tmp_path):
    first = contest()
    first.keep()
    (tmp_path / "third.yaml").write_text("{}")
    more = methods(["old.yaml", "third.yaml"], None, [])
    Contest(first.output_dir, more, (0,), SHARED, FREE, data_dir=Path("data")).keep()
    kept = yaml.safe_load((first.output_dir / "contest.yaml").read_text())
    assert list(kept["methods"]) == ["old", "new", "third"]
    turned = methods(["new.yaml", "old.yaml"], None, [])
    with pytest.raises(ConfigError, match="another baseline: old -> new"):
        Contest(first.output_dir, turned, (0,), SHARED, FREE, data_dir=Path("data")).keep()


def test_the_configuration_of_a_recipe_has_a_place_for_the_attention(tmp_path):
    recipe = ROOT / "egs" / "multi30k" / "mt1"
    assert recipe_config(recipe, synthetic=True) == "model/mt_tiny,{},conf/demo.yaml"
    assert recipe_config(recipe, synthetic=False) == "model/mt_tiny,{},conf/train.yaml"
    with pytest.raises(ConfigError, match="has no run.sh; give the folder of a recipe"):
        recipe_config(tmp_path, synthetic=True)
    with pytest.raises(ConfigError, match="its configuration names no attention to replace; give --config"):
        recipe_config(ROOT / "egs" / "wikitext103" / "lm1", synthetic=True)


def test_the_defaults_of_a_recipe_are_those_of_its_script(tmp_path):
    recipe = ROOT / "egs" / "mtedx" / "asr1"
    assert recipe_default(recipe, "score_options", synthetic=False) == "--normalise wer"
    assert [recipe_default(recipe, "average_number", synthetic) for synthetic in (True, False)] == ["3", "10"]
    assert recipe_default(ROOT / "egs" / "aishell" / "asr1", "score_options", synthetic=True) == ""
    (tmp_path / "run.sh").write_text("#!/bin/sh\necho 'unknown option' >&2\nexit 1\n")
    (tmp_path / "run.sh").chmod(0o755)
    with pytest.raises(ConfigError, match="--defaults failed .unknown option.; correct the recipe"):
        recipe_default(tmp_path, "config", synthetic=True)


def test_sets_without_classes_or_source_texts_are_refused_before_training(contest):
    for name in ("train", "dev", "test"):
        Path("data", name).mkdir(parents=True)
        for table in ("text", *(("utt2lang",) if name != "test" else ())):
            Path("data", name, table).write_text("u1 a\n")
    contest().check_data()
    with pytest.raises(DataError, match="^data/test/utt2lang: is missing, so there is no accuracy; add the classes"):
        contest(base=BASE | {"classifier_conf": {"by": "lang"}}, task="cls").check_data()
    with pytest.raises(DataError, match="^data/train/src_text: is missing, which the model translates"):
        contest(task="mt").check_data()
