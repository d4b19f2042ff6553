"""Views of tables behave as the dicts that they stand for, in the order of the ids."""

import pytest

from espnet_diverse.data.table_views import Grouped, Joined, Mapped, Same, Without, in_order, items_in_order, lacking

A, B = {"a": "1", "c": "3", "e": "5"}, {"b": "2", "c": "4", "f": "6"}


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (Mapped(A, int), {"a": 1, "c": 3, "e": 5}),
        (Without(A, {"c", "x"}), {"a": "1", "e": "5"}),
        (Without(A, set(A)), {}),
        (Joined([A, {}, B]), {"a": "1", "b": "2", "c": "4", "e": "5", "f": "6"}),
        (Joined([B, A]), {"a": "1", "b": "2", "c": "3", "e": "5", "f": "6"}),
        (Joined([{}, {}]), {}),
        (Same(A, "x"), {"a": "x", "c": "x", "e": "x"}),
        (Grouped({"a": "x", "b": "x", "d": "y"}.items()), {"x": "a b", "y": "d"}),
        (Grouped({}.items()), {}),
        (Joined([Same(A, "x"), Without(B, {"c"})]), {"a": "x", "b": "2", "c": "x", "e": "x", "f": "6"}),
    ],
)
def test_a_view_is_the_dict_that_it_stands_for(view, expected):
    assert list(view) == list(view.keys()) == sorted(expected)
    assert list(view.items()) == [(key, expected[key]) for key in sorted(expected)]
    assert list(view.values()) == [expected[key] for key in sorted(expected)]
    assert view == expected and len(view) == len(expected) and bool(view) == bool(expected)
    assert {key: view[key] for key in expected} == expected
    for key in {*A, *B, "x"} - set(expected):
        assert key not in view
        with pytest.raises(KeyError):
            view[key]


def test_rows_come_sorted_from_dicts_in_any_order():
    table = {"b": 2, "a": 1}
    assert (list(in_order(table)), list(items_in_order(table))) == (["a", "b"], [("a", 1), ("b", 2)])
    view = Same({"a": "", "b": ""}, 1)
    assert (list(in_order(view)), list(items_in_order(view))) == (["a", "b"], [("a", 1), ("b", 1)])


def test_only_values_that_do_not_decrease_are_grouped():
    assert Grouped.can_group(A.items()) and Grouped.can_group({"a": "x", "b": "x"}.items()) and Grouped.can_group([])
    assert not Grouped.can_group({"a": "x", "b": "y", "c": "x"}.items())


def test_ids_that_a_table_lacks():
    assert (list(lacking(A, B)), list(lacking(B, A))) == (["b", "f"], ["a", "e"])
    assert (list(lacking(A, A)), list(lacking({}, A)), list(lacking(A, {}))) == ([], ["a", "c", "e"], [])
