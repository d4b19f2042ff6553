import sys
from argparse import Namespace

import pytest
import torch
from references.killed_steps import DONE, with_room
from references.wandb import Wandb

from espnet_diverse.errors import ConfigError, TrainingError
from espnet_diverse.runs.config import load
from espnet_diverse.runs.tasks import ASRTask
from espnet_diverse.training import espnet_command
from espnet_diverse.training.loop.tasks import TASKS


def test_gpus_that_are_not_there():
    there = torch.cuda.device_count()
    espnet_command.check_gpus(there)
    with pytest.raises(ConfigError, match=f"--ngpu 99 is not possible; this machine has {there} usable GPUs"):
        espnet_command.check_gpus(99)


def test_a_process_alone_does_not_wait_for_the_others_of_another_program(tiny_run, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(espnet_command, "_train", lambda _, args, processes: found.append(processes.distributed))
    found: list[bool] = []
    config = load(tiny_run.model_dir / "config.yaml") | {"output_dir": str(tmp_path), "dist_world_size": None}
    espnet_command.run(TASKS["asr"], config)
    assert found == [False]


def test_half_precision_and_tf32_exclude_each_other(tiny_run, tmp_path):
    config = load(tiny_run.model_dir / "config.yaml") | {"use_tf32": True, "use_amp": True, "output_dir": str(tmp_path)}
    with pytest.raises(ConfigError, match="^use_tf32 and use_amp exclude each other; set one of them to false$"):
        espnet_command.run(TASKS["asr"], config)


@pytest.mark.parametrize(
    ("others", "error", "text"),
    [
        (False, TrainingError, "training failed with ZeroDivisionError: division by zero; look for a value of the con"),
        (True, ZeroDivisionError, "^division by zero$"),
    ],
)
def test_errors_are_wrapped_only_when_training_in_one_process(tiny_run, tmp_path, monkeypatch, others, error, text):
    config = load(tiny_run.model_dir / "config.yaml") | {"output_dir": str(tmp_path)}
    monkeypatch.setattr(espnet_command, "_train", lambda *_: 1 / 0)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: others)
    with pytest.raises(error, match=text):
        espnet_command.run(TASKS["asr"], config)


def test_a_full_disk_leaves_the_former_configuration(tmp_path):
    args = Namespace(output_dir=str(tmp_path), token_list=[f"token{number}" for number in range(2000)])
    espnet_command._save_config(args)
    former = (tmp_path / "config.yaml").read_text()
    args.token_list.append("another")
    assert with_room(lambda: espnet_command._save_config(args), 8192) not in (0, DONE)
    assert (tmp_path / "config.yaml").read_text() == former


@pytest.mark.parametrize("logged_in", [True, False])
def test_a_run_of_wandb_begins_if_somebody_has_logged_in(logged_in, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "wandb", wandb := Wandb(logged_in))
    options = {"wandb_entity": None, "wandb_project": None, "wandb_name": "first", "wandb_id": None}
    args = Namespace(**options, wandb_allow_val_change=False, output_dir="exp/run", resume=True)
    assert espnet_command._start_wandb(ASRTask, args) is logged_in
    if not logged_in:
        assert not wandb.calls and "run `wandb login`" in caplog.text
        return
    assert wandb.calls["config"] == vars(args)
    wanted = {"project": "ESPnet_ASRTask", "name": "first", "dir": "exp/run", "resume": True}
    assert wanted.items() <= wandb.calls["init"].items()
