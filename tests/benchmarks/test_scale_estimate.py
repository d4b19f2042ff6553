"""The estimate of a corpus from rates: the formulas by hand, the table, and faults of the file of rates."""

from pathlib import Path

import pytest
import yaml

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RATES = {
    "measured": {
        **{"prepare": 1000, "validate": 2000, "stats": 1000, "train": 10, "decode": 50},
        **{"audio_bytes": 10_000, "row_seconds": 1e-5, "row_bytes": 100},
    },
    "assumed": {
        **{"gpu": 20, "doubling": 0.5, "cores": 4, "speeds": 2, "utterance": 4.0, "tested": 0.1, "parameters": 1e6}
    },
    "corpora": {"some": {"hours": 1000, "epochs": 3}, "more": {"hours": 1e6, "epochs": 1}},
}


@pytest.fixture
def scale_estimate(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import scale_estimate

    return scale_estimate


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rates.yaml"
    path.write_text(yaml.safe_dump(RATES, sort_keys=False))
    return path


def test_the_formulas_by_hand(scale_estimate, file):
    rates, corpora = scale_estimate.read_rates(file)
    assert corpora == RATES["corpora"]
    one = scale_estimate.estimate(1000, 3, 1, rates)
    # 2 000 h at 400 s a second on 4 cores, and 1.8 million rows of 10 microseconds
    assert one.preparation == pytest.approx(2000 / 400 / 4 + 18 / 3600)
    assert one.training == pytest.approx(2000 * 3 / 200)
    assert one.testing == pytest.approx(100 / 1000) and one.transcribing == pytest.approx(1000 / 1000)
    assert one.storage == pytest.approx((7.2e6 * 10_000 + 1.8e6 * 100 + 64e6) / 1e12)
    four = scale_estimate.estimate(1000, 3, 4, rates)
    assert four.training == pytest.approx(one.training)  # two doublings, each of which leaves half
    assert four.preparation == pytest.approx(2000 / 400 / 16 + 18 / 3600)
    assert four.transcribing == pytest.approx(one.transcribing / 4) and four.storage == one.storage


def test_the_table_has_each_corpus_and_number(scale_estimate, file, capsys):
    scale_estimate.main([str(file), "--gpus", "1", "2"])
    head, line, *rows = capsys.readouterr().out.splitlines()
    assert head.count("|") == line.count("|") == 9
    assert rows[0] == "| some | 3 | 1 | 1.3 h | 30.0 h | 6 min | 1.0 h | 0.07 TB |"
    assert [row.split("|")[1:4:2] for row in rows] == [[" some ", f" {n} "] for n in (1, 2)] + [
        [" more ", f" {n} "] for n in (1, 2)
    ]
    assert rows[2].split("|")[5] == " 417 days "


def test_the_rates_of_this_repository_give_a_table(scale_estimate, capsys):
    scale_estimate.main([str(BENCHMARKS / "scale_rates.yaml")])
    printed = capsys.readouterr().out
    page = (BENCHMARKS.parent / "docs" / "scale.md").read_text(encoding="utf-8")
    assert printed.strip() in page and len(printed.splitlines()) == 8


@pytest.mark.parametrize(
    ("section", "change", "said"),
    [
        ("measured", {"prepair": 5}, "prepair is missing or unknown; known rates: prepare validate"),
        ("assumed", {"gpu": 0}, "gpu is 0; give a number above 0"),
        ("corpora", {"some": {"hours": "many", "epochs": 1}}, "hours is 'many'; give a number above 0"),
    ],
)
def test_faults_of_the_file_are_named(scale_estimate, tmp_path, section, change, said):
    path = tmp_path / "rates.yaml"
    path.write_text(yaml.safe_dump(RATES | {section: RATES[section] | change}))
    with pytest.raises(SystemExit, match=said):
        scale_estimate.main([str(path)])


def test_there_is_at_least_one_gpu(scale_estimate, file, capsys):
    with pytest.raises(SystemExit, match="2"):
        scale_estimate.main([str(file), "--gpus", "0"])
    assert "--gpus 0: must be 1 or more" in capsys.readouterr().err
