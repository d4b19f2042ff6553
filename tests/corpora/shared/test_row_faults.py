"""Faults of lines that are refused or dropped, and files whose lines belong together."""

import logging

import pytest

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.shared.row_faults import RowFaults, parallel, read_lines, sound_lines
from espnet_diverse.data.faults import Fault
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import DataError

LINE, WHOLE = Fault("d/text", 3, "is odd"), Fault("d/text", None, "is empty")


def test_faults_are_refused_with_their_utterances_or_dropped():
    faults, data = RowFaults(Selection()), DataDir()
    faults.add(data, "u", LINE)
    faults.add_lines(data, "dev", [LINE, WHOLE])
    assert [fault.entry for fault in faults.refused] == ["u", "dev-line3", ""] and data == DataDir()
    with pytest.raises(DataError, match="^3 faults: d/text:3: is odd; also line 3; d/text: is empty$"):
        faults.refuse()
    faults = RowFaults(Selection(on_bad="drop"))
    faults.add(data, "u", LINE)
    faults.add_lines(data, "dev", [LINE, WHOLE])
    assert data.dropped == dict.fromkeys(["u", "dev-line3"], "text:3: is odd") and data.bad == {*data.dropped}
    assert faults.refused == [WHOLE]


@pytest.fixture
def rows(tmp_path):
    """rows(content, ...) -> rows of parallel files, and faults of whole files."""

    def read(*contents):
        whole, files = [], []
        for place, content in enumerate(contents):
            (tmp_path / f"{place}").write_bytes(content)
            files.append(read_lines(tmp_path / f"{place}", whole))
        found = parallel(files, whole)
        return [(row.line, row.texts, row.fault and row.fault.where) for row in found], list(map(str, whole))

    return read


@pytest.mark.parametrize("other", [b"x\ny\n", b"x\ny", b"x\ny\n\n", b"x\ny\n\n\t \n"])
def test_blank_lines_at_the_end_belong_to_no_row(rows, other, caplog):
    with caplog.at_level(logging.WARNING):
        assert rows(b"a\nb\n\n", other) == ([(1, ("a", "x"), None), (2, ("b", "y"), None)], [])
    assert "blank line at the end (1)" in caplog.text


def test_a_blank_line_beside_a_text_is_a_row(rows):
    assert rows(b"a\n\nc\n\n", b"x\ny\n\nz\n")[0] == [
        (number, texts, None) for number, texts in enumerate([("a", "x"), ("", "y"), ("c", ""), ("", "z")], 1)
    ]


def test_other_lengths_are_a_fault_of_the_file_and_hide_none_of_a_line(rows, tmp_path):
    what = "has 3 lines, and 0 has 2; parallel files are equally long: get both again"
    found, whole = rows(b"a\nb\x01\n", b"x\ny\nz\n")
    assert found == [] and whole[0] == f"{tmp_path}/1: {what}" and "0:2: transcript contains" in whole[1]


def test_a_row_has_the_first_fault_of_its_lines(rows):
    assert rows(b"a\nb\xff\n", b"x\x01\ny\x01\n")[0] == [(1, ("a", "x\x01"), 1), (2, ("b\ufffd", "y\x01"), 2)]


def test_sound_lines(tmp_path):
    (tmp_path / "text").write_bytes(b"a\n\xff\nc\n")
    faults = []
    assert list(sound_lines(tmp_path / "text", faults)) == [(1, "a"), (3, "c")]
    assert [fault.where for fault in faults] == [2]
