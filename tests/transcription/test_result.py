from espnet_diverse.transcription.result import Segment
from espnet_diverse.transcription.transcript import Transcript


def test_optional_results_are_empty_by_default():
    segment = Segment(0.0, 1.0, "a", -1.0)
    assert segment.tokens == segment.confidences == segment.words == segment.alternatives == ()
    transcript = Transcript((segment,), 1.0, {})
    assert transcript.language is None and transcript.language_probabilities is None
