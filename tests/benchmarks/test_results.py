"""Tables of ratios, their JSON files, and ratios then and now."""

import json

import pytest


@pytest.fixture
def row():
    """row(table, case, seconds of each contestant, peaks): a row with these measurements."""
    import results

    names = ("espnet", "softmax", "sdma")

    def make(table, case, seconds, peaks=(0, 0, 0)):
        measured = {
            name: results.Measured([one] if one else [], peak)
            for name, one, peak in zip(names, seconds, peaks, strict=False)
        }
        return results.Row(table, case, measured)

    return make


def test_rows_are_shown_under_the_headings_of_their_tables(row, capsys):
    import results

    rows = [row("A", "8, 50", (0.002, 0.001, 0.003), (4e6, 1e6, 8e6)), row("A", "1, 9", (0.01, 0.02))]
    rows.append(row("B", "2", (None, 0.001), (0, 1e6)))
    assert results.show(iter(rows), column="size") == rows
    assert capsys.readouterr().out.splitlines() == [
        *("", "**A**", ""),
        "| size | espnet ms | softmax | sdma | espnet peak MB | softmax peak | sdma peak |",
        "|---|---|---|---|---|---|---|",
        "| 8, 50 | 2.0 | 0.50 | 1.50 | 4.0 | 0.25 | 2.00 |",
        "| 1, 9 | 10.0 | 2.00 | 0.0 | - |",
        *("", "**B**", ""),
        "| size | espnet ms | softmax | espnet peak MB | softmax peak |",
        "|---|---|---|---|---|",
        "| 2 | 0.0 | - | 0.0 | - |",
    ]


def test_ratios_are_compared_with_those_of_a_file(row, tmp_path):
    import results

    then = [row("A step: layers", "8, 250", (2.0, 1.0)), row("Gone", "1, 1", (1.0,))]
    results.write(tmp_path / "then.json", ["on this machine"], then)
    assert results.read(tmp_path / "then.json") == then
    now = [row("A step: layers", "8, 250", (4.0, 3.0, 6.0)), row("New", "1", (1.0,))]
    assert results.compared(results.read(tmp_path / "then.json"), now)[2:] == [
        "| case | softmax | sdma |",
        "|---|---|---|",
        "| A step: 8, 250 | 0.50, 0.75 | -, 1.50 |",
    ]
    assert results.compared(then[1:], now) == ["No case of the file was measured now."]


def test_a_benchmark_writes_a_file_and_compares_it_with_an_earlier_one(tmp_path, capsys):
    import classification

    size = ["--units", "4", "--heads", "3", "--sentences", "2", "--time", "5", "--repeats", "1"]
    output = tmp_path / "results.json"
    classification.main([*size, "--output", str(output)])
    content = json.loads(output.read_text(encoding="utf-8"))
    assert "CPU thread(s) of " in content["conditions"][-1]
    assert list(content["rows"][0]["measured"]) == ["plain", "frobenius", "svgd", "spos", "sgld"]
    classification.main([*size, "--compare", str(output)])
    head, _, line = capsys.readouterr().out.splitlines()[-3:]
    assert head == "| case | frobenius | svgd | spos | sgld |"
    assert line.startswith("| A training step: 4, 3: 2, 5 | ") and line.count(",") == 6


def test_a_file_that_is_missing_is_refused_before_anything_is_measured(tmp_path, capsys):
    import repulsion

    with pytest.raises(SystemExit):
        repulsion.main(["--compare", str(tmp_path / "none.json")])
    assert "none.json: no such file; --output of an earlier run writes one" in capsys.readouterr().err


def test_a_lack_of_memory_can_end_a_benchmark():
    import results

    results.check_memory({"single": results.Measured([1.0])}, "smaller --batches")
    with pytest.raises(SystemExit, match="too small for batch 64; give smaller --batches"):
        results.check_memory({"single": results.Measured([1.0]), "batch 64": results.Measured()}, "smaller --batches")
