"""Reading of whole files, with a maximum size.

A path may lead to a device or pipe without an end, and a sparse file of kilobytes may have terabytes. Tables are read
line by line, in `data/lines.py`.
"""

import json
import zipfile
from errno import EFBIG, EINVAL
from pathlib import Path
from typing import Any

MOST_BYTES = 1 << 28
"""Maximum bytes of a file. The largest texts are the journal and the n-best lists of a large test set."""
_MOST_UNPACKED = 1 << 26


def read_bytes(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """Read a regular file.

    Args:
        path: The file.
        most: Greatest number of bytes.

    Raises:
        OSError: It cannot be read, is not a regular file or is larger; `strerror` has the reason.
    """
    path = Path(path)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(EINVAL, "not a regular file", str(path))
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(EFBIG, f"has more than {most} bytes", str(path))
    return content


def read_text(path: str | Path, most: int = MOST_BYTES) -> str:
    """Read a file of UTF-8 with line ends of any system; see `read_bytes`.

    Raises:
        UnicodeDecodeError: It is not UTF-8.
        OSError: See `read_bytes`.
    """
    return read_bytes(path, most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def check_arrays(path: str | Path) -> None:
    """Check the size of the arrays in a .npz, which may be a thousand times the size of the file.

    Raises:
        OSError: They have more than 64 MiB; see also `read_bytes`.
    """
    if not Path(path).is_file() or not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        if sum(member.file_size for member in archive.infolist()) > _MOST_UNPACKED:
            raise OSError(EFBIG, f"unpacks to more than {_MOST_UNPACKED} bytes", str(path))


def read_json(path: str | Path, most: int = MOST_BYTES) -> Any:
    """Read a file of JSON; see `read_bytes`.

    Raises:
        ValueError: It is not JSON, or nested too deep.
        OSError: See `read_bytes`.
    """
    try:
        return json.loads(read_bytes(path, most))
    except RecursionError as error:
        raise ValueError("is nested too deep") from error
