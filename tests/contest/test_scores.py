"""The file of scores, and the direction of metrics; `tests/recipes/test_reproduce.py` tests updates of the file."""

import json
from importlib.metadata import version

import pytest

from espnet_diverse.contest.runs import MEASURED_BY_DECODING, RecipeRun
from espnet_diverse.contest.scores import (
    COLUMNS,
    commit_of_code,
    keep_results,
    markdown,
    mean_cell,
    missing,
    read_results,
    scores,
    unknown,
)
from espnet_diverse.errors import DataError
from espnet_diverse.scoring.build import METRICS
from espnet_diverse.scoring.metric import lower_is_better

SHARED = {"config": "{}", "metric": "cer", "sets": ["dev", "test"], "baseline": "old"}


def runs(folder, **changes):
    shared = {**SHARED, **changes}
    return [
        RecipeRun("mine", shared, name, seed, {"fragments": name}, folder) for seed in (0, 1) for name in ("old", "new")
    ]


def row(run, seed, data_set, score="1.00"):
    values = ("mine", run, seed, data_set, "cer", score, "", "abc", "CPU")
    return dict(zip(COLUMNS, values, strict=True))


def test_lower_is_better_for_error_rates_and_perplexities():
    lower = {"cer", "wer", "mer", "ter", "perplexity", "word_perplexity"}
    assert {name for name in (*METRICS, *MEASURED_BY_DECODING) if lower_is_better(name)} == lower


def test_rows_are_kept_once_for_a_run_and_a_set(tmp_path):
    path = tmp_path / "contest.tsv"
    keep_results(path, [row("old", 0, "dev"), row("old", 0, "test")])
    keep_results(path, [row("old", 0, "dev", "2.00"), row("new", 0, "dev")])
    found = read_results(path)
    assert [(each["run"], each["set"], each["score"]) for each in found] == [
        ("old", "dev", "2.00"), ("old", "test", "1.00"), ("new", "dev", "1.00"),
    ]  # fmt: skip
    left = missing(runs(tmp_path), found)
    assert [run.label for run in left] == ["mine/new/0", "mine/old/1", "mine/new/1"]
    assert unknown(runs(tmp_path)[:1], found) == ["mine/new/0"]


def test_a_damaged_row_is_named(tmp_path):
    path = tmp_path / "contest.tsv"
    keep_results(path, [row("old", 0, "dev")])
    path.write_text(path.read_text() + "mine\told\n")
    with pytest.raises(DataError, match=r"contest.tsv:3: not a row of experiment run seed"):
        read_results(path)


def test_scores_of_a_run_are_read_from_its_score_files(tmp_path):
    run = runs(tmp_path)[0]
    for name, score in (("dev", 12.345), ("test", 50)):
        folder = run.decoded("old", name)
        folder.mkdir(parents=True)
        (folder / "score.json").write_text(json.dumps({"metrics": {"cer": {"overall": {"score": score}}}}))
    found = list(scores(run, "abc"))
    assert [(each["set"], each["score"], each["p"]) for each in found] == [("dev", "12.35", ""), ("test", "50.00", "")]
    assert all(tuple(each) == COLUMNS for each in found)
    with pytest.raises(FileNotFoundError):
        list(scores(runs(tmp_path)[1], "abc"))


def test_a_perplexity_may_be_infinite(tmp_path):
    run = runs(tmp_path, metric="word_perplexity", sets=["dev"])[0]
    (folder := run.decoded("old", "dev")).mkdir(parents=True)
    (folder / "perplexity.json").write_text('{"word_perplexity": null}')
    assert [each["score"] for each in scores(run, "abc")] == ["inf"]


def test_without_git_the_version_stands_for_the_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of_code(tmp_path / "contest.tsv") == version("espnet_diverse")


def test_tables_have_mean_and_deviation():
    assert (mean_cell([]), mean_cell([1.25]), mean_cell([1.0, 2.0, 3.0])) == ("", "1.2", "2.0 ± 1.0")
    made = runs(None)
    rows = [row("old", seed, "dev", str(score)) for seed, score in ((0, 1.0), (1, 2.0))]
    assert list(markdown(made, rows)) == [
        *("| mine | dev | test | seeds |", "|---|---|---|---|"),
        *("| old | 1.5 ± 0.7 |  | 2 |", "| new |  |  | 0 |"),
    ]
