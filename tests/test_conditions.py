from inspect import signature

import pytest

from espnet_diverse.bin.main import command_parser
from espnet_diverse.conditions import CONDITIONS, as_arguments, values_by_condition
from espnet_diverse.inference import Recognizer, Translator


def test_values_are_taken_from_arguments_and_given_back_as_arguments():
    arguments = {"language": "de", "target_language": None, "domain": "", "text": "x"}
    assert values_by_condition(arguments) == {"lang": "de"}
    assert as_arguments({"lang": "de", "domain": "read"}) == {"language": "de", "domain": "read"}


@pytest.mark.parametrize("function", [Recognizer.transcribe, Translator.translate])
def test_every_condition_is_an_argument_in_python(function):
    assert {condition.argument for condition in CONDITIONS.values()} <= set(signature(function).parameters)


@pytest.mark.parametrize("command", ["transcribe", "translate", "decode"])
def test_help_of_conditions_holds_for_speech_and_text(command):
    shown = " ".join(command_parser(command)[1].format_help().split())
    assert "language of the input: of the speech, or of the source text" in shown
    assert "language of the output text (default: that of the input)" in shown
    assert "domain of the recordings or texts" in shown
