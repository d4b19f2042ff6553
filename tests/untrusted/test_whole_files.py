"""Files that are read as a whole have a greatest size, and nothing else in the package reads them so."""

import ast
import os
from errno import EFBIG, EINVAL

import numpy as np
import pytest
import test_layers

from espnet_diverse.untrusted.whole_files import check_arrays, read_bytes, read_json, read_text

OTHER_WAYS = {
    "cpu/machine.py": "/proc/cpuinfo",
    "analysis/windows/lengths.py": "/proc/meminfo",
    "contest/costs.py": "the log of a trial, which this program has written, with any bytes",
    "corpora/synthetic/__init__.py": "the stamp of a corpus that it has made",
    "data/lines.py": "a pipe, such as a list from standard input",
    "demo/routes.py": "files of this package",
    "packing/pack.py": "the n-gram model of one's own run, of any size",
    "runs/checkpoint.py": "weights, which are as large as their model",
    "runs/file_digest.py": "weights, which are as large as their model",
}


def test_large_and_irregular_files_are_refused(tmp_path):
    path, pipe = tmp_path / "a", tmp_path / "pipe"
    path.write_bytes(b"12345")
    os.mkfifo(pipe)
    assert read_bytes(path, 5) == b"12345"
    for name, most, number in ((path, 4, EFBIG), ("/dev/zero", 9, EINVAL), (pipe, 9, EINVAL)):
        with pytest.raises(OSError) as caught:
            read_bytes(name, most)
        assert caught.value.errno == number and caught.value.filename == str(name)
    with path.open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(OSError, match="has more than 1000 bytes"):
        read_text(path, 1000)


def test_line_ends_of_any_system_are_read(tmp_path):
    path = tmp_path / "a"
    path.write_bytes("a\r\nb\rc\u2028é\n".encode())
    assert read_text(path) == path.read_text(encoding="utf-8") == "a\nb\nc\u2028é\n"
    path.write_bytes(b"\xff")
    with pytest.raises(UnicodeDecodeError):
        read_text(path)


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b"{", b"", b"\xed\xa0\x80"], ids=["deep", "torn", "empty", "bytes"]
)
def test_json_that_is_none_is_a_value_error(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ValueError):
        read_json(path)
    path.write_text('{"a": [1]}')
    assert read_json(path) == {"a": [1]}


def test_arrays_that_unpack_to_more_are_refused(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(10**7))
    with pytest.raises(OSError, match="unpacks to more than 67108864 bytes"):
        check_arrays(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", a=np.zeros(10))
    for sound in ("b.npz", "missing.npz"):
        check_arrays(tmp_path / sound)


def test_nothing_else_reads_a_file_as_a_whole():
    """Calls of `read_text`, `read_bytes` and `readlines` as methods, and of `json.load`."""
    found = set()
    for path in test_layers.MODULES:
        calls = [node.func for node in ast.walk(test_layers.parse(path)) if isinstance(node, ast.Call)]
        methods = {call.attr for call in calls if isinstance(call, ast.Attribute)}
        if {"read_text", "read_bytes", "readlines"} & methods or "json.load" in map(ast.unparse, calls):
            found.add(path.relative_to(test_layers.PACKAGE).as_posix())
    assert found - OTHER_WAYS.keys() == set(), "use espnet_diverse.untrusted.whole_files"
    assert OTHER_WAYS.keys() - found == set(), "remove the entry"
