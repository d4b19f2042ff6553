"""Checks of values: accepted values, and messages about refused ones."""

from collections import Counter, OrderedDict
from math import inf, nan

import numpy as np
import pytest
import torch

from espnet_diverse.runs.stored import schema
from espnet_diverse.runs.stored.schema import MisfitError

FLOAT = torch.float32
PASSING = [
    (schema.whole(), 0),
    (schema.whole(1), np.int64(3)),
    (schema.number, nan),
    (schema.number, np.float32(1)),
    (schema.finite(0), 0.0),
    (schema.name, "a.b c"),
    (schema.plain, None),
    (schema.exactly(3), 3),
    (schema.optional(schema.plain), None),
    (schema.dense, torch.nn.Parameter(torch.full((2,), nan))),
    (schema.tensor(FLOAT, (2, 0)), torch.zeros(2, 0)),
    (schema.sequence(schema.plain, 2), (True, False)),
    (schema.row(schema.plain, schema.number), [True, 1]),
    (schema.table(schema.name, schema.number), OrderedDict(a=1)),
    (schema.fields({"a": schema.plain}), {"a": True, "b": object()}),
    (schema.like([1, {"a": 0.5}, None]), (7, {"a": 2.5}, 3)),
    (schema.like(inf), -inf),
    (schema.like(Counter([1, 5])), {1: 1, 5: 1}),
    (schema.like(-1), -5),
]
REFUSED = [
    (schema.whole(), True, "x is True; allowed is a whole number of at least 0"),
    (schema.whole(), 2**63, "x is 9223372036854775808; "),
    (schema.number, 10**400, "x is a number of 1329 bits; allowed is a number"),
    (schema.number, "1", "x is '1'; "),
    (schema.finite(), inf, "x is inf; allowed is a finite number"),
    (schema.finite(0), -0.5, "x is -0.5; allowed is a finite number of at least 0"),
    (schema.name, "a\nb", r"x is 'a\nb'; "),
    (schema.name, "\ud800", r"x is '\ud800'; "),
    (schema.name, "a" * 501, f"x is '{'a' * 50}...'; "),
    (schema.exactly("a"), "b", "x is 'b'; allowed is 'a'"),
    (schema.exactly(1), True, "x is True; allowed is 1"),
    (schema.dense, [1.0], "x is a list of 1; allowed is a tensor"),
    (schema.dense, torch.zeros(1).expand(3), "x is a tensor of float32 (3,); allowed is a tensor of real numbers that"),
    (
        schema.tensor(FLOAT, (2,)),
        torch.zeros(2, dtype=torch.int64),
        "x is a tensor of int64 (2,); allowed is a tensor of f",
    ),
    (schema.tensor(FLOAT, (2,)), torch.tensor([0, nan]), "x is not finite; "),
    (schema.sequence(schema.plain, 2), [True], "x is a list of 1; allowed is a list of 2"),
    (schema.sequence(schema.plain), [True, "3"], "x[1] is '3'; "),
    (schema.sequence(schema.plain), {True}, "x is a set; "),
    (schema.row(schema.plain, schema.number), [True, None], "x[1] is None; "),
    (schema.table(schema.name, schema.number), {1: 1}, "a key of x is 1; "),
    (schema.table(schema.name, schema.number), {"a": None}, "x['a'] is None; "),
    (schema.fields({"a": schema.plain}), {"b": 3}, "x is without a; allowed is a mapping with a"),
    (schema.fields({"a": schema.plain}, closed=True), {"a": True, "b": 3}, "a key of x is 'b'; allowed is a"),
    (schema.fields({"a": schema.plain}), [("a", True)], "x is a list of 1; allowed is a plain mapping"),
    (schema.like(2), 0, "x is 0; allowed is a finite number of at least 1"),
    (schema.like(0.5), nan, "x is nan; "),
    (schema.like("min"), "max", "x is 'max'; allowed is 'min'"),
    (schema.like(None), "text", "x is 'text'; "),
]


@pytest.mark.parametrize(("check", "value"), PASSING)
def test_allowed_values_pass(check, value):
    check(value, "x")


@pytest.mark.parametrize(("check", "value", "said"), REFUSED)
def test_refused_values_are_named_with_their_place(check, value, said):
    with pytest.raises(MisfitError) as error:
        check(value, "x")
    assert str(error.value).startswith(said) and str(error.value).isprintable()


def test_an_object_is_looked_at_once():
    seen = []
    check = schema.sequence(schema.table(schema.name, lambda value, _: seen.append(value)))
    check([{"a": (shared := [0]), "b": shared}] * 1000, "x")
    assert seen == [[0]]
