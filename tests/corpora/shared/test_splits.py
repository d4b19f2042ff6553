"""Sets: known by several names, or drawn without a speaker in two of them."""

import random
from collections import Counter

import pytest

from espnet_diverse.corpora import EVERYTHING, Selection
from espnet_diverse.corpora.shared.splits import SETS, connected, draw_sets, hashed_set, set_of
from espnet_diverse.errors import DataError


@pytest.mark.parametrize(
    ("split", "name"),
    [("train", "train"), ("Validation", "dev"), ("val", "dev"), ("valid", "dev"), ("TEST", "test"), ("cv", None)],
)
def test_names_of_sets(split, name):
    assert set_of(split, EVERYTHING) == name


def test_names_that_are_given_replace_the_known_ones():
    selection = Selection(set_names=(("train", "tr"), ("dev", "cv")))
    assert [set_of(split, selection) for split in ("tr", "cv", "test", "train", "TR")] == [
        *("train", "dev", "test"),
        *(None, None),
    ]


def test_items_that_share_a_key_are_one_group():
    links = [["b", "x"], ["c"], ["y", "a"], ["x", "y"], ["d"]]
    assert connected(links) == ["a", "c", "a", "a", "d"]
    chance = random.Random(0)
    links = [[f"s{chance.randrange(60)}", f"r{chance.randrange(60)}"] for _ in range(80)]
    groups = dict(zip(map(tuple, links), connected(links), strict=True))
    shuffled = chance.sample(links, len(links))
    assert dict(zip(map(tuple, shuffled), connected(shuffled), strict=True)) == groups
    for one in links:  # naive: whatever is reachable has the same group
        reached, size = set(one), 0
        while size != len(reached):
            size = len(reached)
            reached |= {key for keys in links if reached & {*keys} for key in keys}
        assert groups[tuple(one)] == min(reached)


def drawn(sizes, **options):
    groups = [group for group, size in sizes.items() for _ in range(size)]
    sets = draw_sets(groups, Selection(**options))
    counts = Counter(sets[group] for group in groups)
    assert sets.keys() == sizes.keys()
    return sets, counts


def test_shares_are_kept_and_every_set_has_rows():
    _, counts = drawn({f"s{number}": 1 for number in range(100)})
    assert counts == {"train": 80, "dev": 10, "test": 10}
    _, counts = drawn({f"s{number}": 5 for number in range(20)}, split_shares=(0.2, 0.3))
    assert counts == {"train": 50, "dev": 20, "test": 30}


def test_large_speakers_stay_in_training_and_few_speakers_give_the_smallest_away():
    sets, _ = drawn({"large": 90, "b": 6, "c": 4})
    assert sets["large"] == "train" and {sets["b"], sets["c"]} == {"dev", "test"}
    sets, _ = drawn({"a": 60, "b": 5, "c": 35})
    assert sets["a"] == "train" and {sets["b"], sets["c"]} == {"dev", "test"}
    sets, _ = drawn({"a": 1, "b": 1, "c": 8}, split_shares=(0.1, 0.4))
    assert sorted(sets.values()) == sorted(SETS)


def test_the_draw_depends_on_the_seed_and_hardly_on_new_speakers():
    sizes = {f"s{number}": 1 for number in range(50)}
    first, _ = drawn(sizes)
    assert drawn(dict(reversed(sizes.items())))[0] == first
    assert drawn(sizes, split_seed=1)[0] != first
    more, _ = drawn(sizes | {"new": 1})
    assert sum(more[name] != first[name] for name in sizes) <= 2


def test_only_wanted_sets_are_drawn():
    sizes = {f"s{number}": 1 for number in range(20)}
    assert drawn(sizes, sets=("test",))[1] == {"test": 20}
    assert drawn(sizes, sets=("dev", "test"))[1] == {"dev": 10, "test": 10}
    assert drawn(sizes, sets=("train", "test"))[1] == {"train": 18, "test": 2}


def test_too_few_groups():
    todo = "name the set of each row in a column split, add recordings, or draw by file with --split_by audio"
    with pytest.raises(DataError) as caught:
        drawn({"anna": 9, "ben": 9})
    assert str(caught.value) == f"2 speakers or groups of them cannot be divided into train, dev, test; {todo}"
    with pytest.raises(DataError, match=r"; name the set of each row in a column split or add recordings$"):
        drawn({"a": 1}, split_by="audio")


def test_a_hash_draws_the_set_of_a_key():
    keys = [f"key{number}" for number in range(2000)]
    drawn = {key: hashed_set(key, Selection(split_shares=(0.1, 0.3))) for key in keys}
    counts = Counter(drawn.values())
    assert 150 < counts["dev"] < 250 and 520 < counts["test"] < 680 and len(counts) == 3
    assert drawn != {key: hashed_set(key, Selection(split_shares=(0.1, 0.3), split_seed=1)) for key in keys}
