"""Yelp: reviews are drawn by a hash of their lines, and broken ones named."""

import json

import pytest

from espnet_diverse.corpora import Selection, yelp
from espnet_diverse.errors import ConfigError, DataError


def review(number, stars=None):
    text = f"Good food\n\nnumber  {number}."
    return json.dumps(
        {"review_id": str(number), "stars": float(number % 5 + 1) if stars is None else stars, "text": text}
    )


@pytest.fixture
def tree(write_texts):
    return write_texts({f"yelp_dataset/{yelp.FILE}": [review(number) for number in range(100)]})


def test_the_sets_are_drawn_once_for_all(tree, monkeypatch):
    sets = yelp.prepare(tree)
    assert {name: len(data.text) for name, data in sets.items()} == {"train": 80, "dev": 10, "test": 10}
    ids = [utterance.rpartition("-")[2] for data in sets.values() for utterance in data.text]
    assert len(set(ids)) == 100
    for data in sets.values():
        for utterance, text in data.text.items():
            number = int(utterance.rpartition("-")[2]) - 1
            assert text == f"Good food number {number}."
            assert data.conditions["utt2domain"][utterance] == str(number % 5 + 1)
    lines = (tree / "yelp_dataset" / yelp.FILE).read_text().splitlines()
    (tree / "yelp_dataset" / yelp.FILE).write_text("".join(f"{line}\n" for line in ["", *reversed(lines)]))
    turned = yelp.prepare(tree / "yelp_dataset", Selection(sets=("test",)))
    assert list(turned) == ["test"] and {*turned["test"].text.values()} == {*sets["test"].text.values()}
    monkeypatch.setattr(yelp, "SIZES", {"test": 2, "dev": 3, "train": 7})
    assert [len(data.text) for data in yelp.prepare(tree).values()] == [7, 3, 2]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (review(1, 6), "class 6 is none of 1 2 3 4 5; get the file again"),
        (review(1, 2.5), "class 2.5 is none of"),
        (review(1, True), "class True is none of"),
        (review(1, "5"), None),
        (json.dumps({"stars": 1}), "text None is no string"),
        (json.dumps({"text": "a"}), "class None is none of"),
        ("{", "is no JSON"),
    ],
)
def test_broken_reviews_are_named(tree, line, what):
    path = tree / "yelp_dataset" / yelp.FILE
    path.write_text("".join(f"{each}\n" for each in [*map(review, range(30)), line]))
    if what is None:
        stars = {u: label for data in yelp.prepare(tree).values() for u, label in data.conditions["utt2domain"].items()}
        assert [label for utterance, label in stars.items() if utterance.endswith("-00000031")] == ["5"]
        return
    with pytest.raises(DataError, match=f"^{path}:31: {what}"):
        yelp.prepare(tree)
    sets = yelp.prepare(tree, Selection(on_bad="drop")).values()
    assert sum(len(data.text) for data in sets) == 30 and sum(len(data.bad) for data in sets) == 1


def test_a_file_that_is_missing_or_too_short(tree, tmp_path):
    with pytest.raises(
        DataError, match="there is no yelp_academic_dataset_review.json, the reviews of Yelp's dataset; un"
    ):
        yelp.prepare(tmp_path)
    with pytest.raises(
        ConfigError, match="test cannot be renamed here, since the sets are drawn from one file; leave it"
    ):
        yelp.prepare(tree, Selection(set_names=(("test", "x"),)))
    (tree / "yelp_dataset" / yelp.FILE).write_text(f"{review(1)}\n")
    with pytest.raises(DataError, match="there are no texts for the set dev; get its files again"):
        yelp.prepare(tree)
