"""A journal keeps the rows that were added before its process ended, at whatever point."""

import resource
from contextlib import closing

import pytest

from espnet_diverse.data.journal import Journal

GROUPS = [({"b": "1 é", "a": ""}, "0.5"), ({}, ""), ({"d": "[4]"}, "two words"), ({"c": "3", "e": "5"}, "9")]


def written(path, key="key", groups=GROUPS):
    """Write a journal; its sizes before the first and after each group."""
    with closing(Journal(path, key)) as journal:
        sizes = [path.stat().st_size]
        for rows, note in groups:
            journal.add(rows.items(), note)
            sizes.append(path.stat().st_size)
    return sizes


def read(path, key="key"):
    with closing(Journal(path, key)) as journal:
        table = journal.table()
        assert len(journal) == len(table) and list(table) == sorted(table)
        return dict(table.items()), journal.note


def expected(count):
    """Rows and note of the first groups."""
    rows = {key: value for group, _ in GROUPS[:count] for key, value in group.items()}
    return rows, GROUPS[count - 1][1] if count else ""


def test_rows_are_there_again_by_id(tmp_path):
    written(tmp_path / "journal")
    assert read(tmp_path / "journal") == read(tmp_path / "journal") == expected(4)
    with closing(Journal(tmp_path / "journal", "key")) as journal:
        before = journal.table()
        journal.add([("aa", "new")], "10")
        assert dict(before.items()) == expected(4)[0]
        after = journal.table()
    (tmp_path / "journal").unlink()
    assert after == {**expected(4)[0], "aa": "new"}


def test_a_journal_that_is_cut_anywhere_has_its_complete_groups(tmp_path):
    sizes = written(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    for cut in range(len(content) + 1):
        (tmp_path / "cut").write_bytes(content[:cut])
        complete = sum(size <= cut for size in sizes[1:])
        assert read(tmp_path / "cut") == expected(complete)
        with closing(Journal(tmp_path / "cut", "key")) as journal:
            journal.add([("z", "last")], "end")
        assert read(tmp_path / "cut") == ({**expected(complete)[0], "z": "last"}, "end")


@pytest.mark.parametrize("change", [b"\0", b"9", b"\n", b" "])
def test_an_altered_byte_loses_its_group_and_all_later_ones(tmp_path, change):
    sizes = written(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    for place in range(sizes[0], len(content)):
        if content[place : place + 1] == change:
            continue
        (tmp_path / "altered").write_bytes(content[:place] + change + content[place + 1 :])
        assert read(tmp_path / "altered") == expected(sum(size <= place for size in sizes[1:]))


def test_a_journal_of_other_work_is_emptied(tmp_path):
    written(tmp_path / "journal", "key")
    assert read(tmp_path / "journal", "ke") == ({}, "")
    assert read(tmp_path / "journal", "key") == ({}, "")


def test_a_full_disk_costs_no_group_that_was_there(tmp_path):
    *_, size = written(tmp_path / "journal")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(Journal(tmp_path / "journal", "key")) as journal:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4, limits[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                journal.add([("f", "6")], "")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "journal").stat().st_size == size + 4
    assert read(tmp_path / "journal") == expected(4)
