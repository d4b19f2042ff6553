"""Numbers with which nothing would be trained are refused with their origin before anything is written."""

import re

import pytest
import torch
from references.train_command import train

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import CONF_DIR, merge
from espnet_diverse.training.config.number_checks import check_numbers

BAD = [
    *(f"optim_conf.lr={value}" for value in ("0", "-1", "-1e-3", ".nan", ".inf", "fast", "true", "[0.1, 0]")),
    *(f"max_epoch={value}" for value in ("0", "-2", ".inf", "1.5", ".nan", "many")),
    *(f"grad_clip={value}" for value in ("0", "-5", ".nan", "-.inf", "none")),
    *(f"accum_grad={value}" for value in ("0", "-1", "0.5", ".nan")),
    *(f"batch_size={value}" for value in ("0", "-3", "2.5")),
    *(f"batch_bins={value}" for value in ("0", "-100", ".nan")),
    *("keep_nbest_models=0", "keep_nbest_models=[3, 0]", "num_iters_per_epoch=0", "patience=-1", "num_workers=-1"),
    *("seed=-1", "seed=4294967295", "seed=0.5"),
    *("grad_clip_type=0", "grad_clip_type=.nan", "log_interval=0", "save_interval_steps=-1"),
    *(
        "optim_conf.weight_decay=-1",
        "optim_conf.weight_decay=1e30",
        "optim_conf.weight_decay=.inf",
        "optim_conf.eps=-1",
        "optim_conf.momentum=1",
    ),
    *("max_epoch=[2]", "accum_grad=[2]", "max_epoch=null", "accum_grad=null", "keep_nbest_models=null"),
    *("keep_nbest_models=[null]", "nbest_averaging_interval=-1"),
    *("optim_conf.betas=[0.9, 1.0]", "optim_conf.betas=[.nan, 0.9]", "scheduler_conf.warmup_steps=0"),
    *("scheduler_conf.warmup_steps=-5", "scheduler_conf.gamma=0"),
    *(f"encoder_conf.dropout_rate={value}" for value in (".nan", "-1", "2")),
    *(f"model_conf.ctc_weight={value}" for value in (".nan", "-1", "2")),
    *(f"model_conf.lsm_weight={value}" for value in (".nan", "2")),
    *("encoder_conf.output_size=0", "encoder_conf.num_blocks=0", "decoder_conf.attention_heads=0"),
    *("encoder_conf.num_blocks=null", "encoder_conf.linear_units=[8]", "encoder_conf.cnn_module_kernel=-1"),
    *(f"encoder_conf.layer_drop_rate={value}" for value in ("-1", "3", ".nan")),
    *("encoder_conf.stochastic_depth_rate=[0.1, 2]", "encoder_conf.conv_channels=many", "ctc_conf.dropout_rate=.nan"),
    *("frontend_conf.win_length=0", "encoder_conf.interctc_layer_idx=[0]", "encoder_conf.interctc_layer_idx=3"),
    *("frontend_conf.hop_length=-1", "frontend_conf.embed_dim=2.5", "model_conf.patch_size=-1"),
    *(f"model_conf.auxiliary_factor={value}" for value in (".nan", ".inf", "-1", "null")),
    *(f"lm_conf.{key}={value}" for key in ("head", "layer", "att_unit") for value in ("0", "null", "'2'", "[1]")),
    *(f"classifier_conf.{key}={value}" for key in ("heads", "embed_dim") for value in ("0", "'2'", "1.5")),
    *("classifier_conf.attention_heads=0", "classifier_conf.dropout_rate=.nan", "classifier_conf.frobenius=.inf"),
]
UNCHANGED = "epoch 1: the updates change no parameter by 1e-12 of the largest; raise optim_conf.lr or grad_clip, or"
DIVERGED = r"epoch 1, step 2: training diverged: the learning rate 1e\+{} is too high, lower optim_conf.lr; the loss is"
RUINOUS = {  # found where the model is built or first used, or by what an epoch has done to it
    "optim_conf.lr=1e30": DIVERGED.format(30),
    "optim_conf.lr=1e10": DIVERGED.format(10),
    **dict.fromkeys(("optim_conf.lr=1e-30", "optim_conf.lr=1e-300", "optim_conf.eps=1e30"), UNCHANGED),
    **dict.fromkeys(("grad_clip=1e-300", "grad_clip=1e-30"), UNCHANGED),
    "optim_conf.eps=0": "epoch 1, step 2: training diverged: the learning rate 0.001 is too high, lower optim_conf.lr;",
    "optim_conf.betas=[0, 0]": "training failed with ValueError: betas must be either both floats or both Tensors;",
    "accum_grad=1000": "epoch 1: no update was made; it has 2 batches, fewer than accum_grad 1000; lower accum_grad or",
    "max_epoch=1e9": "--set max_epoch=1e9: max_epoch must be a whole number, but is 1000000000.0$",
    "init=nan": "--set init=nan: init must be one of xavier_uniform .* normal, but is 'nan'$",
    "train_dtype=float16": "--set train_dtype=float16: train_dtype float16 is not supported, .* set use_amp: true$",
    "frontend_conf.fs=0": "--set frontend_conf.fs=0: frontend_conf: fs must be 1000 to 768000 Hz .*, but is 0$",
    "freeze_param=[encoder, decoder, ctc]": "freeze_param encoder decoder ctc leaves no parameter to train; freeze",
    "no_forward_run=true": "--set no_forward_run=true: key 'no_forward_run' is not supported; the training loop does",
    "exclude_weight_decay=maybe": "--set exclude_weight_decay=maybe: exclude_weight_decay: invalid str2bool value",
    "allow_variable_data_keys=1": r'.*"allow_variable_data_keys" \(int\) is not an instance of bool; look for a value',
}
GOOD = ["max_epoch=1", "grad_clip=.inf", "grad_clip_type=.inf", "patience=null", "optim_conf.lr=1e-12", "patience=0"]
GOOD += ["model_conf.ctc_weight=null", "encoder_conf.stochastic_depth_rate=[0.1, 0.2]", "optim_conf.betas=[0.9, 0.98]"]
GOOD += [
    "frontend_conf.win_length=null",
    "encoder_conf.interctc_layer_idx=[]",
    "encoder_conf.interctc_layer_idx=[3, 6]",
]
GOOD += ["keep_nbest_models=[1, 2]", "log_interval=null"]
GOOD += ["patience=none", "patience=None", "num_iters_per_epoch=nil", "valid_batch_bins=none", "valid_batch_size=none"]


@pytest.mark.counted("nonsensical settings, refused by their origin before anything is written")
@pytest.mark.parametrize("change", BAD)
def test_invalid_values_are_refused_with_origin_and_allowed_range(change):
    with pytest.raises(ConfigError) as error:
        check_numbers(merge([], [change]))
    key = change.partition("=")[0]
    assert str(error.value).startswith(f"--set {change}: {key} must be ") and ", but is " in str(error.value)
    assert len(BAD) >= 40


@pytest.mark.counted("ruinous settings, each ended by one line and never with a model that is not finite or as before")
@pytest.mark.parametrize(("change", "error"), RUINOUS.items(), ids=[*RUINOUS])
def test_ruinous_settings_end_training_with_one_line(change, error, tiny_run, tmp_path, capfd):
    assert train(tiny_run, tmp_path / "exp", "max_epoch=1", change) == 1
    said = capfd.readouterr().err
    assert re.match(f"espnet-diverse train: error: {error}", said.splitlines()[-1]) and "Traceback" not in said
    assert not [*tmp_path.glob("exp/*epoch.pth"), *tmp_path.glob("exp/valid.*.pth")]


@pytest.mark.parametrize("change", ["optim_conf.lr=1e-6", "encoder_conf.dropout_rate=1", "patience=0"])
def test_poor_but_valid_settings_train(change, tiny_run, tmp_path):
    assert train(tiny_run, tmp_path / "exp", change) == 0
    first, second = (checkpoint.load(tmp_path / "exp" / f"{epoch}epoch.pth") for epoch in (1, 2))
    assert all(x.isfinite().all() for x in second.values())
    assert any(not torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("change", GOOD)
def test_sense_passes(change):
    check_numbers(merge([], [change]))


@pytest.mark.parametrize(
    ("heads", "width"),
    [
        ("encoder_conf.attention_heads", "encoder_conf.output_size"),
        ("decoder_conf.attention_heads", "encoder_conf.output_size"),
        ("classifier_conf.attention_heads", "classifier_conf.output_size"),
        ("lm_conf.head", "lm_conf.att_unit"),
    ],
)
def test_heads_that_do_not_divide_the_width_are_refused(heads, width):
    with pytest.raises(ConfigError, match=rf"^--set {heads}=3: {heads} must divide {width}, 64, but is 3$"):
        check_numbers(merge([], [f"{width}=64", f"{heads}=3"]))


def test_the_fragments_pass():
    for path in CONF_DIR.rglob("*.yaml"):
        if "decode" not in path.parts:
            check_numbers(merge([path]))


def test_nothing_is_written(tiny_run, tmp_path, capfd):
    paths = ["--stats_dir", str(tiny_run.stats_dir), "--output_dir", str(tmp_path / "exp")]
    assert main(["train", *tiny_run.config, *tiny_run.data(), *paths, "--set=optim_conf.lr=0"]) == 1
    said = "error: --set optim_conf.lr=0: optim_conf.lr must be above 0, but is 0"
    assert said in capfd.readouterr().err and not (tmp_path / "exp").exists()
