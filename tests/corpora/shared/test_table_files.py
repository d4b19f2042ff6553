"""Tables as people write them: quotes, tabs, byte order marks, CRLF, semicolons, JSON; and what is wrong with them."""

import gzip

import pytest

from espnet_diverse.corpora.shared.table_files import Row, read_table_file
from espnet_diverse.errors import DataError

ROWS = [{"audio": "a.wav", "text": "yes, he said"}, {"audio": "b.wav", "text": 'the "best"'}]
FILES = {
    "t.csv": b'audio,text\na.wav,"yes, he said"\nb.wav,"the ""best"""\n',
    "crlf.csv": b'audio,text\r\na.wav,"yes, he said"\r\nb.wav,"the ""best"""\r\n',
    "bom.csv": b'\xef\xbb\xbfaudio,text\n\na.wav,"yes, he said"\nb.wav,"the ""best"""',
    "semicolons.csv": b'audio;text\na.wav;yes, he said\nb.wav;"the ""best"""\n',
    "spaces.csv": b'audio , text\na.wav,"yes, he said"\nb.wav,"the ""best"""\n',
    "t.tsv": b'audio\ttext\na.wav\tyes, he said\nb.wav\tthe "best"\n',
    "tabs.csv": b'audio\ttext\na.wav\tyes, he said\nb.wav\tthe "best"\n',
    "commas.tsv": b'audio,text\na.wav,"yes, he said"\nb.wav,"the ""best"""\n',
    "t.jsonl": b'{"audio": "a.wav", "text": "yes, he said"}\n\n{"audio": "b.wav", "text": "the \\"best\\""}\n',
}


def read(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    return read_table_file(tmp_path / name)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("packed", [False, True])
def test_all_formats_give_the_same_rows(tmp_path, name, packed):
    content = gzip.compress(FILES[name]) if packed else FILES[name]
    table = read(tmp_path, f"{name}.gz" if packed else name, content)
    assert (table.columns, table.faults) == (["audio", "text"], [])
    assert [row.values for row in table.rows] == ROWS
    blank = name in ("bom.csv", "t.jsonl")
    lines = {"bom.csv": [3, 4], "t.jsonl": [1, 3]}[name] if blank else [2, 3]
    assert [row.where for row in table.rows] == lines


def test_an_array_of_json_is_read_and_its_faults_are_named(tmp_path):
    table = read(tmp_path, "t.json", b'[\n  {"audio": "a.wav",\n   "text": "x"},\n  3]\n')
    assert table.rows == [Row("object 1", {"audio": "a.wav", "text": "x"})] and table.columns == ["audio", "text"]
    assert list(map(str, table.faults)) == [f"{tmp_path}/t.json: item 2: is 3; write one object a line"]
    table = read(tmp_path, "cut.json", b'[\n  {"audio": "a.wav"},\n')
    assert "begins as an array of JSON and is none (" in str(table.faults[0])
    assert str(table.faults[0]).endswith("write one object a line")


@pytest.mark.parametrize(
    ("name", "content", "count"),
    [
        ("t.tsv", b'a\tb\n1\t"say ""yes"""\n2\t""\n3\t"no"\n', 2),
        ("t.csv", b'a|b\n1|"say ""yes"""\n2|he said "no"\n', 1),
        ("t.tsv", b'a\tb\n1\t"no" and "yes"\n', 0),
        ("t.csv", b'a,b\n1,"say ""yes"""\n', 0),
    ],
)
def test_a_notice_counts_quotation_marks_that_were_meant_for_csv(tmp_path, caplog, name, content, count):
    read(tmp_path, name, content)
    said = f"{name}:2: a text in quotation marks, as pandas writes it, in {count} rows"
    assert [message for message in caplog.messages if said in message] == caplog.messages[: min(count, 1)]
    assert len(caplog.messages) == min(count, 1)


def test_a_quoted_field_may_have_lines_and_the_next_row_its_own_number(tmp_path):
    table = read(tmp_path, "t.csv", b'audio,text\na.wav,"one\ntwo"\nb.wav,x\n')
    assert table.rows == [Row(2, {"audio": "a.wav", "text": "one\ntwo"}), Row(4, {"audio": "b.wav", "text": "x"})]


def test_rows_without_any_value_are_left_out_as_blank_lines_are(tmp_path):
    for name, content in (("t.csv", b'a,b\n1,\n,\n" ",\n,2\n'), ("t.tsv", b"a\tb\n1\t\n\t\n \t\n\t2\n")):
        table = read(tmp_path, name, content)
        assert table.rows == [Row(2, {"a": "1", "b": ""}), Row(5, {"a": "", "b": "2"})]


def test_values_of_json_keep_their_kind(tmp_path):
    table = read(tmp_path, "manifest.json", b'{"audio": "a.wav", "start": 1.5}\n{"audio": null, "more": [1]}\n')
    assert table.columns == ["audio", "start", "more"]
    assert table.rows[1].values == {"audio": None, "more": [1]}


def test_all_faults_of_rows_are_found_and_the_others_read(tmp_path):
    content = b'audio,text\na.wav,x,y\nb.wav,"a" b\nc.wav,ok\nd.wav,\xff\ne.wav,"open\nf.wav,good\n'
    table = read(tmp_path, "t.csv", content)
    assert [row.values["audio"] for row in table.rows] == ["c.wav"]
    path = tmp_path / "t.csv"
    todo = "write a quotation mark in a quoted field twice, and close what is opened"
    iconv = "if one is right, convert the file with iconv -f THAT -t UTF-8, else with its own encoding"
    assert sorted(map(str, table.faults)) == [
        f"{path}:2: has 3 fields, and the header has 2, audio text; quote a field with a separator",
        f"{path}:3: is no csv (',' expected after '\"'); {todo}",
        f"{path}:5: not utf-8 at byte offset 48: cp1251 would be 'd.wav,я'; {iconv}",
        f"{path}:6: is no csv (unexpected end of data); {todo}",
        f"{path}:7: was read as a part of line 6, which is no csv",
    ]


def test_advice_for_a_tsv_is_not_that_for_a_csv(tmp_path):
    (fault,) = read(tmp_path, "t.tsv", b"audio\ttext\na.wav\tx\ty\n").faults
    todo = "tabs separate them, and a field cannot have one"
    assert str(fault) == f"{tmp_path}/t.tsv:2: has 3 fields, and the header has 2, audio text; {todo}"


def test_faults_of_json(tmp_path):
    table = read(tmp_path, "t.jsonl", b'{"audio": 1\n["a"]\n{"audio": "c.wav"}\n' + b"[" * 100_000 + b"\n")
    first, second, third = map(str, table.faults)
    assert first.startswith(f"{tmp_path}/t.jsonl:1: is no JSON (Expecting ',' delimiter")
    assert second == f'{tmp_path}/t.jsonl:2: is ["a"]; a line is an object, such as {{"text": "good morning"}}'
    assert third.startswith(f"{tmp_path}/t.jsonl:4: is no JSON (")


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("t.xlsx", b"x", "t.xlsx: is not a table: the name must end in .csv, .tsv, .jsonl, .json or .gz"),
        ("t.csv", b"", "t.csv: is empty; the first line of a table has the names of its columns"),
        ("t.csv", b'"audio"x,text\n0.wav,one\n1.wav,two\n', "t.csv:1: is no csv (',' expected after '\"'); write a"),
        ("t.csv", b"audio,text,audio\n", "t.csv:1: has the column 'audio' twice; rename one"),
        ("t.csv", "audio,text\n".encode("utf-16"), "t.csv: is UTF-16 from byte offset 0; allowed is utf-8"),
        ("t.csv.gz", b"audio", "t.csv.gz: cannot be read (Not a gzipped file"),
    ],
)
def test_files_that_are_refused(tmp_path, name, content, what):
    with pytest.raises(DataError) as caught:
        read(tmp_path, name, content)
    assert str(caught.value).startswith(f"{tmp_path}/{what}")


def test_a_folder_is_refused_with_the_tables_in_it(tmp_path):
    (tmp_path / "mine.csv").touch()
    with pytest.raises(DataError, match="is not a table: .*; the folder has mine.csv$"):
        read_table_file(tmp_path)
    with pytest.raises(DataError, match="nowhere.csv: cannot be read \\(No such file or directory\\)$"):
        read_table_file(tmp_path / "nowhere.csv")
