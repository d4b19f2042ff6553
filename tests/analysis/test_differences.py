import numpy as np
import pytest

from espnet_diverse.analysis.differences import measure_differences
from espnet_diverse.errors import ConfigError


def test_one_utterance_is_not_tested(tmp_path):
    for name, line in {"text": "a b", "old": "a", "new": "a b"}.items():
        (tmp_path / name).write_text(f"u {line}\n")
    hypotheses = {name: tmp_path / name for name in ("old", "new")}
    (each,) = measure_differences(tmp_path / "text", hypotheses, "wer", [50, 0]).found
    assert (each.difference, each.p_value) == (-50, None)


def test_a_metric_that_needs_an_encoder_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="bertscore is not compared by utterance; give another --metric"):
        measure_differences(tmp_path / "text", {}, "bertscore", [])


def test_an_empty_reference_has_no_difference_of_its_own(tmp_path):
    texts = {"text": ["a b", "a b c d", ""], "old": ["a b", "a b c d", "x"], "new": ["a b", "a", "x"]}
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"u{at} {line}\n" for at, line in enumerate(lines)))
    hypotheses = {name: tmp_path / name for name in ("old", "new")}
    found = measure_differences(tmp_path / "text", hypotheses, "wer", [100 / 6, 400 / 6])
    (each,) = found.found
    assert each.difference == pytest.approx(50) and each.interval[0] <= 50 <= each.interval[1]
    np.testing.assert_array_equal(each.by_utterance, [0, 75, np.nan])
    assert found.largest(each, 5) == [("u1", 75.0, "a b c d", "a b c d", "a")]
    assert found.summary(each)["utterances"] == {"u0": 0.0, "u1": 75.0, "u2": None}
