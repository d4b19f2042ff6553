"""The list of all keys that a configuration may have."""

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.tasks import TASKS
from espnet_diverse.training.config.option_list import list_options


def listed(task, *fragments, changes=()):
    return dict(line.split(" = ", 1) for line in list_options(TASKS[task], merge(list(fragments), list(changes))))


def test_defaults_and_values_set_by_fragments():
    found = listed("asr", "model/tiny", "attention/sdma", changes=["optim_conf.lr=0.25"])
    assert found["optim_conf.lr"] == "0.25" and found["optim_conf.weight_decay"] == "0"
    assert found["encoder_conf.attention.core"] == "sdma" and found["encoder_conf.attention.gamma_updates"] == "null"
    assert found["max_epoch"] == "40" and found["ctc_conf.dropout_rate"] == "0.0" and found["resume"] == "true"
    assert not {"output_dir", "token_list", "train_data_path_and_name_and_type", "config"} & found.keys()


def test_head_selection_needs_no_names_of_languages():
    found = listed("mt", "model/mt_base", "heads/group")
    assert found["encoder_conf.attention.selection.by"] == "[lang]"
    assert "encoder_conf.attention.selection.conditions" not in found


@pytest.mark.parametrize("task", ["asr", "st", "mt", "lm"])
def test_every_key_can_be_set_to_its_listed_value(task):
    found = listed(task)
    changes = [f"{key}={value}" for key, value in found.items() if value not in ("null", "")]
    again = listed(task, changes=changes)
    assert len(changes) > 60 and [key for key, value in found.items() if value != again.get(key, "null")] == []


def test_the_command_prints_them_without_other_arguments(capsys):
    assert main(["train", "--task", "mt", "--list_options", "model/mt_tiny,attention/luna"]) == 0
    assert "encoder_conf.attention.length = 32" in capsys.readouterr().out.splitlines()
    assert main(["train", "--list_options", "attention/none"]) == 1
    assert capsys.readouterr().err.startswith("espnet-diverse train: error: configuration fragment 'attention/none'")


def test_a_value_of_a_wrong_type_is_one_line(capsys):
    assert main(["train", "--list_options", "model/tiny", "--set", "max_epoch=many"]) == 1
    assert (
        capsys.readouterr().err
        == "espnet-diverse train: error: --set max_epoch=many: max_epoch must be a whole number, but is 'many'\n"
    )


@pytest.mark.parametrize(("key", "value"), [("max_epoch", "12:30"), ("max_epoch", "yes"), ("use_amp", "maybe")])
def test_a_value_of_a_wrong_type_has_its_line(key, value, capsys, tmp_path):
    (tmp_path / "c.yaml").write_text(f"grad_clip: 1\n{key}: {value}\n")
    assert main(["train", "--list_options", str(tmp_path / "c.yaml")]) == 1
    assert f"c.yaml:2: {key}" in capsys.readouterr().err


def test_the_command_takes_other_settings_after_it(capsys, tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("max_epoch: 7\nseed: 3\n")
    given = ["--list_options", "model/mt_tiny", "--task", "mt", "--config", str(own), "--set", "max_epoch=9"]
    assert main(["train", *given]) == 0
    found = capsys.readouterr().out.splitlines()
    assert "max_epoch = 9" in found and "seed = 3" in found


def test_without_it_other_arguments_are_required(capsys):
    with pytest.raises(SystemExit, match="1"):
        main(["train", "--task", "mt"])
    assert "the following arguments are required: --config, --train_dir" in capsys.readouterr().err
