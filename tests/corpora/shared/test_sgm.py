"""Segments of sgm and xml files, paired by document and id."""

import pytest

from espnet_diverse.corpora.shared.bitext import Files
from espnet_diverse.corpora.shared.row_faults import Lines, read_lines
from espnet_diverse.corpora.shared.sgm import find_segments, pair_segments
from espnet_diverse.errors import DataError

NAMES = ("test-src.{}.sgm", "test-ref.{}.sgm")


@pytest.fixture
def paired(tmp_path):
    """paired(source lines, target lines) -> lines and texts of the pairs, and the faults."""

    def pair(*sides):
        read = []
        for name, lines in zip(("a.sgm", "b.sgm"), sides, strict=True):
            (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
            read.append(read_lines(tmp_path / name, []))
        pairs, faults = pair_segments(read)
        return [(one.line, one.text, other.text) for one, other in pairs], [str(fault) for fault in faults]

    return pair


def segments(line: str) -> list[str]:
    side = Lines(NAMES, [line], {})
    return [one.text for one, _ in pair_segments([side, side])[0]]


def test_texts_of_segments():
    assert segments('<seg id="12"> a &lt;b&gt; </seg>') == ["a <b>"]
    assert segments('<seg id="12">hello&#160;world &#8203;x</seg>') == ["hello world x"]
    assert segments("<p><SEG ID=3>x</SEG><seg id=4>y</seg></p>") == ["x", "y"]
    assert segments("  <seg id='1'></seg>") == [""]
    assert [segments(line) for line in ("</doc>", "plain", "")] == [[]] * 3


def test_other_markup_and_another_order_change_no_pair(paired):
    first = [
        '<doc docid="x">',
        "<seg id=1>x1</seg>",
        "<seg id=2>x2</seg>",
        "<DOC sysid='s' docid='y'>",
        "<seg id=1>y</seg>",
    ]
    other = ["<translator>T</translator>", "<doc docid=y>", "<seg id=1>Y</seg>", "<doc docid=x>", "<hl>"]
    other += ["<seg id=2>X2</seg>", "<seg id=1>X1</seg>", "</hl>"]
    assert paired(first, other) == ([(2, "x1", "X1"), (3, "x2", "X2"), (5, "y", "Y")], [])


def test_documents_without_names_or_with_one_name_are_counted(paired):
    lines = ["<doc>", "<seg id=1>a</seg>", "<doc>", "<seg id=1>b</seg>"]
    assert paired(lines, lines) == ([(2, "a", "a"), (4, "b", "b")], [])


def test_segments_on_one_side_alone_are_faults_of_their_lines(paired, tmp_path):
    first = ["<doc docid=7>", "<seg id=1>a</seg>", "<seg id=2>b</seg>", "<seg id=1>c</seg>"]
    other = ["<doc docid=7>", "<seg id=1>A</seg>", "<seg id=3>B", "<seg id=4>D</seg>"]
    pairs, faults = paired(first, other)
    assert pairs == [(2, "a", "A")]
    assert faults == [
        f"{tmp_path}/a.sgm:4: segment 1 of document 7 is also in line 2; remove one",
        f"{tmp_path}/b.sgm:3: has no <seg id=N>text</seg>, but '<seg id=3>B'; write it so",
        f"{tmp_path}/a.sgm:3: segment 2 of document 7 is not in b.sgm; get both files again",
        f"{tmp_path}/b.sgm:4: segment 4 of document 7 is not in a.sgm; get both files again",
    ]


def test_files_are_found_in_any_folder_by_side(tmp_path):
    for name in ("b/test-src.de.sgm", "a/x/test-ref.en.sgm", "a/test-ref.de.sgm", "c/test-src.de.sgm"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    expected = Files(tmp_path / "b/test-src.de.sgm", tmp_path / "a/x/test-ref.en.sgm")
    assert find_segments(tmp_path, NAMES, "de-en") == expected
    with pytest.raises(DataError, match=f"^no test-src.en.sgm in {tmp_path} or its folders; unpack its archive there$"):
        find_segments(tmp_path, NAMES, "en-de")
