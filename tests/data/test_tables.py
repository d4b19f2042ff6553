import gzip
from math import inf

import pytest

from espnet_diverse.audio.segments import Segment
from espnet_diverse.data.tables import (
    LINES,
    data_dir_fault,
    pack_texts,
    parse_segment,
    read_table,
    scan_lines,
    scan_table,
    write_table,
)
from espnet_diverse.errors import DataError


def test_good_table_is_read_without_a_notice(tmp_path, caplog):
    file = tmp_path / "text"
    file.write_text("a 一 二\nb hello there\n", encoding="utf-8")
    assert read_table(file) == {"a": "一 二", "b": "hello there"}
    assert not caplog.records


@pytest.mark.parametrize(
    ("content", "notice"),
    [
        (b"a one\r\nb two\r\n", "CRLF line end (2)"),
        (b"\xef\xbb\xbfa one\nb two\n", "byte order mark (1)"),
        (b"a\tone\nb two\n", "tab (1)"),
        (b"a one\nb two", "missing final newline (1)"),
        (b"b two\na one\n", "unsorted table (1)"),
        (b"a one\n\nb two\n", "blank line (1)"),
        ("a one\n\u200b\nb two\n".encode(), "invisible character (1), blank line (1)"),
        ("a one\u3000\nb\u00a0two\n".encode(), "unusual space (2)"),
        ("a o\u200bne\nb two\n".encode(), "invisible character (1)"),
    ],
)
def test_repairs_are_made_and_told(tmp_path, caplog, content, notice):
    file = tmp_path / "text"
    file.write_bytes(content)
    assert list(read_table(file).items()) == [("a", "one"), ("b", "two")]
    (record,) = caplog.records
    assert str(file) in record.getMessage()
    assert record.getMessage().endswith(f"repaired while reading: {notice}")


def test_line_ends_of_an_old_mac_are_told(tmp_path, caplog):
    file = tmp_path / "text"
    file.write_bytes(b"a one\rb two\r")
    assert read_table(file) == {"a": "one b two"}
    assert "carriage return within a line (1)" in caplog.text


def test_decomposed_text_and_ids_are_composed(tmp_path):
    file = tmp_path / "text"
    file.write_text("u\u0308 cafe\u0301\n", encoding="utf-8")
    assert read_table(file) == {"ü": "café"}


def test_order_is_by_bytes_whatever_the_locale(tmp_path):
    file = tmp_path / "utt2domain"
    write_table(file, {"é": "x", "a": "x", "Z": "x", "z": "x"})
    assert file.read_text(encoding="utf-8") == "Z x\na x\nz x\né x\n"


@pytest.mark.parametrize(
    ("name", "content", "where", "what"),
    [
        ("text", b"a one\nb two\na one\n", ":3: ", "duplicate id 'a', first on line 1"),
        ("text", b"a one\nb\n", ":2: ", "empty transcript"),
        ("text", "a one\nb \u200b\u3000\n".encode(), ":2: ", "empty transcript"),
        ("text", b"a one\nb <s> two\n", ":2: ", "reserved symbol <s>"),
        ("text", b"a one\nb t\0wo\n", ":2: ", "control character U+0000"),
        ("text", "a one\nb 你好\n".encode("gbk"), ":2: ", "not utf-8 at byte offset 8: GBK would be '你好'"),
        ("text", b"a one\nb caf\xe9\n", ":2: ", "not utf-8 at byte offset 11: cp1252 would be 'café'"),
        ("text", "a one\n".encode("utf-16"), ": ", "is UTF-16 from byte offset 0; allowed is utf-8"),
        ("text", b"", ": ", "is empty"),
        ("text", b"../x one\n", ":1: ", "id '../x' contains '..'"),
        ("utt2spk", b"a\n", ":1: ", "missing columns: the line is only 'a'; the format is: utterance speaker"),
        ("utt2spk", b"a s x\n", ":1: ", "has 3 columns, and 2 are allowed"),
        ("utt2domain", b"a x/y\n", ":1: ", "id 'x/y' contains '/'"),
        ("wav.scp", b"a\n", ":1: ", "missing columns: the line is only 'a'; the format is: recording path"),
        ("wav.scp", "a a.wav\n\ufeff b.wav\n".encode(), ":2: ", "has no id before 'b.wav'; begin the line with an id"),
        ("wav.scp", b"a touch x |\n", ":1: ", "'touch x |' contains a pipe; commands are not run"),
        ("wav.scp", b"a x\x07.wav\n", ":1: ", "contains control characters"),
        ("segments", b"a r 0.0\n", ":1: ", "the format is: utterance recording start end"),
        ("segments", b"a r 0.0 nan\n", ":1: ", "segment 'r 0.0 nan' is invalid"),
        ("segments", b"a r -1 2\n", ":1: ", "(seconds, from 0; an end of -1 means the end of the recording)"),
        ("segments", b"a r 0 1 A\n", ":1: ", "the format is: utterance recording start end [channel]"),
        ("segments", b"a r 0 inf\n", ":1: ", "segment 'r 0 inf' is invalid"),
        ("segments", b"a r 0 -2\n", ":1: ", "segment ends at -2.0 s, not after its start at 0.0 s"),
        ("segments", b"a r 2.5 2.5\n", ":1: ", "segment ends at 2.5 s, not after its start at 2.5 s"),
        ("segments", b"a r/s 0 1\n", ":1: ", "id 'r/s' contains '/'"),
    ],
)
def test_refusals_name_file_and_line(tmp_path, name, content, where, what):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_table(file)
    assert f"{file}{where}" in str(caught.value)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_fault_of_a_table_is_counted(tmp_path):
    file = tmp_path / "text"
    file.write_bytes("a\nb 你\nc 好\nd\ne x\ne x\n".encode("gbk"))
    with pytest.raises(DataError, match="^5 faults: .*:1: empty.*:2: not utf-8.*:3: not utf-8.*; and 2 more$"):
        read_table(file)


def test_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"utt2spk: cannot be read \(No such file or directory\)"):
        read_table(tmp_path / "utt2spk")


def test_paths_keep_spaces_and_decomposed_letters(tmp_path):
    file = tmp_path / "wav.scp"
    file.write_text("a /my  audio/cafe\u0301.wav\n", encoding="utf-8")
    assert read_table(file) == {"a": "/my  audio/cafe\u0301.wav"}


def test_a_compressed_trn_is_a_trn(tmp_path):
    (tmp_path / "hyp.trn.gz").write_bytes(gzip.compress(b"a b (u1)\n"))
    assert read_table(tmp_path / "hyp.trn.gz", "hypothesis") == {"u1": "a b"}


def test_a_trn_has_its_ids_at_the_end(tmp_path, caplog):
    path = tmp_path / "hyp.trn"
    path.write_text(";; system 1\n(b-2)\na (noise) b (a-1) \n\n(uh) c(c-3)\n")
    assert read_table(path, "hypothesis") == {"a-1": "a (noise) b", "b-2": "", "c-3": "(uh) c"}
    assert caplog.messages == [f"notice: {path}: repaired while reading: blank line (1)"]


def test_faults_of_a_trn(tmp_path):
    path = tmp_path / "ref.trn"
    path.write_text("u1 a b\na (u 1)\na { b / c } (u2)\na (u3)\nb (u3)\n")
    table, faults = scan_table(path, "reference")
    assert table == {"u3": "a"}
    assert [str(fault).removeprefix(f"{path}:") for fault in faults] == [
        "1: does not end in an id; a line of a .trn is 'text (id)', the id without spaces and brackets",
        "2: does not end in an id; a line of a .trn is 'text (id)', the id without spaces and brackets",
        "3: has the alternatives '{ b / c }'; only sclite scores these: write one of them",
        "5: duplicate id 'u3', first on line 4; ids must be unique",
    ]


def test_failed_write_leaves_the_old_table(tmp_path):
    file = tmp_path / "text"
    write_table(file, {"a": "one"})
    with pytest.raises(UnicodeEncodeError):
        write_table(file, {"a": "\udc80"})
    assert file.read_text() == "a one\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["text"]


def test_parse_segment():
    assert parse_segment("rec 1.5 2") == Segment("rec", 1.5, 2.0)
    assert parse_segment("rec 1.5 -1 1") == Segment("rec", 1.5, inf, 1)


def test_lines_keep_their_order_and_their_gaps(tmp_path, caplog):
    path = tmp_path / "train.de"
    path.write_bytes("b  x\r\n\na\u00a0\n<unk> c".encode())
    texts, faults = scan_lines(path)
    assert texts == ["b x", "", "a", "<unk> c"]
    assert [str(fault) for fault in faults] == [
        f"{path}:4: transcript contains the reserved symbol <unk>; remove it or write it in another way"
    ]
    assert "repaired while reading: missing final newline (1), CRLF line end (1), unusual space (1)" in caplog.text
    texts, faults = scan_lines(tmp_path / "train.fr")
    assert texts == []
    assert str(faults[0]) == f"{tmp_path}/train.fr: cannot be read (No such file or directory)"


@pytest.mark.parametrize(
    ("name", "lines", "what"),
    [
        (
            "wav.scp",
            "a /data/a.wav\nb /data/b.FLAC\n",
            "has recording path a line, such as 'a /data/a.wav', and no texts",
        ),
        ("refs", "a data/a.wav\nb sph2pipe -f wav b.sph |\n", "has a recording a line, such as 'a data/a.wav'"),
        ("utt2spk", "a ben\nb ann\n", "has utterance speaker a line"),
    ],
)
def test_tables_of_something_else_are_no_texts(tmp_path, name, lines, what):
    (tmp_path / name).write_text(lines)
    with pytest.raises(DataError, match=what):
        pack_texts(tmp_path / name, "reference")


def test_a_sentence_may_end_as_a_command_does(tmp_path):
    (tmp_path / "hi").write_text("a यह घर है |\n", encoding="utf-8")
    assert dict(pack_texts(tmp_path / "hi", "reference")) == {"a": "यह घर है |"}
    (tmp_path / "plain").write_text("cat a.flac |\n")
    assert len(pack_texts(tmp_path / "plain", LINES)) == 1


def test_texts_with_names_of_files_are_texts(tmp_path):
    (tmp_path / "text").write_text("a open a.wav\nb b.wav\n")
    assert dict(pack_texts(tmp_path / "text")) == {"a": "open a.wav", "b": "b.wav"}


def test_a_path_that_is_no_data_directory_leads_to_one(tmp_path):
    for name in ("data/train", "data/dev", "data/tokens"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("train", "dev"):
        (tmp_path / "data" / name / "text").touch()
    data = tmp_path / "data"
    assert data_dir_fault(tmp_path / "dta" / "dev") == f"there is no such directory; did you mean {data}/dev?"
    assert data_dir_fault(tmp_path / "x").startswith("there is no such directory; correct the path, ")
    assert data_dir_fault(data) == f"has no tables, but has dev, train; give one of them, such as {data}/train"
    assert data_dir_fault(data / "dev" / "text").startswith("is a file, ")
    assert data_dir_fault(data / "dev") is data_dir_fault(data / "tokens") is None
