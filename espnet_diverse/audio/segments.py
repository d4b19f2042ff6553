"""Segments: parts of a recording, as `segments` of a Kaldi data directory names them."""

from typing import NamedTuple


class Segment(NamedTuple):
    """A part of a recording; start and end in seconds."""

    recording: str
    start: float
    end: float
