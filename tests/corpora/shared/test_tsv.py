import pytest

from espnet_diverse.corpora.shared.tsv import read_tsv
from espnet_diverse.errors import DataError


@pytest.fixture
def table(tmp_path):
    """table(content) -> the file."""

    def write(content):
        path = tmp_path / "t.tsv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_columns_come_in_the_order_asked_for(table):
    rows = read_tsv(table("path\tsentence\tage\na.mp3\tHallo\t\nb.mp3\tWelt\tfifties\n"), ("sentence", "path"))
    assert rows == [(2, ("Hallo", "a.mp3")), (3, ("Welt", "b.mp3"))]


def test_quotation_marks_are_literal_and_backslashes_escape(table):
    rows = read_tsv(table('sentence\n"Halb\n""Ja"", sagte er.\n\\"Nein\\", \\\\ ich.\n'), ("sentence",))
    assert [row.values[0] for row in rows] == ['"Halb', '""Ja"", sagte er.', '"Nein", \\ ich.']


def test_line_ends_blank_lines_and_byte_order_mark(table):
    rows = read_tsv(table("\ufeffpath\tsentence\r\n\r\na.mp3\tdoes\u2028not break\r\n"), ("path", "sentence"))
    assert rows == [(3, ("a.mp3", "does\u2028not break"))]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", ": is empty"),
        ("path\tage\n", ":1: has no column 'sentence'; it has path, age"),
        ("path\tsentence\na.mp3\n", ":2: has 1 columns, and the header has 2"),
        ("path\tsentence\na.mp3\tone\ttwo\n", ":2: has 3 columns, and the header has 2"),
        (b"path\tsentence\na.mp3\tcaf\xe9\n", ":2: not utf-8 at byte offset "),
    ],
)
def test_faults(table, content, what):
    path = table(content)
    with pytest.raises(DataError) as caught:
        read_tsv(path, ("path", "sentence"))
    assert str(caught.value).startswith(f"{path}{what}")


def test_missing_table(tmp_path):
    with pytest.raises(DataError, match=f"^{tmp_path}/t.tsv: cannot be read"):
        read_tsv(tmp_path / "t.tsv", ("path",))
