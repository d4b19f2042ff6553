from math import inf

import pytest

from espnet_diverse.audio.segments import Segment, segment_fault


def test_the_end_of_the_recording_and_channels():
    segment = Segment("x", 0.5, inf, 1)
    assert segment_fault(segment, 2.0, 2) is None and segment.length(2.0) == 1.5
    assert segment_fault(segment, 0.4, 2) == "segment from 0.5 to its end lies past the end of the audio at 0.400 s"
    assert segment_fault(segment, 2.0, 1) == "segment has channel 1, and the audio has 1, counted from 0"


@pytest.mark.parametrize(
    ("start", "end", "is_fault"),
    [(0.0, 2.0, False), (1.5, 2.5, False), (1.5, 2.51, True), (2.0, 2.2, True), (1.999, 2.0, False)],
)
def test_a_segment_may_end_half_a_second_after_its_recording(start, end, is_fault):
    fault = segment_fault(Segment("x", start, end), 2.0, 1)
    past = f"segment from {start} to {end} s lies past the end of the audio at 2.000 s"
    assert fault == (past if is_fault else None)
    assert is_fault or Segment("x", start, end).length(2.0) == 2.0 - start
