"""Learning curves from checkpoints."""

from espnet_diverse.contest.curves import read_curves
from espnet_diverse.contest.runs import RecipeRun
from espnet_diverse.runs.checkpoint import load_run

SHARED = {"config": "{}", "metric": "cer", "sets": ["test"], "baseline": "old"}


def run(folder, name, seed, trained):
    made = RecipeRun("mine", SHARED, name, seed, {"fragments": name}, folder)
    made.folder.parent.mkdir(exist_ok=True)
    made.folder.symlink_to(trained)
    return made


def test_the_statistics_of_validation_by_method_seed_and_epoch(tiny_run, tmp_path):
    runs = [run(tmp_path, name, seed, tiny_run.model_dir) for name in ("old", "new") for seed in (0, 1)]
    accuracy, loss = read_curves(runs)
    epochs = load_run(tiny_run.model_dir)[0]["reporter"]["stats"]
    assert accuracy.title == "accuracy of tokens" and list(accuracy.methods) == ["old", "new"]
    assert accuracy.methods["new"] == dict.fromkeys((0, 1), {n: epochs[n]["valid"]["acc"] for n in (1, 2)})
    # The model has auxiliary losses, so its total is not drawn.
    assert loss.title == "loss of the task"
    assert loss.methods["old"][0] == {n: epochs[n]["valid"]["loss_task"] for n in (1, 2)}


def test_there_are_none_of_no_run():
    assert read_curves([]) == []
