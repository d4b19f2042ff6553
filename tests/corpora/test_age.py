"""Age: documents of authors, sets that share no author, and files that are broken or hostile."""

import pytest

from espnet_diverse.corpora import Selection, age
from espnet_diverse.errors import DataError

TRUTH = [*(f"a{number}:::MALE:::{'25-34' if number % 2 else '65-XX'}" for number in range(10)), "b:::FEMALE:::XX-XX"]
BOMB = (
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;">]><author><document>&d;</document></author>'
)


def author(*documents):
    return [
        "<author>",
        "<documents>",
        *(f"<document><![CDATA[{text}]]></document>" for text in documents),
        "</documents>",
        "</author>",
    ]


@pytest.fixture
def tree(write_texts):
    authors = {f"pan16/a{number}.xml": author(f"I am  {number}", "so &\nwhat") for number in range(10)}
    return write_texts({"pan16/truth.txt": [*TRUTH, ""], "pan16/b.xml": author("x")} | authors)


def test_sets_share_no_author(tree):
    sets = age.prepare(tree)
    assert {name: len(data.text) for name, data in sets.items()} == {"train": 16, "dev": 2, "test": 2}
    authors = [{utterance.partition("-")[0] for utterance in data.text} for data in sets.values()]
    assert sum(map(len, authors)) == 10 and set.union(*authors) == {f"a{number}" for number in range(10)}
    for data in sets.values():
        assert data.conditions["utt2domain"].keys() == data.text.keys()
        for utterance, label in data.conditions["utt2domain"].items():
            number = int(utterance[1])
            assert data.text[f"a{number}-00001"] == f"I am {number}" and data.text[f"a{number}-00002"] == "so & what"
            assert label == ("25-34" if number % 2 else "65-xx")
    assert sets["train"].dropped == {"b": "the age of this author is unknown"}
    other = age.prepare(tree / "pan16", Selection(split_seed=1, split_shares=(0.2, 0.2)))
    assert len(other["test"].text) == 4


@pytest.mark.parametrize(
    ("name", "lines", "what"),
    [
        ("a3.xml", ["<author>", "<document>"], "2: is no XML"),
        ("a3.xml", ["<author>", "&other;</author>"], r"2: is no XML \(undefined entity"),
        ("a3.xml", [BOMB], " defines entities, which PAN's files do not; get it again"),
        ("a3.xml", author(""), " document 1: has an empty text; correct it"),
        (
            "truth.txt",
            ["a1:::MALE"],
            "1: is 'a1:::MALE', and not author:::gender:::age with an age such as 25-34 or 65-xx",
        ),
        ("truth.txt", ["../a1:::MALE:::25-34"], "1: id '../a1' contains"),
        ("truth.txt", [TRUTH[0], TRUTH[0]], "2: author a0 is in line 1 too; remove one"),
        ("truth.txt", [TRUTH[0], "c:::MALE:::25-34"], "2: author c has no c.xml next to this file; get it again"),
        ("truth.txt", TRUTH[:2], " 2 authors cannot be divided into train dev test; give the data of more"),
    ],
)
def test_broken_and_hostile_files_are_named(tree, name, lines, what):
    path = tree / "pan16" / name
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(DataError, match=f"^{path}:{what}"):
        age.prepare(tree)


def test_faults_of_authors_and_documents_leave_them_out_alone(tree):
    (tree / "pan16" / "a3.xml").write_text("<author>\n")
    (tree / "pan16" / "truth.txt").open("a").write("c:::MALE:::25-34\nnothing\n")
    count = sum(len(data.text) for data in age.prepare(tree, Selection(on_bad="drop")).values())
    (tree / "pan16" / "a4.xml").write_text("".join(author("", "good")))
    sets = age.prepare(tree, Selection(on_bad="drop"))
    assert set().union(*(data.bad for data in sets.values())) == {"a3", "c", f"truth-line{len(TRUTH) + 3}", "a4-00001"}
    assert sum(len(data.text) for data in sets.values()) <= count


def test_a_folder_without_ages(tmp_path):
    with pytest.raises(
        DataError, match="there is no truth.txt here or below, with the age of each author; unpack PAN's"
    ):
        age.prepare(tmp_path)
