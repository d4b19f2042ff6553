"""Segments of recordings, as in the table `segments` of a Kaldi data directory."""

from typing import NamedTuple

OVERSHOOT_SECONDS = 0.5
"""How far a segment may end after its recording, as in Kaldi's extract-segments; it is cut at the end."""


class Segment(NamedTuple):
    """A part of a recording; start and end in seconds."""

    recording: str
    start: float
    end: float


def segment_fault(segment: Segment, seconds: float) -> str | None:
    """Say why a segment does not lie in a recording of this many seconds, or return None."""
    if segment.start >= seconds or segment.end > seconds + OVERSHOOT_SECONDS:
        return f"segment from {segment.start} to {segment.end} s lies past the end of the audio at {seconds:.3f} s"
    return None
