"""The mTEDx recipes from an empty folder to score tables; the translation's encoder is the recognition's."""

import json

import pytest
import yaml

from espnet_diverse.data.tables import read_table


@pytest.fixture(scope="module")
def recognition(run_tiny):
    return run_tiny("mtedx/asr1", "--prepare_options", "--languages ar es it", "--test_sets", "test")


@pytest.mark.recipes
def test_recognition_scores_every_language(recipes, recognition):
    assert recognition.returncode == 0, recognition.stderr[-2000:]
    folder = recipes / "egs/mtedx/asr1"
    config = yaml.safe_load((folder / "exp/tiny/config.yaml").read_text())
    assert config["model_conf"]["conditions"] == {"lang": ["ar", "es", "it"], "tgtlang": ["ar", "es", "it"]}
    for row in ("decode/test ar", "decode/test es", "decode/test it", "decode/test AVG"):
        assert f"|{row}|" in recognition.stdout
    assert (
        read_table(folder / "exp/tiny/decode/test/text").keys()
        == read_table(folder / "data/synthetic/test/text").keys()
    )


@pytest.mark.recipes
def test_translation_starts_from_the_recogniser_and_scores_zero_shot_directions(recipes, recognition, run_tiny):
    assert recognition.returncode == 0, recognition.stderr[-2000:]
    directions = ["--prepare_options", "--pairs es-en --zero_shot it-en", "--score_options", "--zero_shot it-en"]
    encoder = "../asr1/exp/tiny/valid.acc.ave.pth:encoder:encoder"
    translation = run_tiny("mtedx/st1", *directions, "--test_sets", "test", "--init_param", encoder)
    assert translation.returncode == 0, translation.stderr[-2000:]
    run = recipes / "egs/mtedx/st1/exp/tiny"
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["model_conf"]["conditions"] == {"lang": ["es", "it"], "tgtlang": ["en", "it"]}
    assert config["init_param"] == [encoder]
    for row in ("es-en", "it-en", "AVG-T", "AVG-Z"):
        assert f"|decode/test {row}|" in translation.stdout
    assert json.loads((run / "decode/test/score.json").read_text())
