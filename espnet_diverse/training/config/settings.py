"""Checks of the settings of a configuration, before data are read."""

from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.config import Config, located
from espnet_diverse.runs.criteria import check_forms
from espnet_diverse.runs.training_config import FILLED_IN, NOT_HERE
from espnet_diverse.training.config.number_checks import check_numbers
from espnet_diverse.training.data.sampling import read_sampling
from espnet_diverse.training.repulsion_options import read_repulsion

_OFF = (None, False, "", -1)  # their values in ESPnet's defaults

# ESPnet's plots take 10 seconds per epoch.
DEFAULTS = {
    "model": "diverse",
    "use_matplotlib": False,
    "num_att_plot": 0,
    "resume": True,
}


def check_settings(config: Config) -> None:
    """Check keys and values that are not the user's to set, or that no class of ESPnet checks.

    Raises:
        ConfigError: The configuration is wrong.
    """
    filled_in = [key for key in FILLED_IN if key in config]
    if filled_in:
        named = " ".join(filled_in)
        reason = f"key {named!r} is" if len(filled_in) == 1 else f"keys {named} are"
        them = "it" if len(filled_in) == 1 else "them"
        raise ConfigError(f"{config.origin(filled_in[0])}: {reason} filled in by the command line; remove {them}")
    for key, advice in NOT_HERE.items():
        if config.get(key) not in _OFF:
            raise ConfigError(f"{config.origin(key)}: key {key!r} is not supported; {advice}")
    if not config.get("resume", True):
        message = "key 'resume' can only be true; give --restart, which deletes what the run has saved"
        raise ConfigError(f"{config.origin('resume')}: {message}")
    if config.get("train_dtype") == "float16":
        message = "train_dtype float16 is not supported, as small updates of its parameters are lost; set use_amp: true"
        raise ConfigError(f"{config.origin('train_dtype')}: {message}")
    for key in ("iterator_type", "valid_iterator_type"):
        if config.get(key) in ("none", "task"):
            raise ConfigError(f"{config.origin(key)}: {key} {config[key]} is not supported; give sequence or chunk")
    check_numbers(config)
    check_forms(config)
    with located(config, "repulsion"):
        read_repulsion(config.get("repulsion"))
    with located(config, "sampling"):
        read_sampling(config.get("sampling"))
