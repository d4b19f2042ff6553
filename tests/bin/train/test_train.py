"""train: the files that it reads and writes."""

import pytest
import torch
from references.train_command import train

from espnet_diverse.bin.main import main
from espnet_diverse.packing.facts import Facts
from espnet_diverse.packing.pack import pack
from espnet_diverse.runs import checkpoint
from espnet_diverse.text.vocabulary import Vocabulary


def test_inputs_and_outputs_exist_after_the_run(tiny_run, parse):
    paths = ["--stats_dir", str(tiny_run.stats_dir), "--output_dir", str(tiny_run.model_dir)]
    module, args = parse("train", [*tiny_run.config, *tiny_run.data(), *paths])
    assert all(path.exists() for path in module.stage(args).inputs() + module.stage(args).outputs())
    names = {path.name for path in module.stage(args).inputs()}
    assert names >= {"tiny.yaml", "sdma.yaml", "train", "valid", "tokens.txt", "feats_stats.npz"}
    assert {path.name for path in module.stage(args).outputs()} == {"config.yaml", "train.yaml", "checkpoint.pth"}


def test_training_reads_the_models_and_vocabularies_that_it_is_given(tiny_run, parse):
    arguments = [*tiny_run.config, *tiny_run.data(), "--stats_dir", "stats", "--output_dir", "exp", "--task", "st"]
    arguments += ["--src_tokens_dir", "source", "--init_param", "asr/ave.pth:encoder:encoder", "mt/ave.pth:decoder"]
    module, args = parse("train", arguments)
    assert {str(path) for path in module.stage(args).inputs()} >= {"asr/ave.pth", "mt/ave.pth", "source/tokens.txt"}


@pytest.mark.parametrize("kind", ["run", "packed", "key"])
def test_a_run_and_a_packed_model_give_their_weights(tiny_run, tmp_path, kind, monkeypatch):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    model = tiny_run.model_dir if kind != "packed" else pack(tiny_run.model_dir, tmp_path / "model.zip", Facts())
    settings = [f"--set={each}" for each in ("max_epoch=1", "optim=sgd", "optim_conf={lr: 1.0e-9}")]
    paths = ["--stats_dir", str(tiny_run.stats_dir), "--output_dir", str(tmp_path / "exp")]
    key = "--set=init_param=" if kind == "key" else "--init_param="
    given = [f"{key}{model}:encoder:encoder"]
    assert main(["train", *tiny_run.config, *settings, *tiny_run.data(), *paths, *given]) == 0
    name = "encoder.encoders.0.self_attn.linear_q.weight"
    before = checkpoint.load_weights(tiny_run.model_dir / "valid.acc.ave.pth")
    after = checkpoint.load_weights(tmp_path / "exp" / "1epoch.pth")
    torch.testing.assert_close(after[name], before[name])
    assert not torch.allclose(after["ctc.ctc_lo.weight"], before["ctc.ctc_lo.weight"])


@pytest.mark.parametrize("given", ["3", "[3]", "{a: b}"])
def test_initial_parameters_are_names(given, tiny_run, tmp_path, capfd):
    assert train(tiny_run, tmp_path / "exp", f"init_param={given}") == 1
    said = capfd.readouterr().err.splitlines()[-1]
    assert f"error: --set init_param={given}: init_param is " in said and "give a list of models" in said
    assert not (tmp_path / "exp").exists()


def test_a_model_of_the_hub_is_for_fine_tuning(tiny_run, tmp_path, capfd):
    assert train(tiny_run, tmp_path / "exp", "init_param=[hf:owner/name]") == 1
    said = "init_param hf:owner/name: a model of the Hub is not possible here; give a file of weights, or run "
    assert capfd.readouterr().err.endswith(f"error: {said}espnet-diverse fine-tune\n")


def test_weights_are_not_taken_for_a_vocabulary_in_another_order(tiny_run, tmp_path, capfd):
    """As one that `tokens` makes for a model of ESPnet, whose tokens are in the order of its own list."""
    tokens = Vocabulary.load(tiny_run.tokens_dir).tokens
    Vocabulary("char", [*tokens[:2], *tokens[-2:1:-1], tokens[-1]]).save(tmp_path / "tokens")
    weights = f"init_param=[{tiny_run.model_dir}/valid.acc.ave.pth]"
    assert train(tiny_run, tmp_path / "exp", weights, tokens_dir=tmp_path / "tokens") == 1
    said = capfd.readouterr().err.splitlines()[-1]
    assert "decoder.embed.0.weight (of other tokens)" in said and "vocabulary (--tokens_dir)" in said
    assert not [*(tmp_path / "exp").glob("*.pth")]


def test_statistics_of_another_front_end_are_refused_before_anything_is_written(tiny_run, tmp_path, capfd):
    for change in ("frontend_conf.n_mels=30", "frontend_conf.hop_length=80"):
        assert train(tiny_run, tmp_path / "exp", change) == 1
        said = capfd.readouterr().err.splitlines()[-1]
        assert f"{tiny_run.stats_dir}: has statistics of other features: {change.partition('=')[0]}: " in said
    assert not list((tmp_path / "exp").iterdir())


def test_a_file_is_no_directory_of_a_run(tiny_run, tmp_path, capfd):
    (tmp_path / "exp").write_text("mine")
    assert train(tiny_run, tmp_path / "exp") == 1
    assert "exp: is a file, but a directory must be written here; choose another path\n" in capfd.readouterr().err
