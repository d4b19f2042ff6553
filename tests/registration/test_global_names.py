from functools import wraps

import pytest

from espnet_diverse.registration import constructed, with_globals

FACTOR = 2


def scaled(x, *, power=1):
    return FACTOR * x**power


@wraps(scaled)
def decorated(x, *, power=1):
    raise AssertionError


class Base:
    def __init__(self, x):
        self.x = x


class Scaled(Base):
    def __init__(self, x, power=1):
        super().__init__(x)
        self.values = [FACTOR * each**power for each in (x,)]
        self.later = lambda: FACTOR


@pytest.mark.parametrize("function", [scaled, decorated])
def test_a_copy_reads_our_value_and_the_module_keeps_its_own(function):
    copy = with_globals(function, FACTOR=5)
    assert (copy(3), copy(3, power=2)) == (15, 45)
    assert copy.__name__ == "scaled" and copy.__defaults__ == scaled.__defaults__
    assert FACTOR == 2 and scaled(3) == 6


def test_an_object_is_constructed_with_our_value():
    made = constructed(Scaled, {"FACTOR": 5}, 3, power=2)
    assert type(made) is Scaled and (made.x, made.values, made.later()) == (3, [45], 5)
    assert Scaled(3).values == [6]


@pytest.mark.parametrize("name", ["Base", "factor", "power", "wraps"])
def test_a_name_that_is_not_read_is_refused(name):
    with pytest.raises(KeyError, match=rf"test_global_names\.scaled does not read a global {name}"):
        with_globals(scaled, **{name: 1})
