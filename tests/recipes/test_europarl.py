"""The Europarl-ST recipes from an empty folder to score tables."""

import json

import pytest


@pytest.mark.recipes
@pytest.mark.parametrize(
    ("recipe", "metric", "options", "rows", "averages"),
    [
        ("asr1", "wer", ["--prepare_options", "--languages it pt"], {"it", "pt"}, {"AVG"}),
        (
            "st1",
            "bleu",
            ["--prepare_options", "--pairs en-de fr-en --zero_shot fr-de", "--score_options", "--zero_shot fr-de"],
            {"en-de", "fr-de", "fr-en"},
            {"AVG", "AVG-T", "AVG-Z"},
        ),
    ],
)
def test_from_nothing_to_scores(recipes, run_tiny, recipe, metric, options, rows, averages):
    done = run_tiny(f"europarl/{recipe}", "--test_sets", "test", *options)
    assert done.returncode == 0, done.stderr[-2000:]
    file = recipes / "egs/europarl" / recipe / "exp/tiny/decode/test/score.json"
    scores = json.loads(file.read_text())["metrics"][metric]
    assert (scores["rows"].keys(), scores["averages"].keys()) == (rows, averages)
