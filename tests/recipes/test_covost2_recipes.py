"""The CoVoST 2 recipes from an empty folder to score tables; the translation's encoder is the recognition's."""

import json

import pytest
import yaml


@pytest.mark.recipes
def test_recognition_then_translation(recipes, run_tiny):
    languages = ["--prepare_options", "--languages de en zh", "--test_sets", "test"]
    recognition = run_tiny("covost2/asr1", *languages)
    assert recognition.returncode == 0, recognition.stderr[-2000:]
    run = recipes / "egs/covost2/asr1/exp/tiny"
    metrics = json.loads((run / "decode/test/score.json").read_text())["metrics"]
    assert {metric: set(scores["rows"]) for metric, scores in metrics.items()} == {
        "wer": {"de", "en", "zh"},
        "cer": {"de", "en", "zh"},
    }
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["encoder_conf"]["attention"]["selection"]["conditions"] == {"lang": ["de", "en", "zh"]}

    encoder = "../asr1/exp/tiny/valid.acc.ave.pth:encoder:encoder"
    translation = run_tiny("covost2/st1", *languages, "--init_param", encoder)
    assert translation.returncode == 0, translation.stderr[-2000:]
    run = recipes / "egs/covost2/st1/exp/tiny"
    metrics = json.loads((run / "decode/test/score.json").read_text())["metrics"]
    directions = {"de-en", "en-ar", "en-de", "en-zh", "zh-en"}
    assert {metric: set(scores["rows"]) for metric, scores in metrics.items()} == {
        "bleu": directions,
        "chrf": directions,
    }
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["init_param"] == [encoder]
    assert config["decoder_conf"]["start_tag"]["conditions"] == {"tgtlang": ["ar", "de", "en", "zh"]}
