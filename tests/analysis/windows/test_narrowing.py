"""The greedy search for windows against all combinations of windows, on losses that are known."""

from itertools import product

import numpy as np
import pytest

from espnet_diverse.analysis.windows.narrowing import State, narrow, propose

LEVELS, SHAPE = 4, (2, 2)
START = State(np.full(SHAPE, LEVELS - 1), np.array([1.0, 3.0]))


def convex_losses(seed):
    """A function from levels to the losses of two utterances: each head adds more for each further step down."""
    random = np.random.default_rng(seed)
    steps = np.sort(random.random((*SHAPE, LEVELS - 1)), axis=-1)[..., ::-1]
    rises = np.concatenate([steps[..., ::-1].cumsum(-1)[..., ::-1], np.zeros((*SHAPE, 1))], axis=-1)

    def measure(levels, taken=None):
        rise = np.take_along_axis(rises, levels[..., None], -1).sum()
        return np.array([1.0, 3.0]) + np.array([rise / 2, 3 * rise / 2])

    return measure


def saved(levels, pairs):
    return sum(pairs[-1] - pairs[level] for level in levels.ravel())


def best(measure, pairs, most):
    """The greatest number of pairs that any windows save within the limit."""
    every = (np.array(levels).reshape(SHAPE) for levels in product(range(LEVELS), repeat=4))
    return max(saved(levels, pairs) for levels in every if measure(levels).mean() <= most)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rise", [0.3, 1.0, 2.5])
def test_equal_savings_are_those_of_the_best_of_all_combinations(seed, rise):
    measure, pairs = convex_losses(seed), [10, 20, 30, 40]
    path = narrow(START, measure, pairs, 2 + rise)
    assert saved(path[-1].levels, pairs) == best(measure, pairs, 2 + rise) > 0


@pytest.mark.parametrize("seed", range(8))
def test_halved_widths_save_nearly_as_much_as_the_best_of_all_combinations(seed):
    measure, pairs = convex_losses(seed), [10, 20, 40, 80]
    path = narrow(START, measure, pairs, 3)
    assert 0.75 * best(measure, pairs, 3) <= saved(path[-1].levels, pairs) <= best(measure, pairs, 3)


@pytest.mark.parametrize("seed", range(8))
def test_no_step_exceeds_the_limit_and_none_is_left_that_would_not(seed):
    random, memory = np.random.default_rng(seed), {}

    def measure(levels, taken=None):  # not additive, and sometimes better with narrower windows
        return memory.setdefault(levels.tobytes(), START.losses + random.normal(0.2, 0.5, 2))

    path = narrow(START, measure, [1, 2, 4, 8], 2.3)
    assert all(state.mean <= 2.3 for state in path[1:])
    for before, after in zip(path, path[1:], strict=False):
        assert (before.levels - after.levels).sum() == 1 and (after.levels >= 0).all()
        np.testing.assert_array_equal(after.losses, measure(after.levels))


def test_right_expectations_spare_measurements_and_wrong_ones_change_little():
    measure, pairs, results = convex_losses(3), [10, 20, 30, 40], {}
    exact = np.zeros((*SHAPE, LEVELS))
    for *head, level in np.ndindex(*SHAPE, LEVELS):
        levels = START.levels.copy()
        levels[tuple(head)] = level
        above = levels.copy()
        above[tuple(head)] = level - 1
        exact[(*head, level)] = measure(above).mean() - measure(levels).mean() if level else 0
    for name, expected in (("none", None), ("exact", exact), ("too high", exact + 9)):
        calls = []
        path = narrow(START, lambda x, _, calls=calls: calls.append(1) or measure(x), pairs, 2.8, expected)
        results[name] = len(calls), saved(path[-1].levels, pairs)
    assert results["exact"][0] < results["none"][0] and results["exact"][1] == results["none"][1]
    assert results["too high"][1] >= 0.7 * results["none"][1]


def test_of_steps_that_lower_the_loss_the_one_that_saves_most_is_first():
    start = State(np.array([[3, 1], [2, 3]]), np.array([1.0, 3.0]))

    def measure(levels, taken):
        return start.losses - 0.1 * (levels[0, 1] == 0) - 0.01 * (3 - levels[0, 0]) + (levels[1, 1] < 3)

    path = narrow(start, measure, [1, 2, 4, 8], 2.5)
    steps = [tuple(np.argwhere(a.levels != b.levels)[0]) for a, b in zip(path, path[1:], strict=False)]
    assert steps == [(0, 0), (0, 0), (1, 0), (0, 0), (0, 1), (1, 0)]


def test_an_additive_loss_leaves_no_step_within_the_limit():
    measure = convex_losses(0)
    last = narrow(START, measure, [1, 2, 4, 8], 2.9)[-1]
    for head in np.ndindex(*SHAPE):
        if last.levels[head] > 0:
            levels = last.levels.copy()
            levels[head] -= 1
            assert measure(levels).mean() > 2.9


@pytest.mark.parametrize("passes", [0, 1, 5, 9])
def test_no_more_passes_are_made_than_allowed(passes):
    calls = []
    measure = convex_losses(0)
    path = narrow(START, lambda levels, taken: calls.append(1) or measure(levels), [1, 2, 4, 8], 9.0, passes=passes)
    assert len(calls) == passes and len(path) <= 1 + passes


@pytest.mark.parametrize("most", [0, 2.0 + 1e-9, 2.4, 2.8, 4.0, 99])
def test_the_narrowest_proposal_within_the_limit_is_found_by_bisection(most):
    measure, calls = convex_losses(1), []
    offered = [(0.1 * level, np.full(SHAPE, level)) for level in (0, 1, 1, 2, 3)]  # equal ones are measured once
    tried = propose(offered, lambda levels, taken: calls.append(1) or measure(levels), most)
    within = [share for share, levels in offered if measure(levels).mean() <= most] or [offered[-1][0]]
    expected = next(levels for share, levels in offered if share == within[0])
    np.testing.assert_array_equal(tried[-1].levels, expected)
    assert len(calls) == len(tried) <= 4 and len({state.levels.tobytes() for state in tried}) == len(tried)


def test_a_proposal_that_is_taken_is_within_the_limit_whatever_the_losses_are():
    for seed in range(20):
        random, memory = np.random.default_rng(seed), {}
        offered = [(0.1 * level, np.full(SHAPE, level)) for level in range(LEVELS)]
        tried = propose(offered, lambda x, _: memory.setdefault(x.tobytes(), random.random(2)), 0.5)  # noqa: B023
        assert tried[-1].mean <= 0.5 or (tried[-1].levels == LEVELS - 1).all()
