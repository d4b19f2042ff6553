"""The Markdown table, and RESULTS.md files that take its rows."""

import pytest

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.scoring.error_rate import error_rate
from espnet_diverse.scoring.table import HEADER, row, table, update_results

RULE = "|---|---|---|---|---|---|---|---|---|"


@pytest.fixture
def good():
    return error_rate({"a": "abcdefgh", "b": "ij"}, {"a": "abXefghYZ", "b": "ij"})


@pytest.fixture
def perfect():
    return error_rate({"a": "ab"}, {"a": "ab"})


def test_row(good):
    # abcdefgh -> abXefghYZ: c or d substituted and the other deleted, Y and Z inserted.
    assert row("decode/test", good) == "|decode/test|2|10|80.0|10.0|10.0|20.0|40.0|50.0|"


def test_table(good, perfect):
    lines = table({"x": good, "y": perfect}).splitlines()
    assert lines == [HEADER, RULE, row("x", good), "|y|1|2|100.0|0.0|0.0|0.0|0.0|0.0|"]
    assert {line.count("|") for line in lines} == {10}


@pytest.mark.parametrize("name", ["a|b", "a\nb", "", " "])
def test_a_name_that_breaks_the_table(name, good):
    with pytest.raises(ConfigError, match=r"data set name .* does not fit a table cell; it must not be empty or hold"):
        row(name, good)


def test_results_file_is_made_filled_and_stable(tmp_path, good, perfect):
    path = tmp_path / "RESULTS.md"
    update_results(path, "### CER", {"dev": good, "test": good})
    update_results(path, "### CER", {"test": perfect, "other": good})
    update_results(path, "### WER", {"test": good})
    expected = [
        *("# RESULTS", "", "### CER", "", HEADER, RULE, row("dev", good), row("test", perfect), row("other", good)),
        *("", "### WER", "", HEADER, RULE, row("test", good)),
    ]
    assert path.read_text().splitlines() == expected
    update_results(path, "### CER", {"test": perfect})
    update_results(path, "### WER", {"test": good})
    assert path.read_text().splitlines() == expected
    assert [file.name for file in tmp_path.iterdir()] == ["RESULTS.md"]


def test_everything_else_in_the_file_stays(tmp_path, good):
    path = tmp_path / "RESULTS.md"
    before = ["# Mine", "", "### CER", "words about it", "", "| paper | ours |", "|---|---|"]
    after = ["", "## Notes", "", "### WER", "", "text", "", "#### more", ""]
    path.write_text("\n".join([*before[:5], *after]))
    for _ in range(2):
        update_results(path, "### CER", {"test": good})
        update_results(path, "### WER", {"test": good})
    new = ["", HEADER, RULE, row("test", good)]
    expected = ["# Mine", "", "### CER", *new, "", "words about it", "", "", "## Notes", "", "### WER", *new]
    assert path.read_text() == "\n".join([*expected, "", "text", "", "#### more", ""])


def test_a_table_with_other_columns_is_left_alone(tmp_path, good):
    path = tmp_path / "RESULTS.md"
    path.write_text("### CER\n\n|paper|ours|\n|---|---|\n")
    with pytest.raises(
        DataError, match=r"RESULTS.md:3: the table under '### CER' has other columns; expected \|dataset"
    ):
        update_results(path, "### CER", {"test": good})
    assert path.read_text() == "### CER\n\n|paper|ours|\n|---|---|\n"
