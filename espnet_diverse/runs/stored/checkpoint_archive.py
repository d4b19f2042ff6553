"""Checks of the objects and the memory that a .pth file would need, before PyTorch reads it.

PyTorch's reader runs no code, but it creates arrays of any size and sparse tensors whose indices point anywhere, and
unpacks records to a thousand times their size. Training writes none of these.
"""

import pickle
import pickletools
import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from espnet_diverse.errors import ModelError
from espnet_diverse.runs.file_digest import is_archive

_ALLOWED = re.compile(
    r"collections (OrderedDict|Counter)|datetime timedelta|_codecs encode"
    r"|torch(\.cuda)? \w+Storage|torch\.storage \w+Storage|torch\._utils _rebuild_(tensor|tensor_v2|parameter)"
    r"|numpy(\._?core\.multiarray scalar| dtype)"
)
"""Modules and names of plain containers, dense tensors, and the statistics of ESPnet's reporter."""
_END = struct.Struct("<4s4H2LH")  # the last record of a zip archive; a large archive has the next two before it
_LOCATOR, _LARGE_END = struct.Struct("<4sLQL"), struct.Struct("<4sQ2H2L4Q")
_UNSAID = 0xFFFFFFFF  # a place that only the record of a large archive has
_FORMER_START = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
"""The first pickle of a file of PyTorch before version 1.6."""
_OPERATIONS = 3_000_000  # of a pickle; a state of 1,000 tensors has about 100,000
_PARTS = 5  # pickles of a file of PyTorch before version 1.6, which is no archive


def check_archive(path: Path) -> None:
    """Check the records of a file that `torch.save` wrote, and the names in its pickle.

    Raises:
        ModelError: Records are compressed, share their bytes or names, or lie at other places than the archive states,
            or the pickle has a name that training does not write.
        Exception: The file is damaged; of any class.
    """
    names = _names(path) if is_archive(path) else _names_of_former(path)
    if foreign := next((name for name in names if not _ALLOWED.fullmatch(name)), None):
        message = ascii(foreign.replace(" ", ".", 1))[1:-1][:100]
        raise ModelError(f"{path}: is not a checkpoint or holds objects that are not allowed in one: {message}")


def _names(path: Path) -> Iterator[str]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if _is_moved(path, archive):
            raise ModelError(
                f"{path}: is a zip archive that does not begin where the file does; use another checkpoint"
            )
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            _refuse(path, "compressed")
        if sum(member.file_size for member in members) > path.stat().st_size:
            _refuse(path, "larger than the file")
        names = [member.orig_filename.casefold() for member in members]  # PyTorch finds names in any case
        if len(set(names)) < len(names):
            raise ModelError(
                f"{path}: two of its records have one name, or differ in case only; use another checkpoint"
            )
        for name, member in zip(names, members, strict=True):
            if name.endswith(".pkl"):
                with archive.open(member) as file:
                    yield from _names_in(file)


def _is_moved(path: Path, archive: zipfile.ZipFile) -> bool:
    """Return whether the list of records is at another place than the archive states.

    Python's zipfile finds the list by its end, and adds the difference to all places; PyTorch takes the places as they
    are. So in a file of two archives Python reads the second, and PyTorch the first.
    """
    with path.open("rb") as file:
        end = file.seek(-_END.size - len(archive.comment), 2)
        place = _END.unpack(file.read(_END.size))[-2]
        places = {place, archive.start_dir}
        file.seek(end - _LOCATOR.size)
        mark, _, place_of_large_end, _ = _LOCATOR.unpack(file.read(_LOCATOR.size))
        if mark == b"PK\x06\x07":
            if place_of_large_end != end - _LOCATOR.size - _LARGE_END.size:
                return True
            file.seek(place_of_large_end)
            places = (places - {_UNSAID}) | {_LARGE_END.unpack(file.read(_LARGE_END.size))[-1]}
    return len(places) > 1


def _names_of_former(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        if file.read(len(_FORMER_START)) != _FORMER_START:
            raise pickle.UnpicklingError("does not begin as a file of PyTorch")
        for _ in range(_PARTS - 1):
            yield from _names_in(file)


def _names_in(file: BinaryIO) -> Iterator[str]:
    """Module and name, with a space between them, of each class or function in a pickle."""
    for number, (operation, argument, _) in enumerate(pickletools.genops(file)):
        if number == _OPERATIONS:
            raise pickle.UnpicklingError(f"more than {_OPERATIONS} operations")
        if operation.name in ("GLOBAL", "INST"):  # PyTorch's reader knows no others
            yield str(argument)


def _refuse(path: Path, fault: str) -> None:
    message = f"its records are {fault}, and training stores them as they are"
    raise ModelError(f"{path}: {message}; use another checkpoint")
