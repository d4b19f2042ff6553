"""Texts with case and punctuation: their sources have neither; tables of transcripts keep their ids."""

import pytest

from espnet_diverse.corpora import Selection, punctuation
from espnet_diverse.errors import ConfigError, DataError

LINES = ["Wie spät ist es?", "Um 3.50 Uhr, sagt Anna's Oma.", "..."]


@pytest.fixture
def tree(write_texts):
    return write_texts({f"{name}.txt": LINES for name in ("train", "dev", "test")})


def test_sources_are_what_a_recogniser_of_scored_transcripts_writes(tree):
    data = punctuation.prepare(tree)["dev"]
    assert data.text == {"dev-0000001": LINES[0], "dev-0000002": LINES[1]}
    assert list(data.src_text.values()) == ["wie spät ist es", "um 3.50 uhr sagt anna's oma"]
    assert data.dropped == {"dev-0000003": "has no letters or digits"} and not data.conditions


def test_transcripts_of_a_data_directory_keep_their_ids(write_texts):
    tree = write_texts({"train/text": ["b-1 Ja.", "a-2 Nein!"]})
    data = punctuation.prepare(tree, Selection(sets=("train",)))["train"]
    assert data.src_text == {"b-1": "ja", "a-2": "nein"} and data.text["a-2"] == "Nein!"


def test_a_language_has_its_own_lower_case_and_tables(write_texts):
    tree = write_texts({"train.txt": ["ILIK"]})
    sets = {each: punctuation.prepare(tree, Selection(sets=("train",), languages=each)) for each in ((), ("tr",))}
    assert [data["train"].src_text for data in sets.values()] == [{"train-0000001": "ilik"}, {"train-0000001": "ılık"}]
    languages = sets["tr",]["train"].conditions
    assert languages == dict.fromkeys(("utt2lang", "utt2tgtlang"), {"train-0000001": "tr"})


def test_faulty_lines_are_refused_or_dropped(write_texts):
    tree = write_texts({"train.txt": ["Ja.", "", "a <unk> b", "a\x01b"]})
    only = {"sets": ("train",)}
    with pytest.raises(DataError, match="3 faults: .*train.txt:2: is an empty line; .*:3: .*<unk>.*:4: .*U.0001"):
        punctuation.prepare(tree, Selection(**only))
    data = punctuation.prepare(tree, Selection(**only, on_bad="drop"))["train"]
    assert list(data.text.values()) == ["Ja."] and len(data.bad) == 3


@pytest.mark.parametrize(
    ("files", "options", "error", "said"),
    [
        ({"train.txt": ["Ja."]}, {}, DataError, "has neither dev.txt nor dev/text for the set dev"),
        ({"train.txt": ["?!"]}, {"sets": ("train",)}, DataError, "no texts with letters for the set train"),
        ({"train.txt": ["Ja."]}, {"languages": ("de", "en")}, ConfigError, "languages de en: .* give one"),
    ],
)
def test_what_cannot_be_read_is_named(write_texts, files, options, error, said):
    with pytest.raises(error, match=said):
        punctuation.prepare(write_texts(files), Selection(**options))
