import copy
import os
from pathlib import Path

import numpy as np
import pytest
from references.traced import traced

from espnet_diverse.audio.libsndfile import AudioInfo
from espnet_diverse.data.checks import validate
from espnet_diverse.data.checks.repetitions import DIGEST
from espnet_diverse.data.checks.validate import find_faults
from espnet_diverse.data.packed_table import Column, spool
from espnet_diverse.data.tables import pack_table, read_table, scan_packed, scan_table
from espnet_diverse.errors import DataError

ROWS = 5_000
_BYTES = 100
"""Greatest memory for a row while tables are read; the strings of an id and a text alone take 130."""


def write(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "plain"),
    [
        ("a one\nb two words\nc é\n", True),
        ("a\nb  two\n", False),
        ("c 3\na 1\nb 2\n", False),
        ("\ufeffa one\r\nb\ttwo", False),
        ("a one\n\nb two\n", False),
    ],
)
def test_it_reads_like_a_dict(tmp_path, content, plain):
    path = write(tmp_path / "utt2note", content)
    table, expected = pack_table(path), read_table(path)
    assert table == expected and len(table) == len(expected) and list(table) == sorted(expected)
    assert list(table.items()) == list(expected.items()) and list(table.values()) == list(expected.values())
    assert [table.pair(row) for row in range(len(table))] == list(expected.items())
    assert table.plain == plain
    for key, value in expected.items():
        assert table[key] == value and key in table and table.get(key) == value
    assert "ab" not in table and "" not in table and "z" not in table and 1 not in table and table.get("ab", "-") == "-"
    assert copy.deepcopy(table) == expected  # as what a process that was spawned gets


def test_rows_are_found_in_any_order(tmp_path):
    names = [f"u{number:04d}" for number in range(0, 3000, 2)]
    table = pack_table(write(tmp_path / "text", "".join(f"{name} t{name}\n" for name in names)))
    for order in (names, names[::-1], list(np.random.default_rng(0).permutation(names))):
        assert [table[str(name)] for name in order] == [f"t{name}" for name in order]
    assert not any(f"u{number:04d}" in table for number in range(1, 3000, 2))


def test_duplicates_are_faults_and_the_first_counts(tmp_path):
    path = write(tmp_path / "text", "b one\na two\nb <unk>\nc\nb three\n")
    table, faults = scan_packed(path)
    assert dict(table) == {"a": "two", "b": "one", "c": ""}
    said = [f"{fault.where}: {fault.what}" for fault in faults]
    assert said[0] == said[2].replace("5: ", "3: ") == "3: duplicate id 'b', first on line 1; ids must be unique"
    assert said[1].startswith("4: empty transcript") and len(said) == 3
    assert scan_table(path) == (dict(table), faults)


def test_a_table_that_is_overwritten_meanwhile_is_named(tmp_path):
    said = "text: was overwritten while it was in use; start again"
    table = pack_table(write(tmp_path / "text", "a one\nb two\n"))
    os.truncate(tmp_path / "text", 8)
    assert table["a"] == "one"
    with pytest.raises(DataError, match=said):
        table["b"]
    write(tmp_path / "text", "é one\nf two\ng three\n")
    with pytest.raises(DataError, match=said):
        table["a"]
    table = pack_table(tmp_path / "text")
    os.utime(tmp_path / "text", ns=(1, 1))
    assert table["f"] == "two"  # only its time was changed


def test_a_table_that_is_replaced_meanwhile_is_read_on(tmp_path):
    table = pack_table(write(tmp_path / "text", "a one\nb two\n"))
    write(tmp_path / "new", "c three\n").replace(tmp_path / "text")
    assert dict(table) == {"a": "one", "b": "two"} and dict(pack_table(tmp_path / "text")) == {"c": "three"}


def test_a_settled_table_is_read_once(tmp_path, monkeypatch):
    path = write(tmp_path / "text", "a one\n")
    assert pack_table(path) is not pack_table(path)  # it was changed a moment ago
    monkeypatch.setattr("espnet_diverse.data.tables._SETTLED", -1.0)
    assert pack_table(path) is pack_table(path)
    write(path, "a two\n")
    os.utime(path, ns=(1, 1))
    assert dict(pack_table(path)) == {"a": "two"}


def test_files_are_closed(tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(40):
        pack_table(write(tmp_path / f"utt2x{number}", "a one\n"))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_rows_in_any_order_are_sorted_and_named_where_an_id_is_there_twice(tmp_path):
    names = [f"{n}" for n in np.random.default_rng(0).permutation(3000)]
    speeds = [f"{before}{n:04d}" for n in range(50) for before in ("", "sp0.9-", "sp1.1-")]
    for order in (names, speeds, sorted(names)):
        table, twice = spool(tmp_path / "rows", ((name, f"of {name} é") for name in [*order, order[7], order[1]]))
        assert dict(table.items()) == {name: f"of {name} é" for name in order} and list(table) == sorted(order)
        assert twice == sorted([order[7], order[1]]) and list(tmp_path.iterdir()) == [] and len(table) == len(order)
    assert spool(tmp_path / "rows", []) == ({}, [])

    def broken():
        yield "a", "1"
        raise DataError("no more")

    with pytest.raises(DataError, match="^no more$"):
        spool(tmp_path / "rows", broken())
    assert list(tmp_path.iterdir()) == []


def test_a_column_has_numbers_of_rows(tmp_path):
    table = pack_table(write(tmp_path / "text", "a one\nb two\nc three\n"))
    column = Column(table, np.array([1.5, np.nan, 3.0]))
    assert dict(column) == {"a": 1.5, "c": 3.0} and len(column) == 2
    assert column.get("b") is None and column.get("d") is None


def test_a_row_takes_a_few_bytes_of_memory(tmp_path):
    for name in ("text", "src_text", "utt2lang"):
        value = "de" if name == "utt2lang" else "nine words are what a sentence often has, {}"
        rows = "".join(f"speaker-{n // 9:07d}-{n:09d} {value.format(n)}\n" for n in range(ROWS))
        write(tmp_path / name, rows)
    assert traced(lambda: pack_table(tmp_path / "text"))[1] < _BYTES * ROWS
    assert traced(lambda: sum(map(len, pack_table(tmp_path / "text").values())))[1] < _BYTES * ROWS
    assert traced(lambda: find_faults(tmp_path))[1] < 2 * _BYTES * ROWS  # three tables


def test_a_recording_takes_a_few_bytes_of_memory(tmp_path, monkeypatch):
    def heard(item, rate, decode):
        digest = item[0].encode()[-DIGEST:]
        return validate._Heard(item[0], AudioInfo(16000, 1, 32000, "WAV", "PCM_16"), (), digest)

    monkeypatch.setattr(validate, "_hear", heard)
    for name, value in (("wav.scp", "/corpus/train/speaker/{}.wav"), ("text", "words of {}"), ("utt2spk", "{}")):
        rows = (f"speaker-{n // 9:07d}-{n:09d} {value.format(n)}\n" for n in range(ROWS))
        write(tmp_path / name, "".join(rows))
    assert traced(lambda: find_faults(tmp_path))[1] < 3 * _BYTES * ROWS
