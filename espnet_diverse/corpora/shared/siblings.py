"""Search for a missing file under similar names: other letter case, another suffix, or a path of Windows."""

from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PureWindowsPath

from espnet_diverse.audio.suffixes import SUFFIXES

_FOLDERS = ("", "wavs", "wav", "clips", "audio", "audios")
"""Folders beside a table in which other tools keep its recordings."""


def sibling(given: str, folder: Path) -> str:
    """The path, from `folder`, of a file that a missing one may mean; "" if there is none.

    Args:
        given: Path of the missing file as a table gives it, with slashes or backslashes.
        folder: The directory that paths of the table are relative to.
    """
    parts = PureWindowsPath(given).parts if "\\" in given else Path(given).parts
    parts = parts[1:] if parts and parts[0][-1:] in "\\/" else parts  # without the root or the drive
    tails = [Path(*parts[first:]) for first in range(len(parts))]
    if len(parts) == 1:
        tails = [Path(name, *parts) for name in _FOLDERS]
    candidates = (_alike(folder, tail) for tail in tails)
    return next((str(path.relative_to(folder)) for path in candidates if path), "")


def _alike(folder: Path, path: Path) -> Path | None:
    """The file at a path below a folder, in which the case of names and the suffix of the file may differ."""
    *folders, name = path.parts or ("",)
    for part in folders:
        matches = [folder / one for one in _names(folder).get(part.lower(), ()) if (folder / one).is_dir()]
        if not matches:
            return None
        folder = matches[0]
    names = _names(folder)
    same = names.get(name.lower(), [])
    of_audio = [one for one in names.get(Path(name).stem.lower(), ()) if Path(one).suffix.lower() in SUFFIXES]
    return next((folder / one for one in (*same, *of_audio) if (folder / one).is_file()), None)


@lru_cache(8)  # many files of a table may be missing
def _names(folder: Path) -> dict[str, list[str]]:
    """The names in a folder, by themselves and by their stems in lower case."""
    names: dict[str, list[str]] = {}
    with suppress(OSError):
        for name in sorted(path.name for path in folder.iterdir()):
            for key in {name.lower(), Path(name).stem.lower()}:
                names.setdefault(key, []).append(name)
    return names
