"""The text recipes from an empty folder to score tables, each with its default attention in the smallest size."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from references.catalogues import write_catalogue

from espnet_diverse.data.kaldi import read_data_dir
from espnet_diverse.data.tables import read_table
from espnet_diverse.runs import checkpoint

SIZE = {
    **{
        f"{part}_conf.{key}": value
        for part in ("encoder", "decoder")
        for key, value in (("num_blocks", 1), ("linear_units", 64))
    },
    "encoder_conf.output_size": 32,
    "frontend_conf.embed_dim": 32,
    "max_epoch": 1,
}


@pytest.fixture
def run_text(recipes):
    """run_text("iwslt14/mt1", size, *options) -> folder of the run, after one epoch on the tiny synthetic corpus."""

    def run(recipe, size, *options):
        folder = recipes / "egs" / recipe
        # An untrained model does not end its sentences by itself.
        (folder / "conf/quick.yaml").write_text("beam_size: 1\nmaxlenratio: 0.5\n")
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        command = [folder / "run.sh", "--corpus", "synthetic", "--corpus_size", "tiny", "--tag", "tiny", "--nj", "1"]
        command += ["--token_type", "char", "--average_number", "1", "--decode_config", "conf/quick.yaml", *options]
        command += [word for key, value in size.items() for word in ("--set", f"{key}={value}")]
        environment |= {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=recipes, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
        assert "ESPnet's is used" not in done.stderr  # every model here has a batched search
        return folder

    return run


def scores(folder, name="test", tag="tiny"):
    return json.loads((folder / f"exp/{tag}/quick/{name}/score.json").read_text())["metrics"]


@pytest.mark.parametrize(
    ("recipe", "test_set", "metrics"),
    [
        pytest.param("iwslt14", "test", ["bleu", "chrf"], marks=pytest.mark.recipes),
        pytest.param("wmt14", "test", ["bleu", "compound_bleu", "chrf"], marks=pytest.mark.recipes),
        pytest.param("wmt17", "test", ["bleu", "chrf"], marks=pytest.mark.recipes),
        pytest.param("multi30k", "test_2016_flickr", ["bleu", "chrf", "ter"], marks=pytest.mark.recipes),
        pytest.param("punctuation", "test", ["wer", "cer"], marks=pytest.mark.recipes),
    ],
)
def test_one_direction(run_text, recipe, test_set, metrics):
    separate = ["--src_token_type", "char"] if recipe in ("iwslt14", "wmt17") else []
    folder = run_text(f"{recipe}/mt1", SIZE, "--test_sets", test_set, *separate)
    reference = read_data_dir(folder / "data/synthetic" / test_set)
    assert reference.is_text
    assert read_table(folder / f"exp/tiny/quick/{test_set}/text", "hypothesis").keys() == reference.text.keys()
    assert list(scores(folder, test_set)) == metrics
    assert (folder / "data/synthetic/src_tokens/tokens.txt").exists() == bool(separate)


@pytest.mark.recipes
def test_memories_on_both_sides(run_text):
    """Training, decoding with the cache of segments, and scores, by the fragments of a memory."""
    sides = ("encoder_conf.memory", "decoder_conf.memory", "decoder_conf.cross_memory")
    segments = {f"{side}.segment": 4 for side in sides}
    fragments = ",".join(["memory/cdt", "memory/decoder_cdt", "memory/cross_cdt"])
    config = f"model/mt_mini,attention/softmax,{fragments},update/adam_inverse_sqrt_800,conf/cpu.yaml"
    folder = run_text("multi30k/mt1", SIZE | segments, "--test_sets", "dev", "--config", config, "--tag", "memories")
    assert list(scores(folder, "dev", "memories")) == ["bleu", "chrf", "ter"]
    texts = read_table(folder / "exp/memories/quick/dev/text", "hypothesis")
    assert texts.keys() == read_data_dir(folder / "data/synthetic/dev").text.keys()
    stats = checkpoint.load(folder / "exp/memories/checkpoint.pth")["reporter"]["stats"][1]
    assert {"aux_memory_nce", "aux_memory_constraint", "memory_diversity"} <= stats["train"].keys()


@pytest.mark.recipes
def test_many_to_one_by_source_language(run_text):
    folder = run_text("tatoeba/mt1", SIZE, "--test_sets", "test", "--prepare_options", "--pairs de-en fr-en zh-en")
    config = yaml.safe_load((folder / "exp/tiny/config.yaml").read_text())
    assert config["encoder_conf"]["attention"]["selection"]["conditions"] == {"lang": ["de", "fr", "zh"]}
    assert "selection" not in config["decoder_conf"]["attention"]
    assert set(scores(folder)["bleu"]["rows"]) == {"de-en", "fr-en", "zh-en"}
    assert "AVG" in scores(folder)["bleu"]["averages"]


@pytest.mark.recipes
def test_fourteen_languages_of_wmt(run_text):
    folder = run_text("tatoeba/mt1", SIZE, "--test_sets", "test", "--dataset", "wmt_languages", "--tag", "wmt")
    config = yaml.safe_load((folder / "exp/wmt/config.yaml").read_text())
    named = config["encoder_conf"]["attention"]["selection"]["conditions"]["lang"]
    assert len(named) == 14 and scores(folder, tag="wmt")["bleu"]["rows"].keys() == {f"{name}-en" for name in named}


@pytest.mark.recipes
def test_one_to_many_of_catalogues(run_text, tmp_path):
    messages = [f"This is message number {number}" for number in range(100)]
    for language in ("de", "zh_CN"):
        path = tmp_path / language / "LC_MESSAGES/tool.mo"
        write_catalogue(path, {text: f"{language} {text[-2:]}" for text in messages})
    config = "model/mt_tiny,attention/softmax,tag/target_language,conf/one_to_many.yaml,conf/demo.yaml"
    source = ["--dataset", "catalogues", "--corpus", "", "--corpus_size", "", "--corpus_dir", str(tmp_path)]
    prepared = "--split_shares 0.2 0.2 --pairs en-de en-zh-CN"
    folder = run_text("tatoeba/mt1", SIZE, *source, "--config", config, "--prepare_options", prepared, "--tag", "en")
    assert set(scores(folder, tag="en")["bleu"]["rows"]) == {"en-de", "en-zh-CN"}


@pytest.mark.recipes
def test_domains(run_text):
    folder = run_text("multidomain/mt1", SIZE, "--test_sets", "test", "--prepare_options", "--case lower")
    domains = ["captions", "news", "tatoeba", "ted"]
    config = yaml.safe_load((folder / "exp/tiny/config.yaml").read_text())
    for part in ("encoder", "decoder"):
        assert config[f"{part}_conf"]["attention"]["selection"]["conditions"] == {"domain": domains}
    assert sorted(scores(folder)["bleu"]["rows"]) == domains


@pytest.mark.recipes
def test_translation_in_one_pass(run_text):
    size = SIZE | {"decoder_conf.flow.latent": 8, "decoder_conf.flow.steps": 1}
    folder = run_text("multi30k/nar1", size, "--test_sets", "dev")
    assert list(scores(folder, "dev")) == ["bleu", "chrf", "ter"]
    texts = read_table(folder / "exp/tiny/quick/dev/text", "hypothesis")
    assert texts.keys() == read_data_dir(folder / "data/synthetic/dev").text.keys()
    stats = checkpoint.load(folder / "exp/tiny/checkpoint.pth")["reporter"]["stats"][1]
    assert {"acc", "acc_posterior", "kl", "nll_length"} <= stats["valid"].keys()


@pytest.mark.recipes
def test_a_variational_autoencoder(run_text):
    size = SIZE | {"decoder_conf.latent.size": 4, "encoder_conf.attention.core": "sdma"}
    folder = run_text("multidomain/vae1", size, "--test_sets", "test", "--prepare_options", "--case lower")
    assert list(scores(folder)) == ["bleu", "chrf"]
    texts = read_data_dir(folder / "data/synthetic/test").text
    assert read_table(folder / "exp/tiny/quick/test/text", "hypothesis").keys() == texts.keys()
    numbers = json.loads((folder / "exp/tiny/quick/latent/test/latent.json").read_text())
    assert numbers["texts"] == len(texts) and numbers["bound"] < 0 < numbers["kl"]
    stats = checkpoint.load(folder / "exp/tiny/checkpoint.pth")["reporter"]["stats"][1]
    assert {"reconstruction", "kl", "bound", "active_units"} <= stats["valid"].keys()
    assert "latent/test" in (folder / "exp/tiny/RESULTS.md").read_text()


@pytest.mark.recipes
def test_language_model(run_text):
    size = {"lm_conf.layer": 1, "lm_conf.att_unit": 32, "lm_conf.unit": 64, "max_epoch": 1}
    folder = run_text("wikitext103/lm1", size, "--test_sets", "test")
    numbers = json.loads((folder / "exp/tiny/quick/test/perplexity.json").read_text())
    assert numbers["texts"] == len(read_data_dir(folder / "data/synthetic/test").text)
    assert 1 < numbers["perplexity"] < numbers["word_perplexity"]


@pytest.mark.recipes
def test_classification(run_text):
    size = {"max_epoch": 1, "num_iters_per_epoch": 2, "classifier_conf.heads": 2}
    few = ["--prepare_options", "--pairs en-de en-fr --train_utterances 16"]
    folder = run_text("sentence/cls1", size, "--test_sets", "test", *few)
    numbers = json.loads((folder / "exp/tiny/quick/test/classification.json").read_text())
    labels = read_table(folder / "exp/tiny/quick/test/label")
    assert labels.keys() == read_data_dir(folder / "data/synthetic/test").text.keys()
    assert set(labels.values()) <= {"de", "fr"} and numbers["texts"] == len(labels)
    assert 0 <= numbers["accuracy"] <= 100 and numbers["dist"] > 0


@pytest.mark.recipes
@pytest.mark.parametrize("dataset", ["snli", "yelp", "age"])
def test_classification_of_other_data(run_text, dataset):
    size = {"max_epoch": 1, "num_iters_per_epoch": 2, "classifier_conf.heads": 2}
    folder = run_text("sentence/cls1", size, "--test_sets", "test", "--dataset", dataset, "--tag", dataset)
    numbers = json.loads((folder / f"exp/{dataset}/quick/test/classification.json").read_text())
    data = read_data_dir(folder / f"data/synthetic_{dataset}/test")
    assert (
        read_table(folder / f"exp/{dataset}/quick/test/label").keys()
        == data.text.keys()
        == data.conditions["utt2domain"].keys()
    )
    assert numbers["f1_by_class"].keys() >= set(data.conditions["utt2domain"].values())
    config = yaml.safe_load((folder / f"exp/{dataset}/config.yaml").read_text())
    assert config["classifier"] == ("self_attentive_pair" if dataset == "snli" else "self_attentive")
    if dataset == "snli":  # the vocabulary has the characters of premises too
        tokens = (folder / "data/synthetic_snli/tokens/tokens.txt").read_text().split()
        assert {*"".join(data.src_text.values()).replace(" ", "")} <= {*tokens}
