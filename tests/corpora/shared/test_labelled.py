"""Rows of files with classes, and the sets that they make."""

from pathlib import Path

import pytest

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.shared.labelled import LabelledReader, first_file, json_rows, refuse_empty, tab_rows
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import DataError

PLACE = (Path("f"), 7)


def test_rows_are_read_one_after_another(tmp_path):
    faults = []
    path = tmp_path / "rows"
    path.write_text('{"a": 1}\r\n\n{"a"\n{"b": "x"}\n')
    assert list(json_rows(path, faults)) == [(1, {"a": 1}), (4, {"b": "x"})] and [each.where for each in faults] == [3]
    path.write_bytes(b"a\tb\r\n1\t\n\xff\t2\n")
    assert list(tab_rows(path, faults))[0] == (2, {"a": "1", "b": ""})
    assert "not utf-8 at byte offset 8" in faults[1].what


def test_texts_and_pairs_with_their_classes():
    reader, data = LabelledReader(Selection(case="lower"), ["x"]), DataDir()
    reader.add(data, "u1", PLACE, "x", ["One \u200btext\n"])
    reader.add(data, "u2", PLACE, "x", ["First", "Second"])
    assert (data.text, data.src_text) == ({"u1": "one text", "u2": "second"}, {"u2": "first"})
    assert data.conditions == {"utt2domain": {"u1": "x", "u2": "x"}} and reader.faults.refused == []
    reader.add(data, "u3", PLACE, "y", ["One"])
    reader.add(data, "u4", PLACE, "x", ["One", ""])
    assert [str(fault).partition(";")[0] for fault in reader.faults.refused] == [
        "f:7: class 'y' is none of x",
        "f:7: has an empty text",
    ]


def test_missing_files_and_empty_sets_are_refused(tmp_path):
    (tmp_path / "b").write_text("")
    assert first_file(tmp_path, ["a", "b"], "the texts") == tmp_path / "b"
    with pytest.raises(DataError, match=f"^{tmp_path}: there is no a, the texts; get it$"):
        first_file(tmp_path, ["a", "c"], "the texts; get it")
    with pytest.raises(DataError, match="^d: there are no texts for the set dev; get its files again$"):
        refuse_empty({"train": DataDir(text={"u": "t"}), "dev": DataDir()}, Path("d"))
