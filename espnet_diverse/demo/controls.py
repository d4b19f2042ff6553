"""Values of the page's controls, which arrive as texts by name."""

from collections.abc import Mapping
from dataclasses import replace

from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.options import Options
from espnet_diverse.errors import ConfigError

_WIDEST = 50  # hypotheses: enough, and one request keeps the others waiting


def whole(choices: Mapping[str, str], name: str) -> int | None:
    """The whole number under `name`; None where there is none.

    Raises:
        ConfigError: It is something else.
    """
    value = choices.get(name)
    if not value:
        return None
    try:
        return int(value)
    except ValueError as error:
        raise ConfigError(f"{name} {value!r} is no whole number") from error


def search_options(options: Options, choices: Mapping[str, str]) -> Options:
    """`options` with the beam size and number of texts that were chosen.

    Raises:
        ConfigError: One of them is out of range.
    """
    chosen = {name: value for name in ("beam_size", "nbest") if (value := whole(choices, name)) is not None}
    for name, value in chosen.items():
        if not 1 <= value <= _WIDEST:
            raise ConfigError(f"{name} {value} is not allowed; it lies between 1 and {_WIDEST}")
    options = replace(options, **chosen)
    if options.nbest > options.beam_size:
        raise ConfigError(f"nbest {options.nbest} is more than beam_size {options.beam_size} texts; raise beam_size")
    return options


def condition_controls(known: KnownConditions, task: str) -> list[dict]:
    """The controls by which a user says which language and domain it is.

    Args:
        known: What the model knows.
        task: What it does.

    Returns:
        For each condition its `argument`, its label, the names that the model knows, and what leaving it open
        means, None where it may not be left open.
    """
    controls = []
    for condition, names in known.names.items():
        if task == "asr" and condition == "tgtlang" and "lang" in known.names:
            continue  # the text is in the language that is spoken
        default = f"default ({known.defaults[condition]})" if condition in known.defaults else None
        found = "find it" if condition == "lang" and task != "mt" and len(names) > 1 else None
        controls.append(
            {
                "argument": CONDITIONS[condition].argument,
                "label": CONDITIONS[condition].label.capitalize(),
                "names": list(names),
                "free": default or found,
            }
        )
    return controls
