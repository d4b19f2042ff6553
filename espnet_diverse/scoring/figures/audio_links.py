"""Addresses of the audio of utterances, for a page that plays it: links to files, or the audio itself."""

import base64
import os
from collections.abc import Mapping
from math import inf
from pathlib import Path
from urllib.parse import quote

from espnet_diverse.audio.reading import read_audio
from espnet_diverse.audio.segments import Segment
from espnet_diverse.audio.writing import flac_bytes
from espnet_diverse.data.tables import parse_segment, scan_packed
from espnet_diverse.errors import DataError

_PLAYED = {".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".m4a", ".mp4", ".aac", ".webm"}  # by browsers


class AudioLinks:
    """Addresses of the audio of the utterances of a data directory.

    Args:
        data_dir: Data directory; without wav.scp there is no audio.
        page: The page that plays it; links are relative to its folder.
        embed: Whether the addresses contain the audio, as flac, so that the page can be taken elsewhere.

    Attributes:
        unread: Why the audio of an utterance could not be embedded, by utterance.
    """

    def __init__(self, data_dir: Path, page: Path, embed: bool = False):
        self._folder, self._embed, self.unread = page.parent.resolve(), embed, dict[str, str]()
        self._paths, self._segments = _table(data_dir / "wav.scp"), _table(data_dir / "segments")

    def of(self, utterance: str) -> str | None:
        """The address; None if there is no audio, or none that a browser can play by a link or that can be read."""
        segment = parse_segment(value) if (value := self._segments.get(utterance)) else None
        path = Path(self._paths.get(segment.recording if segment else utterance, ""))
        if self._embed:
            return self._embedded(utterance, path, segment) if path.name else None
        if path.suffix.lower() not in _PLAYED or not path.is_file():
            return None
        address = quote(os.path.relpath(path.resolve(), self._folder))
        if segment:  # a media fragment of W3C
            address += f"#t={segment.start:g}" + ("" if segment.end == inf else f",{segment.end:g}")
        return address

    def _embedded(self, utterance: str, path: Path, segment: Segment | None) -> str | None:
        try:
            encoded = base64.b64encode(flac_bytes(*read_audio(path, segment)))
        except DataError as error:
            self.unread[utterance] = str(error)
            return None
        return f"data:audio/flac;base64,{encoded.decode('ascii')}"


def _table(path: Path) -> Mapping[str, str]:
    return scan_packed(path)[0] if path.is_file() else {}
