"""The list of all keys that a configuration may have."""

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.training.config import merge
from espnet_diverse.training.option_list import list_options
from espnet_diverse.training.tasks import TASKS


def listed(task, *fragments, changes=()):
    return dict(line.split(" = ", 1) for line in list_options(TASKS[task], merge(list(fragments), list(changes))))


def test_defaults_and_what_the_fragments_set():
    found = listed("asr", "model/tiny", "attention/sdma", changes=["optim_conf.lr=0.25"])
    assert found["optim_conf.lr"] == "0.25" and found["optim_conf.weight_decay"] == "0"
    assert found["encoder_conf.attention.core"] == "sdma" and found["encoder_conf.attention.gamma_updates"] == "null"
    assert found["max_epoch"] == "40" and found["ctc_conf.dropout_rate"] == "0.0" and found["resume"] == "true"
    assert not {"output_dir", "token_list", "train_data_path_and_name_and_type", "config"} & found.keys()


@pytest.mark.parametrize("task", ["asr", "st", "mt", "lm"])
def test_every_key_can_be_set_to_what_is_listed(task):
    found = listed(task)
    changes = [f"{key}={value}" for key, value in found.items() if value not in ("null", "")]
    again = listed(task, changes=changes)
    assert len(changes) > 60 and [key for key, value in found.items() if value != again.get(key, "null")] == []


def test_the_command_prints_them_without_other_arguments(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", "--task", "mt", "--list_options", "model/mt_tiny,attention/luna"])
    assert ended.value.code == 0
    assert "encoder_conf.attention.length = 32" in capsys.readouterr().out.splitlines()
    with pytest.raises(SystemExit) as ended:
        main(["train", "--list_options", "attention/none"])
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("espnet-diverse train: error: configuration fragment 'attention/none'")
