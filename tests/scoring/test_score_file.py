"""score.json as `score` writes it, and damaged in every way that JSON allows."""

import json

import pytest

from espnet_diverse.errors import DataError
from espnet_diverse.scoring.score_file import read_metrics, rows_of

ROW = {"score": 26.0}
WER = {"overall": ROW, "rows": {"ar": {"score": 30.0}}, "averages": {"AVG": {"score": 25.0}}}


def test_the_rows_of_a_metric(tmp_path):
    file = tmp_path / "score.json"
    file.write_text(json.dumps({"metrics": {"wer": WER}}))
    metrics = read_metrics(file)
    assert metrics == {"wer": WER}
    assert {title: row["score"] for title, row in rows_of(metrics["wer"]).items()} == {
        "": 26.0,
        "ar": 30.0,
        "AVG": 25.0,
    }


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "1",
        "{}",
        '{"metrics": null}',
        '{"metrics": {}}',
        '{"metrics": {"wer": 26.0}}',
        json.dumps({"metrics": {"wer": {key: WER[key] for key in ("overall", "rows")}}}),
        json.dumps({"metrics": {"wer": WER | {"rows": [ROW]}}}),
        json.dumps({"metrics": {"wer": WER | {"overall": {}}}}),
        json.dumps({"metrics": {"wer": WER | {"overall": {"score": "26.0"}}}}),
        json.dumps({"metrics": {"wer": WER | {"rows": {"ar": {"score": None}}}}}),
        '{"metrics": {"wer": {"overall": {"score": NaN}, "rows": {}, "averages": {}}}}',
        b"\xff\xfe",
    ],
)
def test_a_damaged_file_is_named(tmp_path, content):
    file = tmp_path / "score.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(
        DataError, match=r"score\.json: is damaged or not a file of scores; run espnet-diverse score again"
    ):
        read_metrics(file)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"score\.json: no such file; espnet-diverse score writes it"):
        read_metrics(tmp_path / "score.json")
