"""Tables, notes, alignments and JSON of a scored corpus."""

import json

import pytest

from espnet_diverse.scoring.build import build_metrics
from espnet_diverse.scoring.evaluate import evaluate
from espnet_diverse.scoring.report import Report
from espnet_diverse.scoring.significance import Bootstrap
from espnet_diverse.scoring.texts import Corpus, system_of

REFERENCES = {"a": "x y z", "b": "x y", "c": "u v w"}


def report_of(*names, baseline=None):
    system = system_of("mine", REFERENCES, {"a": "x y z", "b": "x q"})
    other = None if baseline is None else system_of("other", REFERENCES, baseline)
    corpus, metrics = Corpus(REFERENCES, system, other), build_metrics(names)
    parts, averages = {"": range(3), "de": [0], "en": [1, 2]}, {"AVG": ["de", "en"]}
    scores = {name: evaluate(metric, corpus, parts, averages, Bootstrap(100, 1)) for name, metric in metrics.items()}
    return Report(corpus, metrics, scores)


def test_each_metric_has_a_table_whose_rows_begin_with_the_system():
    report = report_of("wer", "bleu")
    tables = report.markdown().split("### ")[1:]
    assert [table.split("\n")[0] for table in tables] == ["WER", "BLEU"]
    names = [line.split("|")[1] for line in tables[0].splitlines() if line.startswith("|mine")]
    assert names == list(report.results("wer")) == ["mine", "mine de", "mine en", "mine AVG"]
    assert report.results("wer")["mine"][:6] == ["3", "8", "50.0", "12.5", "37.5", "0.0"]


def test_notes_are_signatures_once_and_missing_texts():
    notes = report_of("wer", "cer", baseline=REFERENCES).notes()
    assert [note.split("|")[0] for note in notes[:2]] == ["WER", "CER"] and len(notes) == 3
    assert notes[2] == "mine: 1 of 3 references have no hypothesis and count as deleted: c"


def test_only_error_rates_have_alignments():
    found = "".join(report_of("bleu", "wer", "cer").alignments())
    assert [line for line in found.splitlines() if line.startswith("# ")] == ["# WER", "# CER"]
    assert found.count("id: b\n") == 2
    assert found.startswith("# WER\nid: a\n") and "\n\n# CER\nid: a\n" in found  # parts stand apart
    assert found.count("\n\nid: ") == 4 and "\n\n\n" not in found
    assert list(report_of("bleu").alignments()) == []


@pytest.mark.parametrize("baseline", [None, {"a": "x", "b": "x y", "c": "u v w"}])
def test_all_numbers_go_through_json(baseline):
    numbers = json.loads(json.dumps(report_of("wer", baseline=baseline).to_dict()))
    assert (numbers["name"], numbers["missing"]) == ("mine", ["c"])
    wer = numbers["metrics"]["wer"]
    assert wer["overall"]["score"] == 50 and (list(wer["rows"]), list(wer["averages"])) == (["de", "en"], ["AVG"])
    assert wer["averages"]["AVG"]["score"] == pytest.approx((0 + 80) / 2)
    assert (wer["overall"]["units"], wer["rows"]["en"]["deletions"]) == (8, 3) and "units" not in wer["averages"]["AVG"]
    assert ("baseline" in numbers) == (baseline is not None)
    if baseline:
        assert numbers["baseline"] == {"name": "other", "missing": []}
        assert wer["overall"]["baseline"]["score"] == 25
