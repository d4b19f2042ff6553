"""Training of a task in one process or in several."""

from espnet_diverse.runs.config import Config
from espnet_diverse.training import espnet_command
from espnet_diverse.training.distributed.processes import Processes
from espnet_diverse.training.loop.tasks import TASKS


def run(task: str, config: Config, processes: Processes) -> None:
    """Run ESPnet's training command, in this process or in several.

    Args:
        task: Name of the task, a key of `TASKS`.
        config: The checked configuration; its output_dir must be the same folder on all machines.
        processes: The processes.

    Raises:
        UserError: What a process raised; a `TrainingError` if processes were killed too often, an
            `InterruptedRunError` if this process was asked to stop.
    """
    if processes.of_machine * processes.num_nodes == 1:
        espnet_command.run(TASKS[task], config)
        return
    # A third of a second, which one process does not need.
    from espnet_diverse.training.distributed.elastic import launch

    launch(task, config, processes)
