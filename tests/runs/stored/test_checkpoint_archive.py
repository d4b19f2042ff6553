"""Files that PyTorch's reader would make large or odd objects of are refused before it reads them."""

import struct
import zipfile
import zlib
from collections import Counter, OrderedDict
from datetime import timedelta

import numpy as np
import pytest
import torch

from espnet_diverse.errors import ModelError
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.stored import checkpoint_archive
from espnet_diverse.runs.stored.checkpoint_archive import check_archive

ODD = {
    "sparse": lambda: torch.zeros(2, 2).to_sparse(),
    "without data": lambda: torch.zeros(2, device="meta"),
    "quantized": lambda: torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8),
    "nested": lambda: torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)]),
}


@pytest.mark.parametrize("kind", ODD)
def test_tensors_that_are_not_dense_are_refused_by_name(kind, tmp_path):
    checkpoint.save({"w": ODD[kind]()}, tmp_path / "w.pth")
    with pytest.raises(
        ModelError, match=r"w\.pth: .* holds objects that are not allowed in one: torch\._utils\._rebui"
    ):
        checkpoint.load(tmp_path / "w.pth")


def pickled(path, content):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/version", b"3\n")


def test_an_array_of_any_size_is_not_made(tmp_path):
    pickled(
        tmp_path / "w.pth", b"\x80\x02}X\x01\x00\x00\x00wc__builtin__\nbytearray\n\x8a\x05\x00\x00\x00\x00\x10\x85Rs."
    )
    with pytest.raises(ModelError, match=r"not allowed in one: __builtin__\.bytearray"):
        checkpoint.load(tmp_path / "w.pth")


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


@pytest.mark.parametrize("name", ["DATA.PKL", "Data.pkl"])
def test_records_are_found_in_any_case_as_pytorch_finds_them(name, tmp_path):
    torch.save({"w": torch.zeros(2, 2).to_sparse()}, tmp_path / "w.pth")
    with zipfile.ZipFile(tmp_path / "odd.pth", "w") as archive:
        for member, content in members_of(tmp_path / "w.pth").items():
            archive.writestr(member.replace("data.pkl", name), content)
    assert torch.load(tmp_path / "odd.pth")["w"].is_sparse
    with pytest.raises(ModelError, match=r"odd\.pth: .* not allowed in one: torch\._utils\._rebuild_sparse_tensor"):
        check_archive(tmp_path / "odd.pth")


def test_records_whose_names_differ_in_case_only_are_refused(tmp_path):
    torch.save({"w": torch.zeros(2)}, tmp_path / "w.pth")
    with zipfile.ZipFile(tmp_path / "w.pth", "a") as archive:
        archive.writestr("w/DATA/0", b"")
    with pytest.raises(ModelError, match=r"w\.pth: two of its records have one name, or differ in case only; use "):
        check_archive(tmp_path / "w.pth")


def test_a_record_is_found_whatever_other_name_it_says_to_have(tmp_path):
    """A field beside the name may hold another one, which Python's zipfile shows, and PyTorch does not know."""
    torch.save({"w": torch.zeros(2, 2).to_sparse()}, tmp_path / "w.pth")
    with zipfile.ZipFile(tmp_path / "odd.pth", "w") as archive:
        for member, content in members_of(tmp_path / "w.pth").items():
            info = zipfile.ZipInfo(member)
            if member.endswith("data.pkl"):
                said = b"\x01" + zlib.crc32(member.encode()).to_bytes(4, "little") + b"other"
                info.extra = struct.pack("<HH", 0x7075, len(said)) + said
            archive.writestr(info, content)
    assert torch.load(tmp_path / "odd.pth")["w"].is_sparse
    with pytest.raises(ModelError, match=r"odd\.pth: .* not allowed in one: torch\._utils\._rebuild_sparse_tensor"):
        check_archive(tmp_path / "odd.pth")


def test_a_former_file_with_an_archive_at_its_end_is_read_as_pytorch_reads_it(tmp_path):
    path = tmp_path / "odd.pth"
    torch.save({"w": torch.zeros(2, 2).to_sparse()}, path, _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x.txt", "x")
    assert torch.load(path)["w"].is_sparse
    with pytest.raises(ModelError, match=r"odd\.pth: .* not allowed in one: torch\._utils\._rebuild_sparse_tensor"):
        check_archive(path)


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])  # large: as torch.save writes it
def test_an_archive_behind_another_is_refused(large, tmp_path):
    """PyTorch reads the first one, and Python's zipfile the second, where the lists of records are at one place."""
    first, second = tmp_path / "first.pth", tmp_path / "second.pth"
    written(first, {"w": torch.zeros(2, 2).to_sparse(), "s": "x" * 500}, large)
    written(second, {"w": torch.zeros(2), "v": torch.zeros(2), "s": ""}, large)
    lack = place_of_list(first) - place_of_list(second)
    for count in range(lack - 99, lack + 99):  # records begin at multiples of 64 bytes
        written(second, {"w": torch.zeros(2), "v": torch.zeros(2), "s": "x" * count}, large)
        if place_of_list(first) == place_of_list(second):
            break
    path = tmp_path / "odd.pth"
    path.write_bytes(first.read_bytes() + second.read_bytes())
    assert torch.load(path)["w"].is_sparse
    with pytest.raises(ModelError, match=r"odd\.pth: is a zip archive that does not begin where the file does; use "):
        check_archive(path)
    check_archive(second)


def written(path, state, large):
    torch.save(state, path)
    if not large:
        members = members_of(path)
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)


def place_of_list(path):
    with zipfile.ZipFile(path) as archive:
        return archive.start_dir


def test_names_are_shown_without_control_characters(tmp_path):
    pickled(tmp_path / "w.pth", b"\x80\x02ca\x1b[2J\nb\n.")
    with pytest.raises(ModelError) as error:
        checkpoint.load(tmp_path / "w.pth")
    assert str(error.value).isprintable() and r"a\x1b[2J.b" in str(error.value)


def test_a_pickle_of_endless_operations_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_archive, "_OPERATIONS", 1000)
    start = checkpoint_archive._FORMER_START + b"\x80\x02}"
    (tmp_path / "w.pth").write_bytes(start + 998 * b"0")
    with pytest.raises(ModelError, match=r"w\.pth: the file is damaged"):
        checkpoint.load(tmp_path / "w.pth")
    (tmp_path / "w.pth").write_bytes(start + 5000 * b"0")
    with pytest.raises(ModelError, match=r"w\.pth: is not a checkpoint"):
        checkpoint.load(tmp_path / "w.pth")


def test_compressed_records_are_refused(tmp_path):
    checkpoint.save({"w": torch.zeros(100_000)}, tmp_path / "w.pth")
    with zipfile.ZipFile(tmp_path / "small.pth", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members_of(tmp_path / "w.pth").items():
            archive.writestr(name, content)
    with pytest.raises(ModelError, match=r"small\.pth: its records are compressed, and training stores them as they"):
        checkpoint.load(tmp_path / "small.pth")


def test_records_that_share_their_bytes_are_refused(tmp_path):
    checkpoint.save({"w": torch.zeros(1000)}, tmp_path / "w.pth")
    with zipfile.ZipFile(tmp_path / "w.pth", "a") as archive:
        large = max(archive.infolist(), key=lambda info: info.file_size)
        for number in range(9):
            again = zipfile.ZipInfo(f"archive/data/{number + 5}")
            again.header_offset, again.file_size, again.compress_size = large.header_offset, 4000, 4000
            again.CRC = large.CRC
            archive.filelist.append(again)
        archive._didModify, archive.comment = True, b""
    with pytest.raises(ModelError, match="its records are larger than the file, and training"):
        check_archive(tmp_path / "w.pth")


@pytest.mark.parametrize("former", [False, True])
def test_checkpoints_of_training_and_espnet_are_allowed(former, tmp_path):
    state = {
        "model": OrderedDict(w=torch.nn.Parameter(torch.zeros(2)), n=torch.tensor(3), b=torch.zeros(1).bfloat16()),
        "reporter": {"stats": {1: {"valid": {"loss": np.float64(1.0), "time": timedelta(1), "n": np.int64(3)}}}},
        "schedulers": [{"milestones": Counter([1, 5])}],
    }
    torch.save(state, tmp_path / "c.pth", _use_new_zipfile_serialization=not former)
    loaded = checkpoint.load(tmp_path / "c.pth")
    assert all(torch.equal(loaded["model"][name], value) for name, value in state["model"].items())
    assert {key: loaded[key] for key in ("reporter", "schedulers")} == {
        key: state[key] for key in ("reporter", "schedulers")
    }
