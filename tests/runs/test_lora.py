"""Adapters of low rank: checked before training, saved in one form, and loaded by all commands."""

from importlib.util import find_spec

import pytest
import torch
from references.train_command import train
from torch import nn

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.nets import ENCODERS
from espnet_diverse.runs import checkpoint, lora
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.tasks import load_model

needs_loralib = pytest.mark.skipif(find_spec("loralib") is None, reason="loralib is not installed")
OPTIONS = {"rank": 2, "alpha": 4, "target_modules": ["linear_q", "linear_v"]}
SMALL = {"output_size": 16, "attention_heads": 2, "linear_units": 24, "num_blocks": 1}
ADAPTED = ["use_adapter=true", "adapter_conf={rank: 2, alpha: 4, target_modules: [linear_q, linear_v]}"]
FROZEN = [*ADAPTED, "freeze_param=[encoder, decoder, ctc]"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("adapter=houlsby", "^--set use_adapter=true: adapter 'houlsby' is not possible here; choose lora"),
        (
            "adapter_conf.ranks=2",
            "^--set adapter_conf.ranks=2: unknown option 'adapter_conf.ranks'; did you mean 'rank'",
        ),
        ("save_strategy=adapter_only", "save_strategy=adapter_only: .* leaves out weights .*; set save_strategy: all"),
    ],
)
def test_what_could_not_be_loaded_is_refused_before_training(change, said, monkeypatch):
    monkeypatch.setattr(lora, "find_spec", lambda name: name)
    with pytest.raises(ConfigError, match=said):
        lora.check_adapter(merge([], ["use_adapter=true", change]))
    lora.check_adapter(merge([], ["use_adapter=false", change]))
    lora.check_adapter(merge([], [*FROZEN]))


def test_the_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(lora, "find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match=r"use_adapter needs the package loralib: pip install 'espnet_diverse\[lora\]'"
    ):
        lora.check_adapter(merge([], FROZEN))


def test_weights_of_an_adapter_alone_are_named():
    model, config = nn.Linear(2, 2), {"use_adapter": True, "save_strategy": "adapter_only"}
    with pytest.raises(ModelError, match=r"^x.pth: holds the weights of the adapter without those of the model .*only"):
        lora.check_whole(config, {"bias": model.bias}, model, "x.pth")
    lora.check_whole(config, model.state_dict(), model, "x.pth")
    lora.check_whole(config | {"save_strategy": "all"}, {}, model, "x.pth")  # the strict loading says what is missing


@needs_loralib
@pytest.mark.parametrize(
    ("attention", "options", "said"),
    [
        (
            {"core": "softmax"},
            {"target_modules": ["linear_x"]},
            "Target modules .* not found in the base model; correct",
        ),
        ({"core": "softmax"}, {"rank": "2"}, "adapter_conf: .*rank.* int"),
        ({"core": "luna", "tied": True}, {}, "encoders.0.self_attn is an attention 'luna' with tied values, whose"),
        (
            {"selection": {"strategy": "group", "pool": 4, "by": ["lang"], "conditions": {"lang": ["de", "en"]}}},
            {},
            "is an attention with head selection, whose projections take no adapter",
        ),
    ],
)
def test_an_adapter_that_does_not_fit_is_named(attention, options, said):
    net = ENCODERS["diverse_transformer"](20, attention=attention, **SMALL)
    with pytest.raises(ConfigError, match=said):
        lora.create_adapter(net, "lora", OPTIONS | options)


@needs_loralib
def test_a_model_in_training_is_saved_as_one_in_evaluation():
    net = ENCODERS["diverse_transformer"](20, **SMALL)
    lora.create_adapter(net, "lora", OPTIONS)
    projection = net.encoders[0].self_attn.linear_q
    nn.init.normal_(projection.lora_B)
    expected = projection.weight.clone()  # of which the product of B = 0 was a part
    net.train()
    before = projection.weight.clone()
    with lora.merged(net):
        torch.testing.assert_close(projection.weight, before + 2 * projection.lora_B @ projection.lora_A)
    assert projection.training and not projection.merged
    torch.testing.assert_close(projection.weight, before)
    net.eval()
    torch.testing.assert_close(projection.weight, expected)


@needs_loralib
def test_a_run_with_an_adapter_goes_on_and_is_used(tiny_run, tmp_path):
    """Only the adapter moves; a run that was saved in an epoch goes on with the weights that it had."""
    exp, settings = tmp_path / "exp", [*FROZEN, f"init_param=[{tiny_run.model_dir}/valid.acc.ave.pth]"]
    assert train(tiny_run, exp, *settings, "max_epoch=1") == 0
    assert train(tiny_run, exp, *settings, "max_epoch=2", allow=["max_epoch"]) == 0
    assert main(["average", str(exp), "--number", "1"]) == 0
    base = checkpoint.load_weights(tiny_run.model_dir / "valid.acc.ave.pth")
    model, _ = load_model(exp)
    model.train()  # without the products
    for name, value in model.named_parameters():
        assert "lora_" in name or torch.allclose(value, base[name], atol=1e-5), name
    assert any(value.abs().max() > 0 for name, value in model.named_parameters() if "lora_B" in name)
    decoding = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path / "decode"), "--beam_size", "2"]
    assert main(["decode", str(exp), *decoding]) == 0
