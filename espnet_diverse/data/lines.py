"""The lines of a text file, decoded one by one, so that a file of any size can be read; or a small file as a whole."""

import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from espnet_diverse.data.characters import LONGEST_ID, guess_encodings
from espnet_diverse.data.faults import Fault
from espnet_diverse.errors import DataError, UserError
from espnet_diverse.untrusted.whole_files import read_text

LONGEST_LINE = 1_000_000
"""Maximum bytes of a line. A longer line means lost line ends, and would take the tokenizer hours."""
_MOST_UNPACKED, _MOST_RATIO = 1 << 26, 50  # limit of an unpacked .gz: bytes + ratio * its size; text reaches about 20
_LONGEST_SKIP = 1 << 28
_FEW = 10  # lines that are not utf-8, each of which is a fault; with more, the whole file has another encoding
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def numbered_lines(
    path: Path, faults: list[Fault], repairs: Counter[str] | None = None, pipe: bool = False
) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, decoded line); a line that is not utf-8 is a fault, and more than ten are one fault.

    `repairs` counts repairs by kind. With `pipe` the file may be a pipe, such as standard input; otherwise it must be
    a regular file.
    """
    counted = Counter() if repairs is None else repairs
    return ((number, text) for number, text, _, _ in placed_lines(path, faults, counted, pipe))


def placed_lines(
    path: Path, faults: list[Fault], repairs: Counter[str], pipe: bool = False
) -> Iterator[tuple[int, str, int, int]]:
    """Yield (number, decoded line, first byte in the file, number of bytes) as `numbered_lines` does.

    The first byte is -1 where the bytes in the file differ from the line: in a .gz, and where it is not utf-8.
    """
    try:
        with _opened(path, pipe) as file:
            yield from _decoded(file, path, faults, repairs)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        faults.append(Fault(str(path), None, f"cannot be read ({reason})"))


def _opened(path: Path, pipe: bool) -> BinaryIO:
    """A file, or the unpacked content of a .gz; OSError for a device, and for a .gz that unpacks to far more."""
    if path.exists() and not (path.is_file() or path.is_dir() or pipe and path.is_fifo()):
        raise OSError("not a regular file")
    if path.suffix != ".gz":
        return io.BytesIO(path.read_bytes()) if path.is_fifo() else path.open("rb")
    most = _MOST_UNPACKED + _MOST_RATIO * path.stat().st_size
    with gzip.open(path) as packed:
        raw = packed.read(most + 1)
    if len(raw) > most:
        raise OSError(f"unpacks to more than {most} bytes")
    return io.BytesIO(raw)


def _decoded(
    file: BinaryIO, path: Path, faults: list[Fault], repairs: Counter[str]
) -> Iterator[tuple[int, str, int, int]]:
    head = file.read(4096)
    if guess_encodings(head) == ["UTF-16"]:
        faults.append(Fault(str(path), None, "is UTF-16 from byte offset 0; allowed is utf-8: convert it with iconv"))
        return
    if head.startswith(_BYTE_ORDER_MARK):
        repairs["byte order mark"] += 1
    if head:
        file.seek(-1, io.SEEK_END)
        repairs.update(["missing final newline"] if file.read() != b"\n" else [])
    file.seek(0)
    offset, undecodable, in_place = 0, 0, isinstance(file, io.BufferedReader)
    for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE + 2), b""), start=1):
        line, start = raw.removesuffix(b"\n"), offset
        offset += len(raw)
        if len(line) > LONGEST_LINE:
            offset += _skipped(file, raw)
            reason = f"has more than the {LONGEST_LINE} bytes that are allowed: are line ends missing?"
            faults.append(Fault(str(path), number, reason))
            first = line[:LONGEST_ID].decode("utf-8", "ignore").split(None, 1)[:1]
            yield number, f"{''.join(first)} \ufffd", -1, 0  # with the id, so that it is not also reported as missing
            continue
        if number == 1 and line.startswith(_BYTE_ORDER_MARK):
            line, start = line.removeprefix(_BYTE_ORDER_MARK), len(_BYTE_ORDER_MARK)
        try:
            text, as_written = line.decode("utf-8"), in_place
        except UnicodeDecodeError as error:
            undecodable += 1
            if undecodable <= _FEW:
                faults.append(_encoding_fault(path, number, start + error.start, line))
            # The id is nearly always ASCII: keep it, so that the utterance is not also reported as missing.
            text, as_written = line.decode("utf-8", "replace"), False
        if text.endswith("\r"):
            repairs["CRLF line end"] += 1
            text, line = text.removesuffix("\r"), line[:-1]
        if "\r" in text:  # the line ends of an old Mac would make one line of many
            repairs["carriage return within a line"] += 1
        yield number, text, start if as_written else -1, len(line)
    if undecodable > _FEW:
        reason = f"{undecodable - _FEW} more lines are not utf-8; convert the file with iconv"
        faults.append(Fault(str(path), None, reason))


def _skipped(file: BinaryIO, chunk: bytes) -> int:
    """Skip the rest of a line that is too long, or of the file after `_LONGEST_SKIP` bytes; return the size read."""
    count = 0
    while chunk and not chunk.endswith(b"\n") and count < _LONGEST_SKIP:
        chunk = file.readline(LONGEST_LINE)
        count += len(chunk)
    if count >= _LONGEST_SKIP:
        file.seek(0, io.SEEK_END)
    return count


def _encoding_fault(path: Path, number: int, offset: int, line: bytes) -> Fault:
    readings = [f"{encoding} would be {_reading(line, encoding)}" for encoding in guess_encodings(line)]
    seems = ", ".join(readings) or "its encoding is unknown"
    todo = "if one is right, convert the file with iconv -f THAT -t UTF-8, else with its own encoding"
    return Fault(str(path), number, f"not utf-8 at byte offset {offset}: {seems}; {todo}")


def _reading(line: bytes, encoding: str) -> str:
    """A few of the words with letters besides ASCII that a line has in an encoding, for a reader to judge."""
    words = [word for word in line.decode(encoding, "replace").split() if not word.isascii()]
    return repr(" ".join(words[:3])[:60])


def read_utf8(
    path: Path,
    shown: str | None = None,
    advice: str = "save the file as UTF-8",
    error: type[UserError] = DataError,
) -> str:
    """Read a file of text.

    Args:
        path: The file.
        shown: Name of the file in messages; by default the path.
        advice: Advice in the message if it is not UTF-8.
        error: Class of the error for a file that is not UTF-8.

    Raises:
        UserError: The file is not UTF-8; the message has the offset of the byte.
        OSError: The file cannot be read.
    """
    try:
        return read_text(path)
    except UnicodeDecodeError as fault:
        raise error(f"{shown or path}: not UTF-8 at byte {fault.start}; {advice}") from fault
