"""Numbers with which nothing would be trained are refused with their origin before anything is written."""

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError
from espnet_diverse.training.config import CONF_DIR, merge
from espnet_diverse.training.number_checks import check_numbers

BAD = [
    *(f"optim_conf.lr={value}" for value in ("0", "-1", "-1e-3", ".nan", ".inf", "fast", "true", "[0.1, 0]")),
    *(f"max_epoch={value}" for value in ("0", "-2", ".inf", "1.5", ".nan", "many")),
    *(f"grad_clip={value}" for value in ("0", "-5", ".nan", "-.inf", "none")),
    *(f"accum_grad={value}" for value in ("0", "-1", "0.5", ".nan")),
    *(f"batch_size={value}" for value in ("0", "-3", "2.5")),
    *(f"batch_bins={value}" for value in ("0", "-100", ".nan")),
    *("keep_nbest_models=0", "keep_nbest_models=[3, 0]", "num_iters_per_epoch=0", "patience=-1", "num_workers=-1"),
    *("seed=-1", "seed=0.5", "grad_clip_type=0", "grad_clip_type=.nan", "log_interval=0", "save_interval_steps=-1"),
    *("optim_conf.weight_decay=-1", "optim_conf.weight_decay=.inf", "optim_conf.eps=-1", "optim_conf.momentum=1"),
    *("optim_conf.betas=[0.9, 1.0]", "optim_conf.betas=[.nan, 0.9]", "scheduler_conf.warmup_steps=0"),
    *("scheduler_conf.warmup_steps=-5", "scheduler_conf.gamma=0", "optim2_conf.lr=0"),
]
GOOD = ["max_epoch=1", "grad_clip=.inf", "grad_clip_type=.inf", "patience=null", "optim_conf.lr=1e-12", "patience=0"]


@pytest.mark.parametrize("change", BAD)
def test_nonsense_is_refused_with_origin_value_and_what_is_allowed(change):
    with pytest.raises(ConfigError) as error:
        check_numbers(merge([], [change]))
    key = change.partition("=")[0]
    assert str(error.value).startswith(f"--set {change}: {key} is ") and "; give a " in str(error.value)
    assert len(BAD) >= 40


@pytest.mark.parametrize("change", GOOD)
def test_sense_passes(change):
    check_numbers(merge([], [change]))


def test_the_fragments_pass():
    for path in CONF_DIR.rglob("*.yaml"):
        if "decode" not in path.parts:
            check_numbers(merge([path]))


def test_nothing_is_written(tiny_run, tmp_path, capfd):
    paths = ["--stats_dir", str(tiny_run.stats_dir), "--output_dir", str(tmp_path / "exp")]
    assert main(["train", *tiny_run.config, *tiny_run.data(), *paths, "--set=optim_conf.lr=0"]) == 1
    said = "error: --set optim_conf.lr=0: optim_conf.lr is 0; give a finite number above 0"
    assert said in capfd.readouterr().err and not (tmp_path / "exp").exists()
