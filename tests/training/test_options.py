"""Options of a training from Python: their checks, and the defaults of the commands."""

from dataclasses import fields

import pytest

from espnet_diverse import FineTuningOptions, TrainingOptions
from espnet_diverse.bin.main import command_parser
from espnet_diverse.option_checks import OptionError
from espnet_diverse.training.options import several


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"task": "art"}, "task must be one of asr st mt lm cls electra, but is 'art'"),
        ({"number": 0}, "number must be at least 1, but is 0"),
        ({"nproc": 0}, "nproc must be at least 1, but is 0"),
        ({"ngpu": 1.5}, "ngpu must be a whole number, but is 1.5"),
        ({"restart": "yes"}, "restart must be true or false, but is 'yes'"),
    ],
)
def test_a_wrong_value_is_refused(given, said):
    with pytest.raises(OptionError, match=said):
        TrainingOptions(**given)


@pytest.mark.parametrize(
    ("options", "command"),
    [(TrainingOptions, "train"), (TrainingOptions, "average"), (FineTuningOptions, "fine-tune")],
)
def test_defaults_are_those_of_the_commands(options, command):
    """Where a command declares a field by its rule, what is not given is None, and stands for the field's default."""
    _, parser = command_parser(command)
    declared = {action.dest: action for action in parser._actions}
    shared = [option for option in fields(options) if option.name in declared]
    assert len(shared) >= (1 if command == "average" else 6)
    for option in shared:
        action = declared[option.name]
        if action.default is None and option.default is not None:
            assert f"(default: {option.default})" in action.help
        else:
            default = list(option.default) if isinstance(option.default, tuple) else option.default
            assert action.default == default, option.name


def test_options_become_those_of_the_stage():
    given = TrainingOptions(ngpu=2, allow_changed="max_epoch", restart=True)
    assert given.of_training() == {
        "processes": {"ngpu": 2, "nproc": 1},
        "allow_changed": ["max_epoch"],
        "restart": True,
    }
    assert several(("a", "b")) == ["a", "b"]
