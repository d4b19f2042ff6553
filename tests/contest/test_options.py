"""Options of a contest: the budget in words, and values that are refused."""

import pytest

from espnet_diverse.contest.options import Budget, Conduct
from espnet_diverse.errors import ConfigError


@pytest.mark.parametrize("name", ["epochs", "updates", "patience"])
def test_a_budget_is_a_number(name):
    with pytest.raises(ConfigError, match=f"{name} must be at least 1, but is 0"):
        Budget(**{name: 0})


def test_a_budget_is_told_in_words():
    assert str(Budget()) == "the epochs of the configuration"
    said = "40 updates, 5 epochs, ends after more than 2 epochs without an improvement"
    assert str(Budget(epochs=5, updates=40, patience=2)) == said


@pytest.mark.parametrize(
    ("options", "said"),
    [({"drop_behind": -1.0}, "drop_behind must be above 0"), ({"utterances": -1}, "analyse must be at least 0")],
)
def test_the_conduct_is_checked(options, said):
    with pytest.raises(ConfigError, match=said):
        Conduct(**options)
