"""Runs of an experiment side by side; the two here are the same run."""

import json
import shutil

import pytest


def test_runs_are_compared_with_the_first(tiny_translation, tmp_path, capsys):
    import trained_runs

    for number, name in enumerate(("mine_softmax_1", "mine_window_of_4_1")):
        shutil.copytree(tiny_translation.model_dir, tmp_path / name)
        (tmp_path / name / "decode" / "test").mkdir(parents=True)
        summary = {"metrics": {"bleu": {"overall": {"score": 20.25 + number}}}}
        (tmp_path / name / "decode" / "test" / "score.json").write_text(json.dumps(summary))
    runs = [str(path) for path in sorted(tmp_path.iterdir())]
    options = ["--set", "test", "--data_dir", str(tiny_translation.test_dir.parent), "--metric", "bleu"]
    options += ["--batches", "2", "--utterances", "3", "--beam_size", "2", "--repeats", "1"]
    trained_runs.main([*runs, *options, "--plot", str(tmp_path / "runs.png")])
    *_, first, second = capsys.readouterr().out.splitlines()
    first, second = ([cell.strip() for cell in row.strip("|").split("|")] for row in (first, second))
    assert first[:2] == ["softmax", "20.2"] and second[:2] == ["window_of_4", "21.2"]
    assert first[2:5] == second[2:5] and float(first[2]) > 0 and first[4].endswith(" M")
    assert first[5:] == ["1.00"] * 3 and 0.1 < float(second[5]) < 10 and second[6] == "1.00"
    assert (tmp_path / "runs.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a_x_1", "a_y_1"], ["x", "y"]),
        (["a_sma", "a_sdma"], ["sma", "sdma"]),
        (["a_x", "a_x_0.1"], ["x", "x_0.1"]),
        (["a_b"], ["a_b"]),
    ],
)
def test_names_are_without_what_all_have(names, expected):
    import trained_runs

    assert trained_runs.short_names(names) == expected
