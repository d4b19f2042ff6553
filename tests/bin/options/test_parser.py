"""Advice of the parser on values that are written in the form of another option, for every option of every command."""

import argparse

import pytest

from espnet_diverse.bin.main import COMMANDS, command_parser, main

MANY = ("*", "+", "?")
WORDS = ("1", "2")


def said(parser, words, capsys):
    """The last part of the error for a command line."""
    with pytest.raises(SystemExit) as stopped:
        parser.parse_intermixed_args(words)
    shown = capsys.readouterr().err
    assert stopped.value.code == 1 and shown.count("\n") == 1
    return shown.strip().split("; ")[-1] if "in quotes" not in shown else shown.strip().split("; ")[-2]


def options(name, several):
    """Options of a command that take several values at once, or one, after the words for its positional arguments."""
    parser = command_parser(name)[1]
    positional = parser._get_positional_actions()
    if not several and any(each.nargs in MANY for each in positional):
        return  # they take the second value
    for action in parser._get_optional_actions():
        takes_one = action.nargs is None and action.default is not argparse.SUPPRESS
        if (action.nargs == "+") if several else takes_one:
            yield parser, ["x"] * len(positional), action


@pytest.mark.parametrize("name", COMMANDS)
def test_two_values_of_an_option_of_one_are_found_whatever_is_missing(name, capsys):
    for parser, before, action in options(name, several=False):
        if action.choices or action.type not in (None, int, float, str):
            continue  # 1 is no value of it
        option = action.option_strings[0]
        name_of_value = action.metavar or ""
        advice = said(parser, [*before, option, *WORDS], capsys)
        if "=" in name_of_value:
            assert advice == f"write key=value: {option} 1=2"
        elif "," in name_of_value:
            assert advice == f"join the values with a comma: {option} 1,2"
        elif isinstance(action, argparse._AppendAction):
            assert advice == f"repeat the option: {option} 1 {option} 2"
        else:
            assert advice == f"{option} takes one value"


def test_options_of_each_form_are_tested():
    found = [(name, action.option_strings[0]) for name in COMMANDS for _, _, action in options(name, several=False)]
    assert len(found) > 250 and {("train", "--config"), ("decode", "--set"), ("decode", "--cluster")} <= {*found}


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("train --config a b", "join the values with a comma: --config a,b"),
        ("train --config=a b c --train_dir d", "join the values with a comma: --config a,b,c"),
        ("decode m --set max_epoch 3", "write key=value: --set max_epoch=3"),
        ("decode m --set max_epoch=3 lr=1", "repeat the option: --set max_epoch=3 --set lr=1"),
        ("decode m --precision int8 float32", "--precision takes one value"),
        ("serve --model a=b c=d", "repeat the option: --model a=b --model c=d"),
        ("align m a.wav --text good morning", "write it in quotes: --text 'good morning'"),
        ("contest a b --seeds 0,1", "separate the values by spaces: --seeds 0 1"),
        ("train --confg a b", "--confg: did you mean --config?"),
    ],
)
def test_advice(words, advice, capsys):
    with pytest.raises(SystemExit):
        main(words.split())
    assert capsys.readouterr().err.endswith(f"{advice}\n")


def test_values_with_a_comma_that_a_command_refuses_are_separated_in_its_error(tmp_path, capsys):
    (tmp_path / "text").write_text("a b\n")
    files = [
        "--reference",
        str(tmp_path / "text"),
        "--hypothesis",
        str(tmp_path / "text"),
        "--output_dir",
        str(tmp_path),
    ]
    assert main(["score", *files, "--metric", "cer,wer"]) == 1
    assert capsys.readouterr().err.endswith("; separate the values by spaces: --metric cer wer\n")


def test_an_error_without_such_values_has_no_advice_on_them(tmp_path, capsys):
    assert main(["transcribe", str(tmp_path / "a,b"), "talk.wav", "--beam_size", "3", "one.wav"]) == 1
    assert "takes one value" not in (shown := capsys.readouterr().err) and "separate" not in shown
