"""A file of weights that was altered or cut is recognised, whoever wrote it."""

import hashlib
import io
import json
import zipfile

import pytest
import safetensors.torch
import torch
from references.traced import traced

from espnet_diverse.errors import ModelError
from espnet_diverse.runs import checkpoint, file_digest
from espnet_diverse.runs.file_digest import check_digest

STATE = {"weight": torch.arange(50.0).view(5, 10), "bias": torch.ones(5), "count": torch.tensor(3)}


@pytest.fixture(params=["w.pth", "w.safetensors"])
def path(request, tmp_path):
    """A file with a digest."""
    checkpoint.save(STATE, tmp_path / request.param)
    return tmp_path / request.param


def test_other_programs_read_the_file(path):
    read = safetensors.torch.load_file if path.suffix == ".safetensors" else torch.load
    loaded = read(path)
    assert loaded.keys() == STATE.keys() and all(torch.equal(loaded[name], STATE[name]) for name in STATE)
    if path.suffix == ".pth":
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None and archive.comment.startswith(b"sha256=") and len(archive.comment) == 71


def test_a_file_is_checked_with_little_more_memory_than_its_size(tmp_path):
    path = tmp_path / "w.safetensors"
    checkpoint.save({"weight": torch.arange(500_000.0)}, path)
    assert traced(check_digest, path)[1] < 1.5 * path.stat().st_size


def test_every_flipped_bit_of_some_and_every_truncation_is_found(path):
    content = path.read_bytes()
    check_digest(path)
    altered = 0
    for place in [*range(0, len(content), 7), *range(len(content) - 100, len(content))]:
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(ModelError, match=r"w\.(pth|safetensors): (the file is damaged|is not a checkpoint)"):
            checkpoint.load(path)
        altered += 1
    for kept in [*range(0, len(content), 31), *range(len(content) - 100, len(content))]:
        path.write_bytes(content[:kept])
        with pytest.raises(ModelError, match=r"w\.(pth|safetensors): (the file is damaged|is not a checkpoint)"):
            checkpoint.load(path)
        altered += 1
    assert altered > 250


def test_a_file_without_a_digest_is_read_and_its_records_are_checked(tmp_path):
    path = tmp_path / "former.pth"
    torch.save(STATE, path)
    assert checkpoint.load(path).keys() == STATE.keys()
    content = bytearray(path.read_bytes())
    place = content.index(STATE["weight"].numpy().tobytes()) + 17
    content[place] ^= 4
    path.write_bytes(content)
    assert torch.load(path)["count"] == 3  # PyTorch itself does not notice
    with pytest.raises(ModelError, match=r"former\.pth: the file is damaged, its content does not fit its SHA-256 or"):
        checkpoint.load(path)
    torch.save(STATE, path, _use_new_zipfile_serialization=False)
    assert checkpoint.load(path).keys() == STATE.keys()


def test_safetensors_of_other_programs_are_read(tmp_path):
    path = tmp_path / "other.safetensors"
    for metadata in (None, {"format": "pt"}):
        safetensors.torch.save_file(STATE, path, metadata)
        assert checkpoint.load(path).keys() == STATE.keys()
    content = json.dumps({"__metadata__": ["x"]}).encode()
    path.write_bytes(len(content).to_bytes(8, "little") + content)
    with pytest.raises(ModelError, match="the file is damaged"):
        checkpoint.load(path)


def test_the_digest_of_a_shrinking_file_covers_the_bytes_left():
    assert file_digest._digest(io.BytesIO(b"ab"), 5) == hashlib.sha256(b"ab").hexdigest()
