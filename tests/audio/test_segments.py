import pytest

from espnet_diverse.audio.segments import Segment, segment_fault


@pytest.mark.parametrize(
    ("start", "end", "is_fault"),
    [(0.0, 2.0, False), (1.5, 2.5, False), (1.5, 2.51, True), (2.0, 2.2, True), (1.999, 2.0, False)],
)
def test_a_segment_may_end_half_a_second_after_its_recording(start, end, is_fault):
    fault = segment_fault(Segment("x", start, end), 2.0)
    past = f"segment from {start} to {end} s lies past the end of the audio at 2.000 s"
    assert fault == (past if is_fault else None)
