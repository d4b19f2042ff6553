"""The configuration of another training, from that of a trained model."""

import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.config import Config
from espnet_diverse.runs.config_checks import check
from espnet_diverse.runs.tasks import TASKS, TRAINED, read_config
from espnet_diverse.runs.training_config import FILLED_IN, training_config
from espnet_diverse.training.config.settings import check_settings


def test_settings_of_the_run_are_kept_and_derived_keys_removed(tiny_run):
    config = training_config(read_config(tiny_run.model_dir / "config.yaml"))
    assert config["encoder_conf"]["attention"]["core"] == "sdma" and config["optim_conf"] == {"lr": 1e-3}
    assert (config["batch_size"], config["max_epoch"]) == (6, 2)
    assert (config["normalize"], config["model"]) == ("global_mvn", "diverse")
    assert not config.keys() & {*FILLED_IN, "normalize_conf", "init_param", "use_matplotlib", "fold_length", "resume"}
    as_given = Config()
    as_given.update(config)
    check_settings(as_given)
    check(TASKS["asr"], as_given)


@pytest.mark.parametrize("task", TRAINED)
def test_no_key_of_a_model_opens_files_or_takes_resources(task, tmp_path, caplog):
    """Every key of ESPnet and of this package, set to a path and to a huge number by whoever made the model."""
    defaults = vars(TASKS[task].get_parser().parse_args([]))
    parts = {choices.name for choices in TASKS[task].class_choices_list} | {"model"}
    plain = [key for key in defaults if key not in parts and not key.endswith("_conf") and key != "task"]
    for hostile in ("/dev/zero", 10**9):
        found = training_config(dict.fromkeys(plain, hostile) | {"task": task})
        assert not found.keys() & {"num_workers", "max_cache_size", "max_cache_fd", "batch_size", "batch_bins"}
        assert not [key for key in found if key.endswith(("_scp", "_path", "_symbols", "_file", "_dir"))]
        kept = {key for key in found if isinstance(defaults[key], (str, type(None))) and hostile == "/dev/zero"}
        assert not {key for key in kept if "file" in key or "path" in key}


def test_what_is_left_out_is_named(caplog):
    training_config({"encoder": "transformer", "num_workers": 40, "batch_size": 10**9, "batch_bins": 600_000})
    assert "batch_size, num_workers" in caplog.text and "batch_bins" not in caplog.text


def test_values_of_conditions_match_the_other_data():
    selection = {"strategy": "group", "by": ["lang"], "conditions": {"lang": ["de"]}}
    config = {
        "encoder": "diverse_transformer",
        "encoder_conf": {"attention": {"selection": selection}},
        "model_conf": {"conditions": {"lang": ["de"]}, "ctc_weight": 0.3},
    }
    found = training_config(config)
    assert found["encoder_conf"] == {"attention": {"selection": {"strategy": "group", "by": ["lang"]}}}
    assert found["model_conf"] == {"ctc_weight": 0.3}


def test_other_tasks_are_refused():
    with pytest.raises(ConfigError, match="a model of task s2t is not trained by this package; those that are: asr st"):
        training_config({"task": "s2t"})
