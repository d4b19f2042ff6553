"""The configuration of a training that continues from a trained model, made from its config.yaml.

config.yaml has every key of ESPnet with its value, paths of the machine, and values derived from the data. Without
them, the rest is what a user would write: a fragment for `espnet-diverse train`.
"""

from collections.abc import Mapping
from typing import Any

from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.config import as_lists
from espnet_diverse.runs.tasks import TASKS, TRAINED
from espnet_diverse.untrusted.foreign_config import OF_THE_MACHINE

FILLED_IN = (
    *("output_dir", "ngpu", "collect_stats", "task"),
    *(f"{prefix}{key}" for prefix in ("", "src_") for key in ("token_list", "token_type", "bpemodel")),
    *(f"{phase}_{what}" for phase in ("train", "valid") for what in ("data_path_and_name_and_type", "shape_file")),
)
"""Keys that follow from the arguments of the command line."""
NOT_HERE = {  # keys of ESPnet that would be ignored, or would leave nothing to average
    **dict.fromkeys(("dry_run", "print_config"), "give --list_options to see the settings"),
    "pretrain_path": "give init_param",
    "write_collected_feats": "training computes features itself; remove it",
    **dict.fromkeys(("multiple_iterator", "multi_task_dataset"), "a data directory is one set; remove it"),
    **dict.fromkeys(("sharded_ddp", "use_deepspeed", "deepspeed_config"), "training shares batches alone; remove it"),
    **dict.fromkeys(
        ("no_forward_run", "create_graph_in_tensorboard", "wandb_model_log_interval"),
        "the training loop does not have it; remove it",
    ),
    **dict.fromkeys(
        ("multiprocessing_distributed", "dist_world_size", "dist_rank", "local_rank", "dist_launcher"),
        "give --ngpu, --nproc and --num_nodes",
    ),
    **dict.fromkeys(
        ("dist_init_method", "dist_master_addr", "dist_master_port"), "give --rdzv_endpoint, and --num_nodes"
    ),
}
"""Keys of ESPnet's training that this one refuses, and what to do instead."""
_OF_PLACE = ("wandb_", "dist_", "use_wandb", "log_level", "resume")
_NETS = ("encoder_conf", "decoder_conf", "lm_conf", "classifier_conf", "adapter_conf", "model_conf")
_NOT_OURS = ("use_matplotlib", "num_att_plot", "fold_length", "ignore_init_mismatch", "init_known_tokens")
"""Keys for which `train` has values of its own, or that belong to the start of a run."""


def training_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a run's configuration that another training of the same kind of model needs.

    Values of conditions are left out: the data of the other training gives its own.

    Args:
        config: Configuration of the run, as `read_config` returns it.

    Raises:
        ConfigError: Models of this task are not trained here.
    """
    name = config.get("task", "asr")
    if name not in TRAINED:
        raise ConfigError(f"a model of task {name} is not trained by this package; those that are: {' '.join(TRAINED)}")
    task = TASKS[name]
    defaults = vars(task.get_parser().parse_args([]))
    parts = {choices.name for choices in task.class_choices_list} | {"model"}
    left = {*FILLED_IN, *NOT_HERE, *OF_THE_MACHINE, *_NOT_OURS}
    kept: dict[str, Any] = {}
    for key, value in config.items():
        if key not in defaults or key in left or key.startswith(_OF_PLACE):
            continue
        if key in parts or as_lists(value) != as_lists(defaults[key]):
            kept[key] = _without_conditions(value) if key in _NETS else value
    if config.get("normalize") == "global_mvn":
        given = config.get("normalize_conf")
        options = {key: given[key] for key in (given if isinstance(given, Mapping) else ()) if key != "stats_file"}
        kept = {key: value for key, value in kept.items() if key != "normalize_conf"}
        kept |= {"normalize_conf": options} if options else {}
    return kept


def _without_conditions(value: Any) -> Any:
    """A section without the values of conditions that training fills in."""
    if not isinstance(value, Mapping):
        return value
    return {key: _without_conditions(each) for key, each in value.items() if key != "conditions"}
