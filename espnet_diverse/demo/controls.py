"""Values of the page's controls, which are received as strings by name."""

from collections.abc import Mapping
from dataclasses import replace

from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import Rule, must_be

_MAX_BEAM_SIZE = 50  # because a request keeps the others waiting


def whole(choices: Mapping[str, str], name: str) -> int | None:
    """Parse the whole number `name`; None where it is missing or empty.

    Raises:
        ConfigError: The value is not a whole number.
    """
    value = choices.get(name)
    if not value:
        return None
    try:
        return int(value)
    except ValueError as error:
        raise must_be(name, "a whole number", value) from error


def search_options(options: SearchOptions, choices: Mapping[str, str]) -> SearchOptions:
    """Search options of a request: `options` with the chosen `beam_size` and `nbest`.

    Raises:
        ConfigError: A value is out of range.
    """
    chosen = {name: value for name in ("beam_size", "nbest") if (value := whole(choices, name)) is not None}
    for name, value in chosen.items():
        Rule(int, least=1, most=_MAX_BEAM_SIZE).check(name, value)
    options = replace(options, **chosen)
    if options.nbest > options.beam_size:
        raise ConfigError(f"nbest {options.nbest} is greater than beam_size {options.beam_size}; increase beam_size")
    return options


def condition_controls(known: KnownConditions, task: str, translates: bool = False) -> list[dict]:
    """Describe the controls of language, target language and domain.

    Args:
        known: The conditions that the model depends on.
        task: Task of the model.
        translates: Whether the model can also write another language than the spoken one.

    Returns:
        For each condition its `argument`, its `label`, the known values as `names`, and as `free` the label for making
        no choice, None if a value must be chosen.
    """
    controls = []
    for condition, names in known.names.items():
        is_target = condition == "tgtlang" and "lang" in known.names
        if is_target and task == "asr" and not translates:
            continue  # the text is in the language that is spoken
        default = f"default ({known.defaults[condition]})" if condition in known.defaults else None
        fallback = "identify it" if condition == "lang" and task != "mt" and len(names) > 1 else None
        fallback = "as spoken" if is_target and translates else fallback
        controls.append(
            {
                "argument": CONDITIONS[condition].argument,
                "label": CONDITIONS[condition].label.capitalize(),
                "names": list(names),
                "free": default or fallback,
            }
        )
    return controls
