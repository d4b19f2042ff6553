"""All keys of a configuration with their values, as `espnet-diverse train --list_options` prints them."""

import copy
import dataclasses

from espnet2.asr.ctc import CTC
from espnet2.tasks.abs_task import AbsTask
from espnet2.utils.get_default_kwargs import get_default_kwargs

from espnet_diverse.attention import CORES, PARTS, core_options
from espnet_diverse.runs.condition_names import fill_in_without_data
from espnet_diverse.runs.config import Config, in_one_line, leaves
from espnet_diverse.runs.config_checks import check, chosen_classes
from espnet_diverse.runs.criteria import check_forms
from espnet_diverse.runs.training_config import FILLED_IN, NOT_HERE
from espnet_diverse.training.config.number_checks import check_numbers
from espnet_diverse.training.config.settings import DEFAULTS
from espnet_diverse.training.espnet_command import arguments

_ATTENTIONS = ("attention", "cross_attention")


def list_options(task: type[AbsTask], config: Config) -> list[str]:
    """Return a line `key.sub = value` for each option of the classes that a configuration chooses.

    Args:
        task: Task of the model.
        config: The configuration; it may be empty.

    Raises:
        ConfigError: The configuration is wrong.
    """
    filled = copy.deepcopy(config)
    fill_in_without_data(filled)  # names that training takes from the data
    check(task, filled)
    values = Config()
    check_numbers(config)
    check_forms(config)
    settings = copy.deepcopy(config)
    settings.add({key: value for key, value in DEFAULTS.items() if key not in config}, {})
    values.update(vars(arguments(task, settings)))
    classes = chosen_classes(task, values) | ({"ctc": CTC} if "ctc_conf" in values else {})
    for name, chosen in classes.items():
        defaults = {key: value for key, value in (get_default_kwargs(chosen) or {}).items() if key not in values}
        values[f"{name}_conf"] = {**defaults, **(values.get(f"{name}_conf") or {})}
        for part in _ATTENTIONS if chosen.__module__.startswith("espnet_diverse.") else ():
            if part in values[f"{name}_conf"]:
                values[f"{name}_conf"][part] = _of_attention(values[f"{name}_conf"][part] or {})
    hidden = {*AbsTask.exclude_opts(), *FILLED_IN, *NOT_HERE}
    shown = {key: value for key, value in values.items() if key not in hidden}
    return [f"{key} = {in_one_line(value)}" for key, value in leaves(shown)]


def _of_attention(options: dict) -> dict:
    """Return the options of an attention with the defaults of its core."""
    core = options.get("core", "softmax")
    known = {field.name for field in dataclasses.fields(CORES[core].Options)} if core in CORES else set()
    chosen = core_options(core, {key: value for key, value in options.items() if key in known | {"preset"}})
    return {"core": core, "layers": None, **dict.fromkeys(PARTS), **options, **dataclasses.asdict(chosen)}
