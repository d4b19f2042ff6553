"""Features in Kaldi's arks, for models that read features instead of audio: entries of feats.scp.

An entry is an ark, a byte in it, and optionally a range of frames whose end is included: raw.1.ark:1234[0:99]. Binary
matrices, also compressed ones, are read through kaldiio after a check of their header. An entry that is not a matrix,
such as a Python object that kaldiio would unpickle, or is larger than its ark, is refused.
"""

import struct
from typing import BinaryIO

import numpy as np
from kaldiio.matio import read_kaldi
from numpy.typing import NDArray

from espnet_diverse.audio.ark import FRAMES, ark_entry
from espnet_diverse.audio.libsndfile import check_file
from espnet_diverse.errors import DataError

_BYTES = {b"FM ": 4, b"DM ": 8, b"CM ": 1, b"CM2 ": 2, b"CM3 ": 1}
"""Bytes of a value by the name of the format."""


def read_features(entry: str) -> NDArray:
    """Features (T, F) float32 of an entry of feats.scp.

    Raises:
        DataError: See `features_shape`, or values are NaN or infinite.
    """
    file, rows = _opened(entry)
    with file:
        start = file.tell()
        _shape(_header(file, entry), rows, entry)
        file.seek(start)
        matrix = read_kaldi(file)
    features = np.array(matrix[rows], np.float32)
    if not np.isfinite(features).all():
        raise DataError(f"{entry}: holds NaN or infinite values; compute the features again")
    return features


def features_shape(entry: str) -> tuple[int, int]:
    """Numbers of frames and of values of an entry of feats.scp, from its header.

    Raises:
        DataError: The entry or its ark is wrong, or there is no matrix at its byte.
    """
    file, rows = _opened(entry)
    with file:
        return _shape(_header(file, entry), rows, entry)


def _opened(entry: str) -> tuple[BinaryIO, slice]:
    """The ark, opened at the byte of an entry, and the range of frames of the entry."""
    frames = FRAMES.search(entry)
    rows = slice(int(frames[1]), int(frames[2]) + 1) if frames else slice(None)
    ark = ark_entry(entry[: frames.start()] if frames else entry)
    if ark is None:
        raise DataError(f"{entry}: is no entry of an ark; the format is file.ark:BYTE or file.ark:BYTE[FIRST:LAST]")
    try:
        check_file(ark.path, entry, "ark")
        file = ark.path.open("rb")
    except OSError as error:
        raise DataError(f"{entry}: cannot be read ({error.strerror}); correct the path or the file") from error
    file.seek(ark.offset)
    return file, rows


def _shape(shape: tuple[int, int], rows: slice, entry: str) -> tuple[int, int]:
    """Shape of the frames `rows` of a matrix of shape `shape`."""
    count, size = shape
    frames = len(range(count)[rows])
    if rows != slice(None) and frames != rows.stop - rows.start or not frames:
        raise DataError(f"{entry}: the matrix has {count} frames; correct the range")
    return frames, size


def _header(file: BinaryIO, entry: str) -> tuple[int, int]:
    """Rows and columns of the matrix that begins here."""
    start = file.tell()
    head = file.read(24)
    mark, kind = head[:2], head[2 : head.find(b" ") + 1]
    values = _BYTES.get(kind) if mark == b"\0B" else None
    plain = kind in (b"FM ", b"DM ")
    # Plain: the byte 4 and a number, twice. Compressed: minimum and range, then the two numbers.
    layout = struct.Struct("<xixi" if plain else "<8xii")
    first = 2 + len(kind)
    marked = not plain or head[first : first + 6 : 5] == b"\4\4"
    if values is None or len(head) < first + layout.size or not marked:
        raise DataError(f"{entry}: there is no binary matrix at byte {start}; correct the entry or get the ark")
    rows, columns = layout.unpack_from(head, first)
    needed = rows * columns * values + (8 * columns if kind == b"CM " else 0)
    available = file.seek(0, 2) - start - first - layout.size
    if min(rows, columns) < 1 or needed > available:
        raise DataError(f"{entry}: the matrix of {rows} x {columns} needs more than the ark has; get the ark again")
    return rows, columns
