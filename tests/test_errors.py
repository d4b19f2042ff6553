"""Errors that a user can correct."""

import pytest

from espnet_diverse import errors
from espnet_diverse.bin.main import run_command
from espnet_diverse.errors import InterruptedRunError, UserError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type)]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_a_user_error_which_callers_may_catch_as_a_value_error(kind):
    error = kind("a is wrong")
    assert isinstance(error, UserError) and isinstance(error, ValueError)
    assert str(error) == "a is wrong" and error.exit_code == (75 if kind is InterruptedRunError else 1)


def test_the_command_line_exits_with_the_code_of_the_error(monkeypatch, capsys):
    from espnet_diverse.bin import tokens

    class FullError(UserError):
        exit_code = 7

    def fail(args):
        raise FullError("the disk is full")

    monkeypatch.setattr(tokens, "run", fail)
    assert run_command("tokens", ["--text", "a", "--output_dir", "b"]) == 7
    assert capsys.readouterr().err == "espnet-diverse tokens: error: the disk is full\n"
