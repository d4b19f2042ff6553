"""Reading of small text files as a whole; see `lines.py` for tables."""

from pathlib import Path

from espnet_diverse.errors import DataError, UserError
from espnet_diverse.untrusted.whole_files import read_text


def read_utf8(
    path: Path,
    shown: str | None = None,
    advice: str = "save the file as UTF-8",
    error: type[UserError] = DataError,
) -> str:
    """Read a file of text.

    Args:
        path: The file.
        shown: How a message names it; the path by default.
        advice: What to do if it is not UTF-8.
        error: Class of the error that is raised then.

    Raises:
        UserError: The file is not UTF-8; the message has the offset of the byte.
        OSError: It cannot be read.
    """
    try:
        return read_text(path)
    except UnicodeDecodeError as fault:
        raise error(f"{shown or path}: not UTF-8 at byte {fault.start}; {advice}") from fault
