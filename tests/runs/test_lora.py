"""Adapters of low rank: checked before training, saved in one form, loaded by all commands, and merged."""

import shutil

import pytest
import torch
from espnet2.tasks.asr import ASRTask as ESPnetASRTask
from references.espnet_fixtures import Model
from references.train_command import train, train_until_killed
from torch import nn

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.nets import ENCODERS
from espnet_diverse.packing.adoption import largest_difference
from espnet_diverse.runs import checkpoint, lora
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.packed.archive import unpacked
from espnet_diverse.runs.tasks import load_model

OPTIONS = {"rank": 2, "alpha": 4, "target_modules": ["linear_q", "linear_v"]}
SMALL = {"output_size": 16, "attention_heads": 2, "linear_units": 24, "num_blocks": 1}
ADAPTED = ["use_adapter=true", "adapter_conf={rank: 2, alpha: 4, target_modules: [linear_q, linear_v]}"]
FROZEN = [*ADAPTED, "freeze_param=[encoder, decoder, ctc]"]
BY_LANGUAGE = [*FROZEN, "adapter_conf.by=lang"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("adapter=houlsby", "^--set use_adapter=true: adapter 'houlsby' is not possible here; choose lora"),
        (
            "adapter_conf.ranks=2",
            "^--set adapter_conf.ranks=2: unknown option 'adapter_conf.ranks'; did you mean 'rank'",
        ),
        ("adapter_conf.rank=0", "^--set adapter_conf.rank=0: adapter_conf: rank must be at least 1, but is 0"),
        ("adapter_conf.bias_type=all", "^--set adapter_conf.bias_type=all: .* has no effect, .*; set unfreeze_param"),
        ("freeze_param=[]", r"^--set use_adapter=true: .* as nothing is frozen; set freeze_param: \['\*'\]"),
        ("save_strategy=adapter_only", "save_strategy=adapter_only: .* leaves out weights .*; set save_strategy: all"),
    ],
)
def test_invalid_adapter_options_are_refused_before_training(change, said):
    with pytest.raises(ConfigError, match=said):
        lora.check_adapter(merge([], [*FROZEN, change]))
    lora.check_adapter(merge([], ["use_adapter=false", change]))
    lora.check_adapter(merge([], FROZEN))
    lora.check_adapter(merge(["adapter/lora"]))


def test_weights_of_an_adapter_alone_are_named():
    model, config = nn.Linear(2, 2), {"use_adapter": True, "save_strategy": "adapter_only"}
    with pytest.raises(ModelError, match=r"^x.pth: holds the weights of the adapter but not of the model .*only"):
        lora.check_whole(config, {"bias": model.bias}, model, "x.pth")
    lora.check_whole(config, model.state_dict(), model, "x.pth")
    lora.check_whole(config | {"save_strategy": "all"}, {}, model, "x.pth")  # strict loading names missing weights


def test_adapters_are_apart_from_a_model_that_is_saved():
    net = ENCODERS["diverse_transformer"](20, **SMALL)
    lora.add_adapter(net, {"use_adapter": True, "adapter_conf": OPTIONS})
    projection = net.encoders[0].self_attn.linear_q
    nn.init.normal_(projection.lora_B)
    expected = projection.weight.clone()  # of which the product of B = 0 was a part
    net.train()
    before = projection.weight.clone()
    net.eval()
    torch.testing.assert_close(projection.weight, before + 2 * projection.lora_B @ projection.lora_A)
    evaluated = projection.weight.clone()
    with lora.unmerged(net):
        assert torch.equal(projection.weight, before)
    assert not projection.training and projection.merged and torch.equal(projection.weight, evaluated)
    assert lora.merges(net)["encoders.0.self_attn.linear_q"] == (2, False)
    net.load_state_dict({**net.state_dict(), "encoders.0.self_attn.linear_q.weight": expected})
    net.train()  # of the weight that was loaded
    torch.testing.assert_close(projection.weight, expected - 2 * projection.lora_B @ projection.lora_A)


def test_a_run_with_an_adapter_continues_and_is_used(tiny_run, tmp_path, capfd):
    """Only the adapter moves; a run that was saved in an epoch continues with the weights that it had."""
    exp, settings = tmp_path / "exp", [*FROZEN, f"init_param=[{tiny_run.model_dir}/valid.acc.ave.pth]"]
    assert train(tiny_run, exp, *settings, "max_epoch=1") == 0
    assert "trained: 384 of " in (said := capfd.readouterr().out) and "adapter all 384" in said
    assert train(tiny_run, exp, *settings, "max_epoch=2", allow=["max_epoch"]) == 0
    assert main(["average", str(exp), "--number", "1"]) == 0
    base = checkpoint.load_weights(tiny_run.model_dir / "valid.acc.ave.pth")
    (frozen,) = exp.glob("frozen.*.pth")
    own = torch.load(exp / "2epoch.pth", weights_only=True)["model"]
    assert sum("lora_" in name for name in own) == 12 and not any(name.endswith("linear_q.weight") for name in own)
    assert torch.equal(checkpoint.load(frozen)["ctc.ctc_lo.weight"], base["ctc.ctc_lo.weight"])
    model, _ = load_model(exp)
    model.train()  # without the products
    for name, value in model.named_parameters():
        assert "lora_" in name or torch.allclose(value, base[name], atol=1e-5), name
    assert any(value.abs().max() > 0 for name, value in model.named_parameters() if "lora_B" in name)
    assert main(["prune", str(exp), "--output_dir", str(tmp_path / "merged")]) == 0
    assert main(["pack", str(exp), "--output", str(tmp_path / "merged.zip")]) == 0
    plain, _ = load_model(tiny_run.model_dir)
    for folder in (tmp_path / "merged", unpacked(tmp_path / "merged.zip")):
        merged, args = load_model(folder)
        assert not args.use_adapter and merged.state_dict().keys() == base.keys()
        assert largest_difference(model, merged, "asr", {}) < 1e-5 < largest_difference(plain, merged, "asr", {})


@pytest.fixture(scope="module")
def languages(tiny_run, tmp_path_factory):
    """The tiny data in two languages in turns."""
    root = tmp_path_factory.mktemp("languages")
    for phase in ("train", "valid", "test"):
        folder = shutil.copytree(getattr(tiny_run, f"{phase}_dir"), root / phase)
        utterances = [line.split()[0] for line in (folder / "wav.scp").read_text().splitlines()]
        lines = (f"{name} {('de', 'ar')[number % 2]}\n" for number, name in enumerate(utterances))
        (folder / "utt2lang").write_text("".join(lines))
    return tiny_run._replace(train_dir=root / "train", valid_dir=root / "valid", test_dir=root / "test")


def decoded(model, data_dir, output_dir, *options):
    arguments = ["--data_dir", str(data_dir), "--output_dir", str(output_dir), "--beam_size", "3", *options]
    assert main(["decode", str(model), *arguments]) == 0
    score = dict(line.split() for line in (output_dir / "score").read_text().splitlines())
    return (output_dir / "text").read_text(), {name: float(value) for name, value in score.items()}


@pytest.mark.slow
def test_each_language_has_an_adapter(languages, tmp_path, monkeypatch):
    """Training, going on from within an epoch, averaging, decoding of mixed batches, pruning and packing."""
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    base = languages.model_dir / "valid.acc.ave.pth"
    settings = [*BY_LANGUAGE, f"init_param=[{base}]", "max_epoch=4", "optim_conf.lr=0.05", "save_interval_steps=1"]
    exp, killed = tmp_path / "exp", tmp_path / "killed"
    assert train(languages, exp, *settings) == 0
    train_until_killed(4, languages, killed, *settings)
    assert train(languages, killed, *settings) == 0
    states = [checkpoint.load_weights(folder / "4epoch.pth") for folder in (exp, killed)]
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    trained = checkpoint.load_weights(base)
    moved = [name for name, value in trained.items() if not torch.equal(states[0][name], value)]
    assert all(name.endswith("updates.count") for name in moved)
    name = "encoder.encoders.0.self_attn.linear_q.lora_B"
    assert states[0][name].shape == (2, 16, 2) and states[0][name].abs().amax((1, 2)).gt(0).all()
    assert main(["average", str(exp), "--number", "2"]) == 0
    mixed = decoded(exp, languages.test_dir, tmp_path / "mixed")
    (tmp_path / "none").mkdir()
    for table in ("wav.scp", "text", "utt2spk", "spk2utt"):
        shutil.copy(languages.test_dir / table, tmp_path / "none")
    pruned, single = {}, {}
    for language in ("ar", "de"):
        assert main(["prune", str(exp), "--language", language, "--output_dir", str(tmp_path / language)]) == 0
        packed = tmp_path / f"{language}.zip"
        assert main(["pack", str(exp), "--language", language, "--output", str(packed)]) == 0
        pruned[language] = decoded(tmp_path / language, tmp_path / "none", tmp_path / f"decode_{language}")
        assert decoded(packed, tmp_path / "none", tmp_path / f"unpacked_{language}") == pruned[language]
        single[language] = decoded(exp, tmp_path / "none", tmp_path / f"one_{language}", "--language", language)
        assert single[language][0] == pruned[language][0]
        assert single[language][1] == pytest.approx(pruned[language][1], abs=2e-4)
    assert single["ar"][1] != pytest.approx(single["de"][1], abs=1e-3)
    for number, (utterance, score) in enumerate(mixed[1].items()):
        assert score == pytest.approx(pruned[("de", "ar")[number % 2]][1][utterance], abs=2e-4)
    assert main(["pack", str(exp), "--output", str(tmp_path / "both.zip")]) == 0
    assert decoded(tmp_path / "both.zip", languages.test_dir, tmp_path / "both") == mixed


def test_a_language_without_an_adapter_is_named(languages, tmp_path, capfd):
    data = tmp_path / "valid"
    shutil.copytree(languages.valid_dir, data)
    text = (data / "utt2lang").read_text()
    (data / "utt2lang").write_text(text.replace(" ar", " el"))
    assert train(languages, tmp_path / "exp", *BY_LANGUAGE, valid_dir=data) == 1
    assert "lang 'el' is unknown; known: ar de" in capfd.readouterr().err


def test_a_map_that_is_trained_beside_its_adapter_is_named(tiny_run, tmp_path, capfd):
    assert train(tiny_run, tmp_path / "exp", *ADAPTED, "freeze_param=[encoder, ctc]") == 1
    said = "use_adapter: decoder.decoders.0.self_attn.linear_q has an adapter, and its weight is trained itself; freeze"
    assert said in capfd.readouterr().err


@pytest.mark.parametrize("age", ["202511", "202611"])
def test_an_adapted_model_of_espnet_is_merged_for_espnet(age, tmp_path):
    """Without loralib, which ESPnet needs to load its own checkpoints."""
    folder = Model(age, "asr_lora").folder
    assert main(["prune", str(folder), "--output_dir", str(tmp_path / "merged")]) == 0
    whole, _ = load_model(folder)
    weights = tmp_path / "merged" / "valid.acc.ave_10best.pth"
    weights = weights if weights.exists() else tmp_path / "merged" / "valid.acc.ave.pth"
    alone, args = ESPnetASRTask.build_model_from_file(tmp_path / "merged" / "config.yaml", weights)
    assert not args.use_adapter and not any("lora" in name for name in alone.state_dict())
    assert largest_difference(whole, alone, "asr", {}) < 1e-5
