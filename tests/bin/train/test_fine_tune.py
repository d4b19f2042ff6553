"""A model is trained further by one command, from a run, a packed model or a model of ESPnet."""

import os
import shutil

import pytest
import torch
import yaml
from references.espnet_fixtures import Model

from espnet_diverse.bin.main import main
from espnet_diverse.packing.facts import Facts
from espnet_diverse.packing.pack import pack
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.tasks import load_model
from espnet_diverse.text.vocabulary import Vocabulary

STILL = ["--set", "max_epoch=1", "--set", "optim=sgd", "--set", "optim_conf.lr=1.0e-8"]


@pytest.fixture
def data(tiny_run, tmp_path):
    """A folder of two data directories, with other recordings than those of the tiny run."""
    folder = tmp_path / "data"
    shutil.copytree(tiny_run.valid_dir, folder / "train")
    shutil.copytree(tiny_run.test_dir, folder / "dev")
    return folder


def fine_tune(model, data, output, *more):
    return main(["fine-tune", str(model), str(data), "--output_dir", str(output), *map(str, more)])


def weights(folder):
    return checkpoint.load_weights(folder / "valid.acc.ave.pth")


def learned(state):
    return [name for name, value in state.items() if value.is_floating_point() and "updates" not in name]


def test_it_begins_with_the_trained_weights_and_is_finished_once(tiny_run, data, tmp_path, capfd):
    output = tmp_path / "exp"
    assert fine_tune(tiny_run.model_dir, data, output, *STILL) == 0
    before, after = weights(tiny_run.model_dir), weights(output)
    assert len(learned(before)) > 50
    for name in learned(before):
        torch.testing.assert_close(after[name], before[name], msg=name)
    made = checkpoint.load(output / "checkpoint.pth")["updates"]
    counts = [name for name in before if name.endswith("updates.count")]
    assert counts
    for name in counts:  # schedules continue
        assert before[name] > 0 and after[name] == before[name] + made - 1, name
    config = yaml.safe_load((output / "train.yaml").read_text())
    assert config["encoder_conf"]["attention"]["core"] == "sdma" and config["patience"] == 3
    assert config["batch_size"] == 6 and config["scheduler"] == "warmuplr"
    capfd.readouterr()
    assert fine_tune(tiny_run.model_dir, data, output, *STILL) == 0
    assert capfd.readouterr().out.count("up to date") == 3


def test_a_packed_model_keeps_the_rows_of_known_tokens(tiny_run, data, tmp_path, monkeypatch):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    packed = pack(tiny_run.model_dir, tmp_path / "model.zip", Facts())
    Vocabulary.train(["dcbae"], "char").save(tmp_path / "tokens")
    output = tmp_path / "exp"
    assert fine_tune(packed, data, output, "--tokens_dir", tmp_path / "tokens", *STILL) == 0
    before, after = weights(tiny_run.model_dir), weights(output)
    old, new = (Vocabulary.load(folder).tokens for folder in (tiny_run.model_dir, tmp_path / "tokens"))
    assert set(new) - set(old) == {"e"}
    rows = [old.index(token) for token in new if token != "e"], [new.index(token) for token in new if token != "e"]
    of_tokens = ["decoder.embed.0.weight", "decoder.output_layer.weight", "ctc.ctc_lo.weight", "ctc.ctc_lo.bias"]
    for name in of_tokens:
        torch.testing.assert_close(after[name][rows[1]], before[name][rows[0]], msg=name)
    for name in set(learned(before)) - {*of_tokens, "decoder.output_layer.bias"}:
        torch.testing.assert_close(after[name], before[name], msg=name)


def test_a_model_of_espnet_gets_an_adapter(data, tmp_path, capfd):
    Vocabulary.train(["abcd"], "char").save(tmp_path / "tokens")
    more = ["--config", "adapter/lora", "--tokens_dir", tmp_path / "tokens", "--set", "max_epoch=1"]
    folder, output = Model("202611", "asr_transformer").folder, tmp_path / "exp"
    assert fine_tune(folder, data, output, *more, "--set", "unfreeze_param=['ctc.*', 'decoder.*embed*']") == 0
    assert "adapter all " in capfd.readouterr().out
    model, args = load_model(output)
    assert (args.encoder, args.model, args.use_adapter) == ("transformer", "espnet", True)
    before = checkpoint.load_weights(next(folder.glob("*.ave_10best.pth")))
    model.train()
    kept = [name for name, value in model.named_parameters() if "encoders" in name and "lora_" not in name]
    assert len(kept) > 10
    for name in kept:
        torch.testing.assert_close(model.get_parameter(name).detach(), before[name], atol=1e-5, rtol=0, msg=name)


def test_an_adopted_model_of_espnet_is_trained_further(data, tmp_path):
    """By the configuration that `adopt` writes beside it, and by the command."""
    Vocabulary.train(["abcd"], "char").save(tmp_path / "tokens")
    adopted, output = tmp_path / "adopted", tmp_path / "exp"
    folder = Model("202611", "asr_transformer").folder
    assert main(["adopt", str(folder), "--config", "attention/sdma", "--output_dir", str(adopted)]) == 0
    train_yaml = yaml.safe_load((adopted / "train.yaml").read_text())
    assert train_yaml["decoder_conf"]["cross_attention"]["core"] == "sdma" and "output_dir" not in train_yaml
    tokens = ["--tokens_dir", tmp_path / "tokens"]
    assert fine_tune(adopted, data, output, *tokens, *STILL) == 0
    shared = ["--train_dir", data / "train", "--valid_dir", data / "dev", "--stats_dir", output / "stats", *tokens]
    given = ["--config", adopted / "train.yaml", *STILL, "--set=init_known_tokens=true"]
    begin = ["--init_param", next(adopted.glob("*.pth")), "--output_dir", tmp_path / "other"]
    assert main(["train", *map(str, [*given, *shared, *begin])]) == 0
    states = [load_model(folder, "1epoch.pth")[0].state_dict() for folder in (output, tmp_path / "other")]
    assert states[0].keys() == states[1].keys()
    before = checkpoint.load_weights(next(adopted.glob("*.pth")))
    encoder = [name for name in learned(before) if name.startswith("encoder.encoders.")]
    assert len(encoder) > 10
    for name in encoder:
        for state in states:
            torch.testing.assert_close(state[name], before[name], msg=name)


def test_other_settings_are_allowed_by_name(tiny_run, data, tmp_path, capfd):
    output = tmp_path / "exp"
    assert fine_tune(tiny_run.model_dir, data, output, *STILL) == 0
    more = [*STILL, "--set", "max_epoch=2"]
    assert fine_tune(tiny_run.model_dir, data, output, *more) == 1
    assert "max_epoch: 1 -> 2" in capfd.readouterr().err
    assert fine_tune(tiny_run.model_dir, data, output, *more, "--allow_changed", "max_epoch") == 0
    assert (output / "2epoch.pth").exists()


def hostile(model, folder, **changes):
    """A copy of a model with changes that its author made to config.yaml."""
    shutil.copytree(model, folder)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump(config | changes))
    return folder


def test_a_model_names_no_files_and_no_resources(tiny_run, data, tmp_path, capfd, caplog):
    """A file that nobody may see, a pipe that never ends, and more processes than the user asked for."""
    (secret := tmp_path / "secret").write_text("root:hidden:19000\n")
    os.mkfifo(tmp_path / "pipe")
    paths = {"rir_scp": str(secret), "noise_scp": str(tmp_path / "pipe"), "non_linguistic_symbols": str(secret)}
    model = hostile(tiny_run.model_dir, tmp_path / "model", num_workers=40, max_cache_size=1e12, **paths)
    assert fine_tune(model, data, tmp_path / "exp", *STILL) == 0
    said = capfd.readouterr()
    assert "hidden" not in said.out + said.err and "max_cache_size, num_workers" in caplog.text
    assert not yaml.safe_load((tmp_path / "exp" / "start.yaml").read_text()).keys() & {*paths, "num_workers"}
    assert yaml.safe_load((tmp_path / "exp" / "config.yaml").read_text())["num_workers"] < 40


def test_sizes_that_the_weights_do_not_have_are_refused(tiny_run, data, tmp_path, capfd):
    """A training builds the model before it reads the weights."""
    encoder = yaml.safe_load((tiny_run.model_dir / "config.yaml").read_text())["encoder_conf"]
    model = hostile(
        tiny_run.model_dir, tmp_path / "model", encoder_conf=encoder | {"linear_units": 10**6, "num_blocks": 9}
    )
    assert fine_tune(model, data, tmp_path / "exp", "--dry_run") == 1
    assert "far larger model than these weights" in capfd.readouterr().err
    assert not (tmp_path / "exp").exists()


def test_masks_of_spectrograms_without_number_are_refused(tiny_run, data, tmp_path, capfd):
    masks = {"specaug": "specaug", "specaug_conf": {"num_time_mask": 10**6}}
    assert fine_tune(hostile(tiny_run.model_dir, tmp_path / "model", **masks), data, tmp_path / "exp") == 1
    assert "num_time_mask" in capfd.readouterr().err and not (tmp_path / "exp" / "start.yaml").exists()


def test_invalid_data_models_and_options_are_refused(tiny_run, data, tmp_path, capfd):
    assert fine_tune(tiny_run.model_dir, data / "train", tmp_path / "exp") == 1
    assert f"needs two data directories, train and dev; give the folder of all sets, {data}\n" in capfd.readouterr().err
    assert fine_tune(tiny_run.model_dir, tmp_path, tmp_path / "exp") == 1
    assert f"{tmp_path}: needs two data directories, train and dev; write them with" in capfd.readouterr().err
    assert fine_tune(tiny_run.model_dir, data, tiny_run.model_dir) == 1
    assert "is the directory of the model itself; give another one" in capfd.readouterr().err
    assert fine_tune(Model("202611", "s2t_ctc").folder, data, tmp_path / "exp") == 1
    assert "a model of task s2t_ctc is not trained by this package; those that are: asr st" in capfd.readouterr().err
    assert fine_tune(tiny_run.model_dir, data, tmp_path / "exp", "--set", "max_epochs=3") == 1
    assert "stage 'stats': --set max_epochs=3: unknown option 'max_epochs'; did you mean" in capfd.readouterr().err
    assert not (tmp_path / "exp" / "stats").exists()


def test_another_alphabet_is_told_before_anything_runs(tiny_run, data, tmp_path, capfd):
    assert fine_tune(tiny_run.model_dir, data, tmp_path / "exp", "--dry_run", *STILL) == 0
    assert capfd.readouterr().out.splitlines()[-1].startswith("not checked: ")
    for folder in ("train", "dev"):
        lines = (data / folder / "text").read_text().split("\n")
        (data / folder / "text").write_text("\n".join(line and f"{line.split()[0]} мир" for line in lines))
    assert fine_tune(tiny_run.model_dir, data, tmp_path / "exp", "--dry_run") == 1
    said = capfd.readouterr()
    assert "lacks 12 of its 12 tokens" in said.err and "--tokens_dir" in said.err and "would run" not in said.out
