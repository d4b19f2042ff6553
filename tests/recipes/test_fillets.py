"""The recipes of Fish Fillets from an empty folder to score tables, and the weights that official data begin with."""

import json

import pytest
from references.recipes import ROOT, dry_run


@pytest.mark.recipes
@pytest.mark.parametrize(
    ("recipe", "metric", "options", "rows", "averages"),
    [
        ("asr1", "cer", [], {"de", "es"}, {"AVG"}),
        (
            "st1",
            "bleu",
            ["--prepare_options", "--pairs de-en es-fr --zero_shot de-fr", "--score_options", "--zero_shot de-fr"],
            {"de-en", "es-fr", "de-fr"},
            {"AVG", "AVG-T", "AVG-Z"},
        ),
    ],
)
def test_from_nothing_to_scores(recipes, run_tiny, recipe, metric, options, rows, averages):
    done = run_tiny(f"fillets/{recipe}", "--test_sets", "test", *options)
    assert done.returncode == 0, done.stderr[-2000:]
    file = recipes / "egs/fillets" / recipe / "exp/tiny/decode/test/score.json"
    scores = json.loads(file.read_text())["metrics"][metric]
    assert (scores["rows"].keys(), scores["averages"].keys()) == (rows, averages)


@pytest.mark.recipes
@pytest.mark.parametrize("recipe", ["fillets/asr1", "fillets/st1", "own/asr1"])
def test_models_on_features_of_whisper_begin_with_its_weights(recipe, tmp_path):
    folder = ROOT / "egs" / recipe
    given = "--init_param exp/whisper:encoder:frontend.encoder"
    command = [str(folder / "run.sh"), "--stop_stage", "train", "--corpus_dir", str(tmp_path)]
    own = ["--config", "model/whisper_features,attention/softmax,conf/train.yaml"]
    plan = dry_run(folder, command + (own if recipe == "own/asr1" else []), tmp_path)
    assert {line.split("]")[0][1:] for line in plan.splitlines() if given in line} == {"stats", "train"}
    plan = dry_run(folder, [*command, "--config", "model/small,conf/train.yaml"], tmp_path)
    assert "--init_param" not in plan
