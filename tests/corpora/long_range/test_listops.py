"""Generated lists, against an evaluator that rewrites the text from the innermost list outwards."""

import random
import re

import numpy as np
import pytest

from espnet_diverse.corpora import Selection, load_corpus
from espnet_diverse.corpora.long_range import listops
from espnet_diverse.errors import ConfigError, DataError

SMALL = Selection(lengths=(10, 90), counts=(60, 10, 10))
NAMES = {
    "<": np.min,
    ">": np.max,
    "~": lambda values: int(np.floor(np.median(values))),
    "+": lambda values: sum(values) % 10,
}
INNERMOST = re.compile(r"([<>~+])([0-9]+)\]")


def evaluate(text):
    """The value of a list of one-character tokens, by replacing an innermost list until a digit is left."""
    while len(text) > 1:
        text, found = INNERMOST.subn(lambda each: str(int(NAMES[each[1]]([*map(int, each[2])]))), text, count=1)
        assert found
    return int(text)


def nested(text):
    """The greatest depth, including digits, and the numbers of arguments of all lists."""
    depth, greatest, arguments, counts = 0, 0, [0], []
    for character in text:
        if character == "]":
            counts.append(arguments.pop())
            depth -= 1
            continue
        arguments[-1] += 1
        greatest = max(greatest, depth + 1)
        if character in "<>~+":
            depth += 1
            arguments.append(0)
    assert (depth, arguments) == (0, [1])
    return greatest, counts


def test_the_evaluator_knows_the_operations():
    texts = {">43<23]10~15892]]": 5, "~1289]": 5, "~12]": 1, "+999]": 7, "<>28]+99]]": 8}
    assert {text: evaluate(text) for text in texts} == texts
    assert nested(">43<23]1]") == (3, [2, 4])


def test_every_class_is_the_value_of_its_list(tmp_path):
    sets = listops.prepare(listops.generate(tmp_path / "listops", SMALL))
    depths, counts = set(), []
    for name, size in zip(("train", "dev", "test"), SMALL.counts, strict=True):
        texts, classes = sets[name].text, sets[name].conditions["utt2domain"]
        assert len(texts) == len(classes) == size and sets[name].is_text
        for utterance, text in texts.items():
            assert classes[utterance] == str(evaluate(text)) and 10 <= len(text) <= 90
            depth, arguments = nested(text)
            depths.add(depth)
            counts += arguments
    assert max(depths) > 3 and (min(counts), max(counts)) == (2, 10)
    everything = [text for data in sets.values() for text in data.text.values()]
    assert len(set(everything)) == len(everything) == 80


def test_lists_of_the_benchmark_are_as_long_and_deep_as_its_own():
    chance, drawn = random.Random(1), []
    while len(drawn) < 30:
        found = listops.draw(chance, *listops.LENGTHS)
        drawn += [] if found is None else [found]
    texts = [listops.characters(source)[0] for source, _ in drawn]
    assert all(500 < len(text) < 2000 for text in texts) and max(map(len, texts)) > 1200
    assert listops.LENGTHS == (501, 1999)  # its generator leaves out the bounds
    assert max(nested(text)[0] for text in texts) == 10
    assert [str(evaluate(text)) for text in texts] == [value for _, value in drawn]
    assert len({value for _, value in drawn}) > 5


def test_the_tables_depend_on_the_options_alone(tmp_path):
    def table(folder, **changed):
        options = Selection(**{"lengths": (10, 40), "counts": (8, 2, 2)} | changed)
        return (listops.generate(tmp_path / folder, options) / "train.tsv").read_text()

    first = table("a")
    assert table("b") == first == table("a") and first.startswith("Source\tTarget\n[")
    assert table("c", split_seed=1) != first
    assert table("a", lengths=(10, 50)) != first  # in the same folder: the others are replaced


def test_the_released_tables_are_read(write_texts):
    rows = ["Source\tTarget", "( ( ( [MAX 2 ) 9 ) ] )\t9", "( ( [SM 7 ) 8 ) ]\t5"]
    tree = write_texts({f"basic_{name}.tsv": rows for name in ("train", "val", "test")})
    found = listops.prepare(tree)["dev"]
    assert found.text == {"dev-0000002": ">29]", "dev-0000003": "+78]"}
    assert found.conditions["utt2domain"] == {"dev-0000002": "9", "dev-0000003": "5"}
    (tree / "basic_val.tsv").write_text("Source\tTarget\n[MAX 2 9 ]\t9\n[MAX 2 x ]\t3\n[MIN 1 1 ]\t12\n[MIN 1 1 ] 1\n")
    with pytest.raises(DataError, match=r"basic_val.tsv:3: has the token 'x'; known: \[MIN \[MAX") as raised:
        listops.prepare(tree)
    assert "basic_val.tsv:4: is not a text, a tab and a class: '[MIN 1 1 ]\\t12'" in str(raised.value)
    dropped = listops.prepare(tree, Selection(on_bad="drop"))["dev"]
    assert list(dropped.text) == ["dev-0000002"] and len(dropped.dropped) == 3


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"lengths": (9, 3)}, ConfigError, "--lengths 9 3: must be two numbers in order, the second at least 4"),
        ({"lengths": (1, 3)}, ConfigError, "the second at least 4"),
        ({"counts": (4, 0, 1)}, ConfigError, "--counts 4 0 1: must be 1 or more of each set"),
        (
            {"lengths": (4, 4), "counts": (401, 1, 1)},
            DataError,
            "no other text of 4 to 4 tokens was drawn; ask for fewer",
        ),
    ],
)
def test_invalid_lengths_and_counts_are_refused(options, error, text, tmp_path):
    """There are 400 lists of two digits."""
    with pytest.raises(error, match=text):
        listops.generate(tmp_path / "listops", Selection(**options))
    assert not (tmp_path / "listops").exists()


def test_a_folder_without_tables_is_named(tmp_path):
    with pytest.raises(DataError, match="has no train.tsv; give a folder of such tables, or --corpus synthetic"):
        load_corpus("listops").prepare(tmp_path)
    (tmp_path / "train.tsv").write_text("Source\tTarget\n")
    with pytest.raises(DataError, match="train.tsv: holds no text; get it again"):
        listops.prepare(tmp_path, Selection(sets=("train",)))
