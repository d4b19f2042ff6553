"""Costs of methods: measurements of a trial, and the estimated time of a training."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from espnet_diverse.contest import costs
from espnet_diverse.contest.costs import Cost, measure, read_costs
from espnet_diverse.contest.programs import Ended, Programs
from espnet_diverse.contest.runs import RecipeRun
from espnet_diverse.errors import ModelError, TrainingError
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.checkpoint import load_run

SHARED = {"config": "{}", "metric": "cer", "sets": ["test"], "baseline": "old"}


def run(folder, name="old", ngpu=0):
    return RecipeRun("mine", {**SHARED, "ngpu": ngpu}, name, 0, {"fragments": name}, folder)


class Trials(Programs):
    """Programs that train nothing: a trial leaves a copy of a run of two epochs."""

    def __init__(self, trained: Path, code: int = 0, stops: bool = False):
        super().__init__()
        self.trained, self.code, self.stops, self.calls = trained, code, stops, []

    def run(self, command, folder, log):
        self.calls.append(command)
        self.stopped |= self.stops
        if "train" in command[-1:]:
            shutil.copytree(self.trained, folder / "exp" / command[command.index("--tag") + 1])
        return Ended(self.code, seconds=100.0, memory=2_500_000_000)


def test_a_trial_is_read_and_deleted_and_not_made_again(tiny_run, tmp_path):
    programs, path = Trials(tiny_run.model_dir), tmp_path / "costs.json"
    (cost,) = measure([run(tmp_path)], programs, path, batches=5).values()
    assert [call[-1] for call in programs.calls] == ["tokens", "train"]
    epochs = load_run(tiny_run.model_dir)[0]["reporter"]["stats"]
    times = {
        (n, phase): each["time"]["__timedelta_seconds__"] for n, two in epochs.items() for phase, each in two.items()
    }
    assert cost.step == pytest.approx(times[2, "train"] / 2)  # 12 utterances in batches of 6
    assert (cost.batches, cost.memory, cost.validation) == (2, 2.5, times[2, "valid"])
    assert cost.start == pytest.approx(100 - sum(times.values()))
    (adam,) = load_run(tiny_run.model_dir)[0]["optimizers"]
    assert cost.parameters == sum(each["exp_avg"].numel() for each in adam["state"].values())
    assert not (tmp_path / "exp" / "mine_old_trial").exists()
    assert measure([run(tmp_path)], programs, path, batches=5) == {"old": cost} == read_costs(path)
    assert len(programs.calls) == 2


@pytest.mark.parametrize("changed", ["ngpu", "processor", "threads", "commit"])
def test_costs_are_measured_again_where_they_would_be_others(tiny_run, tmp_path, monkeypatch, capsys, changed):
    programs, path, ngpu = Trials(tiny_run.model_dir), tmp_path / "costs.json", 0
    monkeypatch.setattr(costs, "cpu_model", lambda: "slow")
    monkeypatch.setattr(costs, "gpu_model", lambda: "of 2024")
    monkeypatch.setattr(costs, "commit_of_code", lambda path: "abc")
    measure([run(tmp_path), run(tmp_path, "new")], programs, path, batches=5)
    former = read_costs(path)
    if changed == "ngpu":
        ngpu = 1
    elif changed == "threads":
        monkeypatch.setenv("OMP_NUM_THREADS", "7")
    else:
        monkeypatch.setattr(costs, {"processor": "cpu_model", "commit": "commit_of_code"}[changed], lambda *_: "fast")
    programs.calls.clear()
    methods = [run(tmp_path, name, ngpu) for name in ("old", "third")]
    found = measure(methods, programs, path, batches=5)
    assert len(programs.calls) == 4 and list(found) == ["old", "third"] == list(read_costs(path)) != list(former)
    assert f"{path}: has the costs of another {changed}: " in capsys.readouterr().out
    assert measure(methods, programs, path, batches=5) == found and len(programs.calls) == 4


def test_gpu_memory_has_the_unit_of_process_memory(tiny_run, tmp_path, monkeypatch):
    def on_gpu(folder):
        state, *others = load_run(folder)
        for epoch in state["reporter"]["stats"].values():
            epoch["train"]["gpu_max_cached_mem_GB"] = 3 * 10**9 / 2**30  # as ESPnet's reporter has it
        return state, *others

    monkeypatch.setattr(checkpoint, "load_run", on_gpu)
    (cost,) = measure([run(tmp_path)], Trials(tiny_run.model_dir), tmp_path / "costs.json", batches=5).values()
    assert cost.memory == pytest.approx(3)


def test_a_trial_that_fails_is_named_with_its_log(tiny_run, tmp_path):
    log = tmp_path / "exp" / "mine_old_trial.log"
    log.parent.mkdir()
    log.write_text("begins\nespnet-diverse train: error: there is no such key\nkilled\n")
    said = f"the trial of old failed; its log, {log}, says: espnet-diverse train: error: there is no such key$"
    with pytest.raises(TrainingError, match=said):
        measure([run(tmp_path)], Trials(tiny_run.model_dir, code=1), tmp_path / "costs.json", batches=5)


def test_a_stop_ends_the_trials(tiny_run, tmp_path):
    programs = Trials(tiny_run.model_dir, stops=True)
    assert measure([run(tmp_path), run(tmp_path, "new")], programs, tmp_path / "costs.json", batches=5) is None
    assert len(programs.calls) <= 2 and not (tmp_path / "costs.json").exists()


@pytest.mark.parametrize("stops", [True, False])
def test_trials_that_have_ended_are_kept_where_a_later_one_stops_or_fails(tiny_run, tmp_path, stops):
    class SecondEnds(Trials):
        def run(self, command, folder, log):
            is_second = any("mine_new_" in word for word in command)
            self.stopped, self.code = stops and is_second, int(is_second)
            log.parent.mkdir(exist_ok=True)
            log.touch()
            return super().run(command, folder, log)

    methods, path = [run(tmp_path), run(tmp_path, "new"), run(tmp_path, "third")], tmp_path / "costs.json"
    with nullcontext() if stops else pytest.raises(TrainingError, match="the trial of new failed"):
        assert measure(methods, SecondEnds(tiny_run.model_dir), path, batches=5) is None
    assert list(read_costs(path)) == ["old"] and not (tmp_path / "exp" / "mine_old_trial").exists()
    programs = Trials(tiny_run.model_dir)
    assert list(measure(methods, programs, path, batches=5)) == ["old", "new", "third"] and len(programs.calls) == 4


def test_a_trial_whose_log_lacks_the_batches_is_refused(tiny_run, tmp_path):
    trained = tmp_path / "trained"
    shutil.copytree(tiny_run.model_dir, trained)
    (trained / "train.log").write_text("begins\n")
    with pytest.raises(TrainingError, match="mine_old_trial/train.log does not state the number of batches; give --ti"):
        measure([run(tmp_path)], Trials(trained), tmp_path / "costs.json", batches=5)


def test_the_gpu_is_asked_for_in_a_process_of_its_own(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "asked: $2"; echo "No GPU" >&2; exit 1\n')
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    assert costs.gpu_model() == "asked: import torch; print(torch.cuda.get_device_name())"


def test_damaged_costs_are_refused(tmp_path):
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({"old": {"step": 1}}))
    with pytest.raises(ModelError, match="costs.json: is damaged .*; delete it, and the methods are timed again"):
        read_costs(path)


def test_the_time_of_a_training_matches_its_batches_validations_and_start():
    cost = Cost(step=0.5, memory=1, parameters=1, batches=100, validation=10, start=20)
    assert cost.seconds(3) == 20 + 3 * (50 + 10)
    assert cost.seconds(3, batches=8) == 20 + 3 * (4 + 10)
