"""Segments of recordings, as in the table `segments` of a Kaldi data directory."""

from math import inf
from typing import NamedTuple

OVERSHOOT_SECONDS = 0.5
"""The most that a segment may end after its recording, as in Kaldi's extract-segments; the excess is cut off."""


class Segment(NamedTuple):
    """A part of a recording.

    Attributes:
        recording: Id of the recording.
        start: Where it begins, in seconds.
        end: Where it ends, in seconds; infinity is the end of the recording.
        channel: Number of the channel, from 0; None is the mean of all channels.
    """

    recording: str
    start: float
    end: float
    channel: int | None = None

    def length(self, seconds: float) -> float:
        """Seconds of this part that lie within a recording of length `seconds`."""
        return min(self.end, seconds) - self.start


def milliseconds(seconds: float) -> str:
    """A time as a part of an id: milliseconds with at least 7 digits, or "end" for infinity."""
    return "end" if seconds == inf else f"{round(1000 * seconds):07d}"


def segment_fault(segment: Segment, seconds: float, channels: int) -> str | None:
    """Return the reason why a segment is not in a recording, or None.

    Args:
        segment: The segment.
        seconds: Length of the recording.
        channels: Number of its channels.
    """
    if segment.start >= seconds or seconds + OVERSHOOT_SECONDS < segment.end < inf:
        end = "its end" if segment.end == inf else f"{segment.end} s"
        return f"segment from {segment.start} to {end} lies past the end of the audio at {seconds:.3f} s"
    if segment.channel is not None and segment.channel >= channels:
        return f"segment has channel {segment.channel}, and the audio has {channels}, counted from 0"
    return None
