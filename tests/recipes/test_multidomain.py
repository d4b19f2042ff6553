"""The recipes with several domains from an empty folder to score tables."""

import json

import pytest
import yaml

from espnet_diverse.corpora.synthetic import covost2, europarl_st
from espnet_diverse.corpora.synthetic.grammar import LANGUAGES
from espnet_diverse.data.kaldi import read_data_dir

DOMAINS = ["covost2", "europarl", "mtedx"]


@pytest.fixture(scope="module")
def run_domains(recipes, run_tiny):
    """run_domains(recipe, fragment, *options) -> its folder, and the scores of the test set by metric."""

    def run(recipe, fragment, *options):
        folder = recipes / "egs/multidomain" / recipe
        # An untrained model does not end its sentences by itself.
        (folder / "conf/quick.yaml").write_text("beam_size: 1\nmaxlenratio: 0.1\n")
        config = f"model/tiny,attention/softmax,heads/group,{fragment},tag/target_language,conf/demo.yaml"
        options += ("--config", config, "--decode_config", "conf/quick.yaml", "--test_sets", "test")
        done = run_tiny(f"multidomain/{recipe}", *options)
        assert done.returncode == 0, done.stderr[-2000:]
        return folder, json.loads((folder / "exp/tiny/quick/test/score.json").read_text())["metrics"]

    return run


def selection_tasks(folder):
    config = yaml.safe_load((folder / "exp/tiny/config.yaml").read_text())
    return config["encoder_conf"]["attention"]["selection"]["conditions"]


@pytest.mark.recipes
def test_recognition_in_ten_languages(run_domains):
    folder, metrics = run_domains("asr1", "conf/domain.yaml")
    sets = {name: read_data_dir(folder / "data/synthetic" / name) for name in ("train", "dev", "test")}
    for data in sets.values():
        assert set(data.conditions["utt2lang"].values()) == set(LANGUAGES)
    parts = [read_data_dir(folder / "data/synthetic" / domain / "test") for domain in DOMAINS]
    assert sorted(sets["test"].text) == sorted(utterance for part in parts for utterance in part.text)
    rows = metrics["wer"]["rows"].keys()
    assert {f"covost2-{language}" for language in covost2.LANGUAGES} < rows
    assert {f"europarl-{language}" for language in europarl_st.LANGUAGES} < rows
    assert metrics["wer"]["averages"].keys() == {"AVG", *(f"{domain} AVG" for domain in DOMAINS)}
    assert selection_tasks(folder) == {"domain": DOMAINS}


@pytest.mark.recipes
def test_translation_by_language_and_domain(run_domains):
    """A zero-shot direction of mTEDx that another domain trains."""
    options = ["--mtedx_options", "--pairs es-en pt-en --zero_shot it-en", "--covost2_options", "--pairs es-en zh-en"]
    options += ["--europarl_options", "--pairs it-en pt-en"]
    folder, metrics = run_domains("st1", "conf/language_and_domain.yaml", *options)
    assert metrics["bleu"]["rows"].keys() == {
        *("covost2-es-en", "covost2-zh-en", "europarl-it-en", "europarl-pt-en"),
        *("mtedx-es-en", "mtedx-it-en", "mtedx-pt-en"),
    }
    assert metrics["bleu"]["averages"].keys() >= {"AVG-T", "AVG-Z"}
    assert selection_tasks(folder) == {"lang": ["es", "it", "pt", "zh"], "domain": DOMAINS}
