from espnet_diverse.runs import tasks
from espnet_diverse.training.loop.tasks import TASKS
from espnet_diverse.training.loop.trainer import Trainer


def test_they_are_the_tasks_of_runs_with_our_trainer():
    assert TASKS.keys() == tasks.TASKS.keys()
    for name, task in TASKS.items():
        assert issubclass(task, tasks.TASKS[name]) and task.trainer is Trainer
        assert task.name == name and task.__doc__ == tasks.TASKS[name].__doc__
        assert tasks.TASKS[name].trainer is not Trainer
