"""What a run records of its data: which files are told apart, and which are read again."""

import json
import os

import numpy as np
import pytest

from espnet_diverse.training.checkpoints import data_record
from espnet_diverse.training.checkpoints.data_record import DataRecord

LONG_AGO = 1_000_000_000 * 10**9


def config(table, kind="sound"):
    return {
        "train_data_path_and_name_and_type": [(str(table), "speech", kind)],
        "valid_data_path_and_name_and_type": [],
    }


def table_of(folder, **contents):
    """A table of files, which were written long ago."""
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        write(folder / f"{name}.wav", content)
    table = folder / "wav.scp"
    table.write_text("".join(f"{name} {folder / name}.wav\n" for name in sorted(contents)))
    return table


def write(path, content, time=LONG_AGO):
    path.write_bytes(content)
    os.utime(path, ns=(time, time))


@pytest.fixture
def reads(monkeypatch):
    """Names of the files whose content was read since the list was cleared."""
    found, samples = [], data_record._samples
    monkeypatch.setattr(data_record, "_samples", lambda path: found.append(path.rpartition("/")[2]) or samples(path))
    return found


@pytest.fixture
def recorded(tmp_path, reads):
    """The table of a run that has recorded it in tmp_path / exp."""
    table = table_of(tmp_path / "data", a=bytes(9999), b=bytes(9999), c=bytes(9999))
    (tmp_path / "exp").mkdir()
    record = DataRecord(config(table), None, "16000")
    assert not record.is_unchanged()
    record.save(record.digests(), tmp_path / "exp")
    assert reads == ["a.wav", "b.wav", "c.wav"]
    reads.clear()
    return table


def again(table, how="16000", **options):
    """Whether the data are unchanged, and whether their digests are those of the run."""
    folder = table.parent.parent / "exp"
    record = DataRecord(config(table), folder, how, **options)
    return record.is_unchanged(), record.digests() == json.loads((folder / "data.json").read_text())


def test_digests_of_audio_match_ids_sizes_headers_and_middles(tmp_path):
    contents = (bytes(9999), bytes(9999), bytes(9998), bytes(4999) + b"x" * 5000)
    tables = [table_of(tmp_path / name, x=content) for name, content in zip("abcd", contents, strict=True)]
    found = [DataRecord(config(table), None).digests() for table in tables]
    assert found[0] == found[1] and len({str(one) for one in found}) == 3


def test_digests_of_arks_tell_entries_apart(tmp_path):
    (tmp_path / "x.ark").write_bytes(bytes(100))
    found = []
    for place in ("2", "50", "2", "2[0:9]", "2[0:8]"):
        (tmp_path / "feats.scp").write_text(f"u {tmp_path / 'x.ark'}:{place}\n")
        found.append(DataRecord(config(tmp_path / "feats.scp", "kaldi_ark"), None).digests())
    assert found[0] == found[2] and len({str(one) for one in found}) == 4


def test_files_that_have_not_changed_are_not_read_again(recorded, reads):
    assert again(recorded) == (True, True) and reads == []


@pytest.mark.parametrize("content", [bytes(9999), b"x" * 9999])
def test_a_file_with_another_time_is_read_again_and_no_other(content, recorded, reads):
    write(recorded.parent / "b.wav", content, LONG_AGO + 1)
    assert again(recorded) == (False, content == bytes(9999)) and reads == ["b.wav"]


def test_a_file_with_its_former_size_and_time_is_read_where_all_are(recorded, reads):
    write(recorded.parent / "b.wav", b"x" * 9999)
    assert again(recorded) == (True, True) and reads == []
    assert again(recorded, read_all=True) == (False, False) and reads == ["a.wav", "b.wav", "c.wav"]


def test_a_file_of_another_size_or_that_is_gone_is_another(recorded):
    path = recorded.parent / "b.wav"
    write(path, bytes(9998))
    assert again(recorded) == (False, False)
    path.unlink()
    assert not DataRecord(config(recorded), recorded.parent.parent / "exp", "16000").is_unchanged()


def test_a_table_with_other_paths_is_read_again(recorded, reads):
    """All files have the same size and time, so that these do not tell who has which."""
    write(recorded.parent / "b.wav", b"x" * 9999, LONG_AGO)
    folder = recorded.parent.parent / "exp"
    record = DataRecord(config(recorded), None, "16000")
    record.save(record.digests(), folder)
    reads.clear()
    a, b, c = recorded.read_text().splitlines()
    recorded.write_text(f"{a}\nb {c.split()[1]}\nc {b.split()[1]}\n")
    assert again(recorded) == (False, False) and reads == ["a.wav", "c.wav", "b.wav"]


def test_a_file_that_was_written_just_now_is_read_again(recorded, reads, tmp_path):
    """It may be written again within the same tick of the clock."""
    path = recorded.parent / "b.wav"
    path.write_bytes(bytes(9999))
    record = DataRecord(config(recorded), tmp_path / "exp", "16000")
    record.save(record.digests(), tmp_path / "exp")
    status = path.stat()
    write(path, b"x" * 9999, status.st_mtime_ns)
    reads.clear()
    assert again(recorded) == (False, False) and reads == ["b.wav"]


def test_audio_that_was_checked_for_something_else_is_checked_again(recorded, reads):
    assert again(recorded, "8000") == (False, True) and reads == []


@pytest.mark.parametrize("damage", ["torn", "missing", "other contents", "other rows", "data.json", "a pickle"])
def test_without_a_sound_record_all_is_read(damage, recorded, reads, tmp_path):
    path = tmp_path / "exp" / "train.wav.scp.npz"
    with np.load(path) as arrays:
        record = dict(arrays)
    if damage == "torn":
        path.write_bytes(path.read_bytes()[:-30])
    elif damage == "missing":
        path.unlink()
    elif damage == "data.json":
        (tmp_path / "exp" / "data.json").write_text("[")
    else:
        key = "modified" if damage == "other rows" else "contents"
        changed = {"other rows": record[key][:2], "other contents": record[key] + np.uint8(1)}
        np.savez(path, **record | {key: changed.get(damage, np.array([{}], object))})
    record = DataRecord(config(recorded), tmp_path / "exp", "16000")
    assert not record.is_unchanged()
    assert record.digests().keys() == {"train/wav.scp", "train/wav.scp, audio content"} and len(reads) == 3


def test_data_that_cannot_be_read_are_changed(recorded):
    recorded.unlink()
    assert not DataRecord(config(recorded), recorded.parent.parent / "exp", "16000").is_unchanged()
