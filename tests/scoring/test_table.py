"""The Markdown table, and RESULTS.md files that take its rows."""

import subprocess
import sys

import pytest

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.scoring.error_rate import ErrorRate
from espnet_diverse.scoring.evaluate import Compared, Row
from espnet_diverse.scoring.table import MEASURED, cells, header, line, read_results, table, update_results

METRIC = ErrorRate("char")
HEADER = "|dataset|Snt|Chr|Corr|Sub|Del|Ins|Err|S.Err|"
RULE = "|---|---|---|---|---|---|---|---|---|"
GOOD = ("2", "10", "80.0", "10.0", "10.0", "20.0", "40.0", "50.0")
PERFECT = ("1", "2", "100.0", "0.0", "0.0", "0.0", "0.0", "0.0")


def row(score=40.0, cells=GOOD, **more):
    return Row("CER", score, (30.04, 50.06), cells=cells, **more)


def test_table():
    rows = {"x": row(), "x AVG": row(12.34, (), mean_of=("x",))}
    assert table(rows, METRIC).splitlines() == [
        f"{HEADER}95 % interval|",
        f"{RULE}---|",
        "|x|2|10|80.0|10.0|10.0|20.0|40.0|50.0|30.0 to 50.1|",
        "|x AVG|||||||12.3||30.0 to 50.1|",
    ]


def test_table_with_a_baseline():
    rows = {
        "x": row(baseline=Compared(41.5, (0, 0), -1.5, 0.0123)),
        "y": row(baseline=Compared(30.0, (0, 0), 10.0, None)),
    }
    lines = table(rows, METRIC).splitlines()
    assert lines[0] == f"{HEADER}95 % interval|Baseline|Difference|p|"
    assert lines[2].endswith("|30.0 to 50.1|41.5|-1.5|0.012|")
    assert lines[3].endswith("|30.0 to 50.1|30.0|+10.0||")
    assert {line.count("|") for line in lines} == {14}


def test_cells_and_header():
    assert cells(row(), METRIC) == list(GOOD)
    assert cells(row(7.06, ()), METRIC) == ["", "", "", "", "", "", "7.1", ""]
    assert header(METRIC.columns) == HEADER


@pytest.mark.parametrize("name", ["a|b", "a\nb", "", " "])
def test_a_name_that_breaks_the_table(name):
    with pytest.raises(ConfigError, match=r"data set name .* does not fit a table cell; it must not be empty or"):
        line(name, GOOD)


def test_results_file_is_made_filled_and_stable(tmp_path):
    path = tmp_path / "exp" / "RESULTS.md"
    update_results(path, "### CER", METRIC.columns, {"dev": GOOD, "test": GOOD})
    update_results(path, "### CER", METRIC.columns, {"test": PERFECT, "other": GOOD})
    update_results(path, "### BLEU", ["Snt", "BLEU"], {"test": ["1", "2.0"]})
    expected = [
        *("# RESULTS", "", "### CER", "", HEADER, RULE, line("dev", GOOD), line("test", PERFECT), line("other", GOOD)),
        *("", "### BLEU", "", "|dataset|Snt|BLEU|", "|---|---|---|", "|test|1|2.0|"),
    ]
    assert path.read_text().splitlines() == expected
    update_results(path, "### CER", METRIC.columns, {"test": PERFECT})
    update_results(path, "### BLEU", ["Snt", "BLEU"], {"test": ["1", "2.0"]})
    assert path.read_text().splitlines() == expected
    assert [file.name for file in path.parent.iterdir()] == ["RESULTS.md"]


def test_everything_else_in_the_file_stays(tmp_path):
    path = tmp_path / "RESULTS.md"
    before = ["# Mine", "", "### CER", "words about it", "", "| paper | ours |", "|---|---|"]
    after = ["", "## Notes", "", "### WER", "", "text", "", "#### more", ""]
    path.write_text("\n".join([*before[:5], *after]))
    for _ in range(2):
        update_results(path, "### CER", METRIC.columns, {"test": GOOD})
        update_results(path, "### WER", METRIC.columns, {"test": GOOD})
    new = ["", HEADER, RULE, line("test", GOOD)]
    expected = ["# Mine", "", "### CER", *new, "", "words about it", "", "", "## Notes", "", "### WER", *new]
    assert path.read_text() == "\n".join([*expected, "", "text", "", "#### more", ""])


def test_a_table_with_other_columns_is_left_alone(tmp_path):
    path = tmp_path / "RESULTS.md"
    path.write_text("### CER\n\n|paper|ours|\n|---|---|\n")
    with pytest.raises(
        DataError, match=r"RESULTS.md:3: the table under '### CER' has other columns; expected \|dataset"
    ):
        update_results(path, "### CER", METRIC.columns, {"test": GOOD})
    assert path.read_text() == "### CER\n\n|paper|ours|\n|---|---|\n"


def test_a_table_of_characters_from_an_earlier_version_continues(tmp_path):
    path = tmp_path / "RESULTS.md"
    update_results(path, "### CER", METRIC.columns, {"dev": GOOD})
    path.write_text(path.read_text().replace("|Chr|", "|Wrd|"))
    update_results(path, "### CER", METRIC.columns, {"test": GOOD})
    lines = path.read_text().splitlines()
    assert lines.count(HEADER) == 1 and line("dev", GOOD) in lines and line("test", GOOD) in lines


def test_processes_that_update_a_file_at_the_same_time_lose_no_row(tmp_path):
    code = "import sys; from espnet_diverse.scoring.table import update_results\n"
    code += "for n in range(40): update_results(sys.argv[1], '### X', ['N'], {f'{sys.argv[2]}{n}': [str(n)]})"
    command = [sys.executable, "-c", code, str(tmp_path / "RESULTS.md")]
    processes = [subprocess.Popen([*command, name]) for name in "ab"]
    assert [process.wait() for process in processes] == [0, 0]
    rows = (tmp_path / "RESULTS.md").read_text().splitlines()[6:]
    assert sorted(rows) == sorted(f"|{name}{number}|{number}|" for name in "ab" for number in range(40))
    assert [path.name for path in tmp_path.iterdir()] == ["RESULTS.md"]


@pytest.mark.parametrize("name", ["dataset", "---"])
def test_a_data_set_may_be_called_as_the_header_or_the_rule(tmp_path, name):
    for number in "12":
        update_results(tmp_path / "RESULTS.md", "### X", ["N"], {name: [number]})
    lines = (tmp_path / "RESULTS.md").read_text().splitlines()
    assert lines[-3:] == ["|dataset|N|", "|---|---|", f"|{name}|2|"]


def test_a_file_in_another_encoding_is_named_and_kept(tmp_path):
    (tmp_path / "RESULTS.md").write_bytes(b"# Gr\xfc\xdfe\n")
    with pytest.raises(DataError, match=r"RESULTS.md: not UTF-8 at byte 4; save the file as UTF-8$"):
        update_results(tmp_path / "RESULTS.md", "### X", ["N"], {"a": ["1"]})
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("RESULTS.md", b"# Gr\xfc\xdfe\n")]


def test_a_table_without_intervals_is_widened(tmp_path):
    path = tmp_path / "RESULTS.md"
    update_results(path, "### X", ["Snt", "Err"], {"dev": ["2", "5.0"]})
    update_results(path, "### X", ["Snt", "Err", *MEASURED], {"test": ["3", "4.0", "1.0 to 6.0", "X"]})
    assert path.read_text().splitlines()[4:] == [
        "|dataset|Snt|Err|95 % interval|signature|",
        "|---|---|---|---|---|",
        "|dev|2|5.0|||",
        "|test|3|4.0|1.0 to 6.0|X|",
    ]


def test_scores_and_intervals_are_read_from_the_table_of_a_metric(tmp_path):
    path = tmp_path / "RESULTS.md"
    path.write_text("# RESULTS\n\n### CER\n\n|dataset|Err|\n|---|---|\n|old|9.0|\n\nText.\n\n### WER\n\n|other|\n")
    update_results(path, "### CER", ("Err", *MEASURED), {"dev": ("1.5", "1.0 to 2.0", "CER"), "AVG": ("0.0", "", "")})
    assert read_results(path, "### CER", "Err") == {"dev": (1.5, (1.0, 2.0))}
