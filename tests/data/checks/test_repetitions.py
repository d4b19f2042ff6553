from array import array

import numpy as np

from espnet_diverse.data.checks.repetitions import DIGEST, alike, in_both, most_of, same_digests


def test_the_majority_is_found():
    assert most_of([]) == ("", 0)
    assert most_of(["a", "b", "a", "a", "c"]) == ("a", 3)
    random = np.random.default_rng(0)
    texts = [*["x"] * 51, *map(str, range(50))]
    for _ in range(20):
        assert most_of([texts[index] for index in random.permutation(101)]) == ("x", 51)


def test_without_a_majority_the_count_says_so():
    text, count = most_of(["a", "b", "c", "a"])
    assert count == ["a", "b", "c", "a"].count(text) <= 2


def test_names_that_are_alike_follow_their_order():
    names = ["A", "B", "a", "c", "b", "ß", "ss"]
    assert list(alike(names, str.casefold)) == [("a", "A"), ("b", "B"), ("ss", "ß")]
    assert list(alike(["a", "b"], str.casefold)) == []
    assert list(alike([], str.casefold)) == []


def test_names_with_one_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr("builtins.hash", lambda _: 7)
    assert list(alike(["A", "b", "a"], str.casefold)) == [("a", "A")]


def test_equal_digests_are_given_with_the_first():
    digests = [bytes([number]) * DIGEST for number in (3, 1, 3, 2, 1, 3)]
    rows = array("q", [0, 2, 3, 5, 8, 9])
    assert list(same_digests(rows, bytearray(b"".join(digests)))) == [(3, 0), (8, 2), (9, 0)]
    almost = bytearray(bytes(DIGEST) + bytes(DIGEST - 1) + b"\1")
    assert list(same_digests(array("q", [0, 1]), almost)) == []
    assert list(same_digests(array("q"), bytearray())) == []


def test_common_elements_of_two_collections():
    some, others = {"a": "x", "b": "y", "c": "z", "d": "z"}, ["z", "w", "x", "x"]
    assert in_both(some.values(), others) == {"x", "z"}
    assert in_both([], others) == in_both(others, []) == in_both(["q"], others) == set()


def test_texts_with_one_hash_are_told_apart():
    class Odd(str):
        __slots__ = ()

        def __hash__(self):
            return 5

    assert in_both([Odd("a"), Odd("b")], [Odd("b"), Odd("c")]) == {Odd("b")}
