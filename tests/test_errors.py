"""Errors that a user can correct."""

import json

import pytest

from espnet_diverse import errors
from espnet_diverse.bin.main import run_command
from espnet_diverse.errors import (
    ConfigError,
    DataError,
    InterruptedRunError,
    UserError,
    abridged,
    optional_package,
    prefixed,
)

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_a_user_error_which_callers_may_catch_as_a_value_error(kind):
    error = kind("a is wrong")
    assert isinstance(error, UserError) and isinstance(error, ValueError)
    assert str(error) == "a is wrong" and error.exit_code == (75 if kind is InterruptedRunError else 1)


def test_the_command_line_exits_with_the_code_of_the_error(monkeypatch, capsys):
    from espnet_diverse.bin.data import tokens

    class FullError(UserError):
        exit_code = 7

    def fail(args):
        raise FullError("the disk is full")

    monkeypatch.setattr(tokens, "run", fail)
    assert run_command("tokens", ["--text", "a", "--output_dir", "b"]) == 7
    assert capsys.readouterr().err == "espnet-diverse tokens: error: the disk is full\n"


def test_long_lists_are_abridged():
    assert abridged("abcde") == "a, b, c, d, e"
    assert abridged(map(str, range(8)), 2, " ") == "0 1 and 6 more"


def test_a_package_that_is_missing_is_named_with_its_extra():
    assert optional_package("json", "this test", "none") is json
    with pytest.raises(ConfigError, match=r"^x needs no_such_package; run: pip install 'espnet_diverse\[extra\]'$"):
        optional_package("no_such_package", "x", "extra")


def test_an_error_of_a_block_gets_a_prefix_and_one_of_another_kind_none():
    with pytest.raises(ConfigError, match="^here: a is wrong$"), prefixed("here"):
        raise ConfigError("a is wrong")
    with pytest.raises(DataError, match="^a is wrong$"), prefixed("here"):
        raise DataError("a is wrong")
    with pytest.raises(ConfigError, match="^here: a is wrong$"), prefixed("here", UserError):
        raise DataError("a is wrong")
