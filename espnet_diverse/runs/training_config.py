"""The configuration of a training that continues from a trained model, made from its config.yaml.

config.yaml has every key of ESPnet with its value, paths of the machine, and values derived from the data. The model
may be from somebody else, so only keys that describe the model and its updates are taken over: no path, no number of
processes, nothing that costs memory without limit. The result is what a user would write: a fragment for
`espnet-diverse train`.
"""

import logging
from collections.abc import Mapping
from typing import Any

from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.config import as_lists
from espnet_diverse.runs.tasks import TASKS, TRAINED
from espnet_diverse.untrusted.foreign_config import OF_THE_MACHINE

log = logging.getLogger(__name__)

FILLED_IN = (
    *("output_dir", "ngpu", "collect_stats", "task"),
    *(f"{prefix}{key}" for prefix in ("", "src_") for key in ("token_list", "token_type", "bpemodel")),
    *(f"{phase}_{suffix}" for phase in ("train", "valid") for suffix in ("data_path_and_name_and_type", "shape_file")),
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
_TAKEN_OVER = {
    # the model
    *("init", "input_size", "ctc_conf", "joint_net_conf", "st_joint_net_conf", "aux_ctc_tasks", "ctc_sample_rate"),
    *("use_adapter", "adapter", "adapter_conf", "freeze_param", "unfreeze_param", "use_lang_prompt", "use_nlp_prompt"),
    # its texts
    *("cleaner", "g2p", "src_g2p", "use_preprocessor", "tokenizer_encode_conf", "src_tokenizer_encode_conf"),
    # its updates
    *("seed", "optim", "optim_conf", "scheduler", "scheduler_conf", "grad_clip", "grad_clip_type", "grad_noise"),
    *("exclude_weight_decay", "exclude_weight_decay_conf", "train_dtype", "use_amp", "repulsion", "sampling"),
    *("max_epoch", "patience", "val_scheduler_criterion", "early_stopping_criterion", "best_model_criterion"),
    *("keep_nbest_models", "num_iters_per_epoch", "log_interval"),
    # its batches
    *("batch_type", "valid_batch_type", "sort_in_batch", "sort_batch", "shuffle_within_batch", "drop_last_iter"),
}
"""Keys that another training takes over, besides the parts of the model and `_BOUNDED`."""
_BOUNDED = {
    **dict.fromkeys(("batch_size", "valid_batch_size", "accum_grad"), 10_000),
    **dict.fromkeys(("batch_bins", "valid_batch_bins"), 100_000_000),
}
"""Numbers that another training takes over up to a maximum, because they decide how much memory it needs."""
_OF_EACH_RUN = {
    *FILLED_IN,
    *NOT_HERE,
    *OF_THE_MACHINE,
    *("use_matplotlib", "num_att_plot", "fold_length", "ignore_init_mismatch", "init_known_tokens", "resume"),
    *("log_level", "use_tensorboard", "use_wandb", "keep_features"),
}
"""Keys that every training sets itself, so that nobody misses them."""
_NETS = ("encoder_conf", "decoder_conf", "lm_conf", "classifier_conf", "adapter_conf", "model_conf")


def training_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a run's configuration that another training of the same kind of model needs.

    One line of the log names changed keys that are left out because they name files or resources. Values of conditions
    are left out too: the data of the other training gives its own.

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
    parts = {choices.name for choices in task.class_choices_list} - {"preprocessor"} | {"model"}
    allowed = _TAKEN_OVER | parts | {f"{part}_conf" for part in parts}
    changed = {key: value for key, value in config.items() if as_lists(value) != as_lists(defaults.get(key))}
    selected = {
        key: _without_conditions(value) if key in _NETS else value
        for key, value in config.items()
        if key in defaults and (key in parts or key in changed and (key in allowed or _is_within(key, value)))
    }
    named = {key for key in changed if key in defaults and not key.startswith(("wandb_", "dist_"))}
    if omitted := sorted(named - selected.keys() - _OF_EACH_RUN):
        log.warning("of the model's configuration, %s are not taken over; give them by --set", ", ".join(omitted))
    if config.get("normalize") == "global_mvn":
        values = config.get("normalize_conf")
        options = {key: values[key] for key in (values if isinstance(values, Mapping) else ()) if key != "stats_file"}
        selected = {key: value for key, value in selected.items() if key != "normalize_conf"}
        selected |= {"normalize_conf": options} if options else {}
    return selected


def _is_within(key: str, value: Any) -> bool:
    """Return whether a number of `_BOUNDED` is a whole number up to its maximum."""
    return key in _BOUNDED and type(value) is int and 0 < value <= _BOUNDED[key]


def _without_conditions(value: Any) -> Any:
    """A section without the values of conditions that training fills in."""
    if not isinstance(value, Mapping):
        return value
    return {key: _without_conditions(item) for key, item in value.items() if key != "conditions"}
