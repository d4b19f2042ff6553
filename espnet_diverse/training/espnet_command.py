"""Running ESPnet's commands inside this process: checked arguments in, a quiet console, everything in a log file."""

import inspect
import logging
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from espnet2.asr.ctc import CTC
from espnet2.tasks import abs_task

from espnet_diverse.errors import ConfigError
from espnet_diverse.registration import replaced_names
from espnet_diverse.training.config import Config, check_keys


@contextmanager
def logged(path: str | Path) -> Iterator[None]:
    """Append every log record and Python warning to the file `path`; show warnings and errors on the console too.

    ESPnet sets logging up once a process, with a call that does nothing while there are handlers. So each stage brings
    its own and takes them away at its end.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    root = logging.getLogger()
    level = root.level
    file = logging.FileHandler(path, encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s (%(module)s:%(lineno)d) %(levelname)s: %(message)s"))
    console = logging.StreamHandler(sys.stderr)
    console.setLevel(logging.WARNING)
    console.addFilter(lambda record: record.name != "py.warnings")  # of libraries; the user can do nothing about them
    console.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    before = root.handlers[:]
    # A library that logs while it is imported leaves a handler that would show everything.
    root.handlers[:] = [*(handler for handler in before if type(handler) is not logging.StreamHandler), file, console]
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.setLevel(level)
        root.handlers[:] = before
        for handler in (file, console):
            handler.close()


def check(task: type[abs_task.AbsTask], config: Config) -> None:
    """Refuse what the user cannot have meant, before anything is built.

    Raises:
        ConfigError: A key that the task or the class that it configures does not know, or the name of an unknown class.
    """
    check_keys(config, vars(task.get_parser().parse_args([])))
    tables = {choices.name: (choices.classes, choices.default) for choices in task.class_choices_list}
    if models := getattr(task, "models", None):  # of a task in which ESPnet's model is no choice
        tables["model"] = (models, "diverse")
    tables["optim"] = (abs_task.optim_classes, "adadelta")
    tables["scheduler"] = (abs_task.scheduler_classes, None)
    for name, (classes, default) in tables.items():
        chosen = config.get(name, default)
        if chosen is None:
            continue
        if not isinstance(chosen, str) or chosen.lower() not in classes:
            known = " ".join(sorted(classes))
            raise ConfigError(f"{config.origin(name)}: unknown {name} {chosen!r}; known: {known}")
        _check_section(config, f"{name}_conf", classes[chosen.lower()])
    _check_section(config, "ctc_conf", CTC)


def _check_section(config: Config, section: str, cls: type) -> None:
    if not isinstance(config.get(section, {}), dict | None):
        raise ConfigError(f"{config.origin(section)}: {section} is {config[section]!r}; it is a mapping of options")
    parameters = inspect.signature(cls).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        check_keys(config, parameters, section)


def check_gpus(ngpu: int) -> None:
    """Refuse a number of GPUs that this machine does not have."""
    there = torch.cuda.device_count()
    if not 0 <= ngpu <= there:
        raise ConfigError(f"--ngpu {ngpu} is not possible; this machine has {there} usable GPUs")


def run(task: type[abs_task.AbsTask], config: Config) -> None:
    """Run ESPnet's command (training, or statistics with `collect_stats`) with `config`, which `check` has seen."""
    parser = task.get_parser()
    parser.set_defaults(**config)
    args: Namespace = parser.parse_args([])
    with replaced_names(abs_task, print=_log_line):
        task.main(args=args)


def _log_line(*words: object, **_) -> None:
    """In place of ESPnet's print of the command line on stderr."""
    logging.info(" ".join(map(str, words)))
