"""The sentences of the page of `compare`; tests/bin/report/test_compare.py has a whole page."""

import numpy as np
import pytest

from espnet_diverse.analysis.comparison import System
from espnet_diverse.analysis.comparison_page import verdict, write_page
from espnet_diverse.analysis.differences import Difference, Differences


@pytest.mark.parametrize(
    ("sizes", "interval", "said"),
    [
        ([1.0, 2.0], (0.5, 2.5), "+1.5 wer against old (95 % interval +0.5 to +2.5, p = 0.040), which is certain."),
        ([-4.0, 1.0], (-4.0, 1.0), "-4.0 to +1.0, p = 0.040), which is not certain: the interval holds 0."),
        ([3.0], (3.0, 3.0), "new has +3.0 wer against old; one utterance has no interval and says nothing of others."),
    ],
)
def test_the_verdict_is_certain_only_where_the_interval_lies_on_one_side_of_0(sizes, interval, said):
    found = Difference("new", float(np.mean(sizes)), interval, 0.04, np.array(sizes))
    assert said in verdict(found, "old", "wer")


def test_systems_that_write_the_same_have_no_table_of_utterances(tmp_path):
    same = Difference("new", 0.0, (0.0, 0.0), 0.5, np.zeros(2))
    found = Differences({"u1": "a", "u2": "b"}, {"old": ["a", "b"], "new": ["a", "b"]}, [same])
    systems = [System(name, "none", 2, 2, 9, None, {"all": 0.0}) for name in ("old", "new")]
    (tmp_path / "x.png").touch()
    write_page(systems, "wer", found, dict.fromkeys(("scores", "differences"), tmp_path / "x.png"), tmp_path / "page")
    page = (tmp_path / "page").read_text()
    assert "No utterance has another wer with new than with old." in page
    assert "Utterances that differ most" not in page
