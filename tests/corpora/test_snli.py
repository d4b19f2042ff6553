"""SNLI: pairs of both layouts, and lines that are broken or hostile."""

import json

import pytest

from espnet_diverse.corpora import Selection, snli
from espnet_diverse.errors import DataError

PAIRS = [
    ("neutral", "A man  sleeps.", "He is\ttired."),
    ("-", "A dog runs.", "It is big."),
    ("entailment", "Two Men run.", "Men run."),
    ("contradiction", "A cat sits.", "No cat is there."),
]
HEADER = "gold_label\tsentence1_binary_parse\tsentence1\tsentence2\tlabel1\tlabel2"


def row(label, premise, hypothesis, **more):
    return json.dumps(
        {"annotator_labels": [label], "gold_label": label, "sentence1": premise} | more | {"sentence2": hypothesis}
    )


@pytest.fixture
def tree(write_texts):
    lines = [row(*pair) for pair in PAIRS]
    tabs = [HEADER, *("\t".join((label, "( x )", one, two.replace("\t", " "), label, "")) for label, one, two in PAIRS)]
    return write_texts(
        {f"snli_1.0/snli_1.0_{name}.jsonl": lines for name in ("train", "dev")} | {"snli_1.0/snli_1.0_test.txt": tabs}
    )


def test_pairs_of_both_layouts(tree):
    sets = snli.prepare(tree)
    assert list(sets) == ["train", "dev", "test"] and sets["train"].is_text
    assert sets["dev"].src_text == {
        "dev-0000001": "A man sleeps.",
        "dev-0000003": "Two Men run.",
        "dev-0000004": "A cat sits.",
    }
    assert sets["dev"].text["dev-0000001"] == "He is tired."
    labels = ["neutral", "entailment", "contradiction"]
    assert list(sets["dev"].conditions["utt2domain"].values()) == labels
    assert sets["dev"].dropped == {"dev-0000002": "label -: the annotators did not agree"}
    assert list(sets["test"].text.values()) == list(sets["dev"].text.values())  # a line further down
    assert sets["test"].text.keys() == {"test-0000002", "test-0000004", "test-0000005"}
    lower = snli.prepare(tree / "snli_1.0", Selection(case="lower", sets=("dev",)))
    assert lower["dev"].src_text["dev-0000003"] == "two men run."


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"gold_label": "neutral"', "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[1]", r"is \[1\]; a line is an object"),
        (row("neutral", "a", "b").replace("sentence2", "sentence3"), "has no sentence2; get the file again"),
        (row("maybe", "a", "b"), "class 'maybe' is none of entailment contradiction neutral; get the file again"),
        (row(["neutral"], "a", "b"), r"class \['neutral'\] is none of"),
        (row("neutral", "", "b"), "has an empty text; correct it"),
        (row("neutral", 3, "b"), "text 3 is no string"),
        (row("neutral", "a", "\ud83d"), "text has half of a surrogate pair"),
        (row("neutral", "a <unk>", "b"), "transcript contains the reserved symbol <unk>"),
    ],
)
def test_broken_lines_are_named(tree, line, what):
    path = tree / "snli_1.0" / "snli_1.0_dev.jsonl"
    path.write_text(f"{row(*PAIRS[0])}\n{line}\n")
    with pytest.raises(DataError, match=f"^{path}:2: {what}") as caught:
        snli.prepare(tree)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_texts_that_cannot_be_read_are_left_out_if_that_is_asked_for(tree):
    path = tree / "snli_1.0" / "snli_1.0_dev.jsonl"
    path.write_text(f"{row(*PAIRS[0])}\n{row('neutral', ' ', 'b')}\n{row('neutral', 'a', chr(7))}\n{{\n{{}}\n")
    data = snli.prepare(tree, Selection(on_bad="drop", sets=("dev",)))["dev"]
    assert list(data.text) == ["dev-0000001"] and data.bad == {*data.dropped}
    assert sorted(data.dropped) == ["dev-0000002", "dev-0000003", "dev-0000005", "dev-line4"]


def test_columns_and_files_that_are_missing(tree, tmp_path):
    path = tree / "snli_1.0" / "snli_1.0_test.txt"
    path.write_text(f"{HEADER}\nneutral\t( x )\ta\n")
    with pytest.raises(DataError, match=f"^{path}:2: has 3 columns, and the first line has 6; get the file again$"):
        snli.prepare(tree)
    path.write_text(f"{HEADER}\n")
    with pytest.raises(DataError, match="there are no texts for the set test; get its files again"):
        snli.prepare(tree)
    with pytest.raises(
        DataError, match="there is no snli_1.0_train.jsonl, nor the same as .txt; unpack snli_1.0.zip the"
    ):
        snli.prepare(tmp_path)
