"""Options: declarations of their values, errors, and names of former models."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from espnet_diverse.option_checks import (
    OptionError,
    Options,
    UnknownOptionError,
    assignments,
    choice,
    conflict,
    flag,
    hint,
    listed,
    needs,
    number,
    path,
    read,
    replaced,
    text,
    with_present_names,
)


@dataclass(frozen=True)
class Search(Options):
    mode: str = choice("all", "some", help="how to search")
    pool: int = number(8, least=1, help="number of heads", shown="8, all")
    rate: float = number(0.5, least=0, below=1, help="a rate")
    steps: float | None = number(None, above=0, most=9)
    scale: float | str = number(1.0, above=0, words=["learned"])
    tied: bool = flag(True)
    parts: tuple[str, ...] = listed("qk", of=choice("q", "k", "v"))
    chosen: int | list[int] = number(0, least=0, of=number(0, least=0).metadata["rule"])
    length: float = number(1.0, above=0, key="max_length")
    conditions: dict = field(default_factory=dict)
    seconds: float = number(1.0, above=0, most=math.inf)


def test_options_are_read():
    given: dict[str, Any] = {
        "pool": 3,
        "rate": 0,
        "steps": 9,
        "scale": "learned",
        "tied": False,
        "parts": ["v"],
        "chosen": [0, 7],
    }
    options = read(Search, given | {"mode": "some", "length": 2}, "search")
    assert options == Search("some", 3, 0, 9, "learned", False, ["v"], [0, 7], 2)
    assert Search() == Search("all", 8, 0.5, None, 1.0, True, ("q", "k"), 0, 1.0, {}, 1.0)
    assert Search(seconds=math.inf).seconds == math.inf


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("mode", "none", "mode must be one of all some, but is 'none'"),
        ("mode", ["all"], "mode must be one of all some, but is ['all']"),
        ("pool", 0, "pool must be at least 1, but is 0"),
        ("pool", 2.0, "pool must be a whole number, but is 2.0"),
        ("pool", True, "pool must be a whole number, but is True"),
        ("pool", None, "pool must be a whole number, but is None"),
        ("rate", 1, "rate must be at least 0 and below 1, but is 1"),
        ("rate", -0.1, "rate must be at least 0 and below 1, but is -0.1"),
        ("rate", math.nan, "rate must be a number, but is nan"),
        ("rate", "5e-4", "rate must be a number, but is '5e-4'; YAML reads 5e-4 as text, write 5.0e-4"),
        ("rate", "one", "rate must be a number, but is 'one'"),
        ("steps", 0, "steps must be above 0 and at most 9, but is 0"),
        ("steps", 10, "steps must be above 0 and at most 9, but is 10"),
        ("scale", 0, "scale must be above 0 or learned, but is 0"),
        ("scale", "great", "scale must be a number or learned, but is 'great'"),
        ("tied", 1, "tied must be true or false, but is 1"),
        ("parts", "q", "parts must be a list of at least 1, but is 'q'"),
        ("parts", [], "parts must be a list of at least 1, but is []"),
        ("parts", ["q", "o"], "parts must be one of q k v, but is 'o'"),
        ("chosen", -1, "chosen must be at least 0 or a list, but is -1"),
        ("chosen", "all", "chosen must be a whole number or a list, but is 'all'"),
        ("chosen", [0, 1.5], "chosen must be a whole number, but is 1.5"),
        ("length", math.inf, "max_length must be a finite number, but is inf"),
        ("length", -math.inf, "max_length must be a finite number, but is -inf"),
        ("seconds", 0, "seconds must be above 0, but is 0"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused(name, value, said):
    with pytest.raises(OptionError) as error:
        Search(**{name: value})
    assert str(error.value) == said
    assert error.value.name == said.split()[0]


def test_values_that_do_not_fit_each_other():
    error = needs(Search(), "mode", "a pool")
    assert (error.name, str(error)) == ("mode", "mode all needs a pool")
    assert str(conflict(Search(), "rate", "tied")) == "rate 0.5 cannot be combined with tied"


def test_an_unknown_option_is_refused():
    with pytest.raises(UnknownOptionError) as error:
        read(Search, {"pol": 3}, "search")
    assert str(error.value) == "unknown option 'pol' of search; did you mean 'pool'?"
    assert error.value.name == "pol"


def test_texts_paths_and_pairs_are_checked_by_their_form_alone():
    @dataclass(frozen=True, kw_only=True)
    class Named(Options):
        name: str = text()
        folder: Path | None = path(None)
        words: tuple[str, ...] = listed(())
        columns: tuple[tuple[str, str], ...] = assignments()
        count: int | None = number(None, kind=int)
        mode: str | None = choice("a", "b", none=True)

    named = Named(name="x")
    assert (named.folder, named.words, named.columns, named.count, named.mode) == (None, (), (), None, None)
    for name, value, said in (
        ("count", 0.5, "count must be a whole number, but is 0.5"),
        ("mode", "c", "mode must be one of a b, but is 'c'"),
        ("words", "ab", "words must be a list of at least 0, but is 'ab'"),
    ):
        with pytest.raises(OptionError, match=f"^{said}$"):
            Named(name="x", **{name: value})
    with pytest.raises(TypeError, match="name"):
        Named()


def test_a_field_is_declared_again_with_another_default():
    @dataclass(frozen=True)
    class Wider(Search):
        pool: int = replaced(Search, "pool", 12)

    assert Wider().pool == 12
    with pytest.raises(OptionError, match="pool must be at least 1"):
        Wider(pool=0)


def test_the_hint_is_the_most_similar_name_or_the_known_ones():
    assert hint("pol", ["pool", "conditions"], "selection") == "did you mean 'pool'?"
    assert hint("x", ["pool", "conditions"], "selection") == "known: pool conditions"
    assert hint("x", [], "attention 'softmax'") == "attention 'softmax' has no options"


def test_options_of_a_former_version_have_their_present_names():
    names = {"lang": ["de", "en"]}
    former = {
        "tasks": "an option of something else",
        "model_conf": {"tasks": names, "ctc_weight": 0.3},
        "encoder_conf": {"attention": {"selection": {"tasks": names, "default_task": {"lang": "de"}}}},
        "decoder_conf": {"start_tag": {"by": "lang", "tasks": names}, "tasks": 3},
        "optim_conf": None,
    }
    present = {
        "tasks": "an option of something else",
        "model_conf": {"conditions": names, "ctc_weight": 0.3},
        "encoder_conf": {"attention": {"selection": {"conditions": names, "default_condition": {"lang": "de"}}}},
        "decoder_conf": {"start_tag": {"by": "lang", "conditions": names}, "tasks": 3},
        "optim_conf": None,
    }
    assert with_present_names(former) == with_present_names(present) == present
    with pytest.raises(UnknownOptionError):  # of a new configuration
        read(Search, {"tasks": names}, "selection")
