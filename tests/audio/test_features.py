"""Features of feats.scp: equal to those of kaldiio; other contents are refused."""

import pickle
import struct
from pathlib import Path

import kaldiio
import numpy as np
import pytest

from espnet_diverse.audio.features import features_shape, read_features
from espnet_diverse.errors import DataError

MATRIX = np.random.default_rng(2).standard_normal((30, 5))


def save(folder: Path, matrix: np.ndarray = MATRIX, **options) -> list[str]:
    """Entries of an ark with a matrix and its first 20 rows."""
    kaldiio.save_ark(str(folder / "m.ark"), {"a": matrix, "b": matrix[:20]}, scp=str(folder / "m.scp"), **options)
    return [line.split()[1] for line in (folder / "m.scp").read_text().splitlines()]


@pytest.mark.parametrize("method", [None, 2, 3, 5])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_matrices_and_ranges_match_kaldiio(tmp_path, method, kind):
    for entry, rows in zip(save(tmp_path, MATRIX.astype(kind), compression_method=method), (30, 20), strict=True):
        features = read_features(entry)
        assert features.dtype == np.float32 and features.shape == features_shape(entry) == (rows, 5)
        np.testing.assert_array_equal(features, kaldiio.load_mat(entry).astype(np.float32))
        np.testing.assert_allclose(features, MATRIX[:rows], atol=1e-6 if method is None else 0.05)
        np.testing.assert_array_equal(read_features(f"{entry}[3:9]"), features[3:10])
        np.testing.assert_array_equal(features[3:10], kaldiio.load_mat(f"{entry}[3:9]").astype(np.float32))
        assert features_shape(f"{entry}[3:9]") == (7, 5)
        for read in (read_features, features_shape):
            for frames in (f"[3:{rows}]", "[5:3]", "[5:4]"):
                with pytest.raises(DataError, match=rf"the matrix has {rows} frames; correct the range"):
                    read(f"{entry}{frames}")


def test_values_that_are_not_finite(tmp_path):
    spoilt = MATRIX.copy()
    spoilt[3, 2] = np.nan
    with pytest.raises(DataError, match=r"m.ark:2: holds NaN or infinite values; compute the features again"):
        read_features(save(tmp_path, spoilt)[0])


class Marker:
    """A pickle that leaves a file behind if it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def matrix(kind: bytes, rows: int, columns: int) -> bytes:
    """The header of a binary matrix."""
    return b"\0B" + kind + b" \4" + struct.pack("<i", rows) + b"\4" + struct.pack("<i", columns)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PKL" + pickle.dumps(Marker(Path("ran"))), "there is no binary matrix at byte 0; correct the entry"),
        (b" [\n  1 2\n  3 4 ]\n", "there is no binary matrix at byte 0"),
        (b"\0BFV \4\2\0\0\0" + 20 * b"\0", "there is no binary matrix at byte 0"),
        (b"\0BFM " + 20 * b"\0", "there is no binary matrix at byte 0"),
        (b"\0BCM " + 3 * b"\0", "there is no binary matrix at byte 0"),
        (matrix(b"FM", 2**31 - 1, 2**31 - 1), "the matrix of 2147483647 x 2147483647 needs more than the ark has"),
        (matrix(b"FM", -1, -1), "the matrix of -1 x -1 needs more than the ark has; get the ark again"),
        (matrix(b"DM", 2, 1) + 15 * b"\0", "the matrix of 2 x 1 needs more than the ark has"),
        (b"\0BCM " + struct.pack("<ffii", 0, 1, 2, 1) + 9 * b"\0", "the matrix of 2 x 1 needs more than the ark has"),
    ],
)
def test_other_contents_are_refused(tmp_path, monkeypatch, content, what):
    monkeypatch.chdir(tmp_path)
    Path("x.ark").write_bytes(content)
    for read in (read_features, features_shape):
        with pytest.raises(DataError, match=f"^x.ark:0: {what}"):
            read("x.ark:0")
    assert not Path("ran").exists()


def test_entries_that_are_none(tmp_path):
    for entry in ("x.ark", f"touch {tmp_path}/ran |", "x.ark:-1", "x.ark:1[2]"):
        with pytest.raises(DataError, match="is no entry of an ark; the format is file.ark:BYTE or file.ark:BYTE"):
            read_features(entry)
    with pytest.raises(DataError, match=f"^{tmp_path}/x.ark:0: no such ark; correct the path or get the file"):
        read_features(f"{tmp_path}/x.ark:0")
    with pytest.raises(DataError, match=r"touch .*ran \|:0: no such ark"):
        read_features(f"touch {tmp_path}/ran |:0")
    assert not (tmp_path / "ran").exists()


def test_an_ark_that_cannot_be_opened(tmp_path, monkeypatch):
    (entry, _) = save(tmp_path)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"cannot be read \(Permission denied\); correct the path or the file"):
        features_shape(entry)
