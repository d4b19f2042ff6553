import gzip
import os
import re
import threading
from collections import Counter

import pytest
from references.traced import traced

from espnet_diverse.data import lines as lines_module
from espnet_diverse.data.lines import LONGEST_LINE, numbered_lines, placed_lines, read_utf8
from espnet_diverse.errors import ConfigError, DataError


def read(path, **options):
    faults, repairs = [], Counter()
    return list(placed_lines(path, faults, repairs, **options)), faults, repairs


def test_the_place_of_a_line_matches_its_bytes(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("\ufeffa é\r\n\nb two".encode())
    lines, faults, repairs = read(path)
    assert [(number, text) for number, text, _, _ in lines] == [(1, "a é"), (2, ""), (3, "b two")]
    content = path.read_bytes()
    assert [content[start : start + size].decode() for _, _, start, size in lines] == ["a é", "", "b two"]
    assert not faults and list(repairs) == ["byte order mark", "missing final newline", "CRLF line end"]


@pytest.mark.parametrize(
    ("content", "lines"), [(b"", []), (b"\n", [""]), (b"a\n\n", ["a", ""]), (b"a", ["a"]), (b"a\n", ["a"])]
)
def test_lines_are_split_at_line_ends(tmp_path, content, lines):
    path = tmp_path / "text"
    path.write_bytes(content)
    assert [text for _, text in numbered_lines(path, [], Counter())] == lines


def test_lines_that_are_not_in_the_file_have_no_place(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a one\nb caf\xe9\nc \xe9\n" + b"d " + b"x" * LONGEST_LINE + b"\n")
    lines, faults, _ = read(path)
    assert [start for _, _, start, _ in lines] == [0, -1, -1, -1]
    assert [text for _, text, _, _ in lines] == ["a one", "b caf\ufffd", "c \ufffd", "d \ufffd"]
    assert [fault.where for fault in faults] == [2, 3, 4] and "not utf-8 at byte offset 11" in faults[0].what
    packed = tmp_path / "text.gz"
    packed.write_bytes(gzip.compress(b"a one\n"))
    assert read(packed)[0] == [(1, "a one", -1, 5)]


def test_a_file_in_another_encoding_is_one_fault_besides_ten(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"caf\xe9\n" * 12)
    _, faults, _ = read(path)
    assert [fault.where for fault in faults] == [*range(1, 11), None]
    assert faults[-1].what == "2 more lines are not utf-8; convert the file with iconv"


def test_a_file_without_line_ends_is_not_read_as_a_line(tmp_path, monkeypatch):
    """A sparse file of 20 GB: reading it as one line would need as much memory."""
    path = tmp_path / "text"
    with path.open("wb") as file:
        file.write(b"a one\n" * 1000 + b"b ")
        file.truncate(20 * 10**9)
    monkeypatch.setattr(lines_module, "_LONGEST_SKIP", 1 << 22)
    (found, faults, _), peak = traced(read, path)
    assert [text for _, text, _, _ in found] == ["a one"] * 1000 + ["b \ufffd"]
    assert [fault.where for fault in faults] == [1001] and "are line ends missing?" in faults[0].what
    assert peak < 20 * LONGEST_LINE


def test_a_pipe_is_read_only_where_one_may_be(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "not a regular file" in read(pipe)[1][0].what
    writer = threading.Thread(target=pipe.write_bytes, args=(b"a one\n",))
    writer.start()
    assert read(pipe, pipe=True)[0] == [(1, "a one", -1, 5)]
    writer.join()


def test_unreadable_files_are_faults(tmp_path, monkeypatch):
    assert "cannot be read (Is a directory)" in read(tmp_path)[1][0].what
    monkeypatch.setattr("espnet_diverse.data.lines._MOST_UNPACKED", 1000)
    (tmp_path / "large.gz").write_bytes(gzip.compress(b"\n" * 100_000))
    lines, faults, _ = read(tmp_path / "large.gz")
    assert not lines and re.search(r"cannot be read \(unpacks to more than \d+ bytes\)", faults[0].what)
    (tmp_path / "x.gz").write_bytes(b"no archive")
    assert "cannot be read" in read(tmp_path / "x.gz")[1][0].what


def test_a_file_is_read_whole(tmp_path):
    (tmp_path / "a").write_bytes("é\nb".encode())
    assert read_utf8(tmp_path / "a") == "é\nb"


def test_an_encoding_error_names_the_byte_and_the_remedy(tmp_path):
    (tmp_path / "a").write_bytes(b"ab\xff")
    with pytest.raises(DataError) as error:
        read_utf8(tmp_path / "a")
    assert str(error.value) == f"{tmp_path / 'a'}: not UTF-8 at byte 2; save the file as UTF-8"
    with pytest.raises(ConfigError, match="^plan a: not UTF-8 at byte 2; write it again$"):
        read_utf8(tmp_path / "a", "plan a", "write it again", ConfigError)
