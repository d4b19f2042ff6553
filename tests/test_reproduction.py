"""The page of what could be reproduced: each row has a verdict that is explained, and a command that is printed."""

import re
from fnmatch import fnmatchcase

import pytest
import yaml
from references.markdown import ROOT

PAGE = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## (.+)\n((?:(?!^## ).*\n)*)", PAGE, flags=re.MULTILINE)
VERDICTS = re.findall(r"^\| ([\w ]+) \| [^|]+ \|$", PAGE.split("\n## ")[0], flags=re.MULTILINE)[1:]
RUNS = [
    f"{experiment}/{name}/{seed}"
    for experiment, shared in yaml.safe_load((ROOT / "egs" / "reproduce.yaml").read_text(encoding="utf-8")).items()
    for name, settings in shared["runs"].items()
    for seed in settings.get("seeds", shared["seeds"])
]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for _, section in SECTIONS
    for line in section.splitlines()
    if line.startswith("| ") and not line.startswith("| claim")
]

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])


def printed_by(place: str, title: str) -> str:
    """A section of the RESULTS.md of a recipe, or of the page that is named, without the sections below it."""
    path = ROOT / place if place.endswith(".md") else ROOT / "egs" / place / "RESULTS.md"
    section = re.compile(rf"^#+ {re.escape(title)}\n((?:(?!^#+ ).*\n?)*)", flags=re.MULTILINE)
    (found,) = section.findall(path.read_text(encoding="utf-8"))
    return found


def test_all_papers_have_a_table():
    assert len(SECTIONS) == 5 and len(VERDICTS) == 5
    assert all("| claim | the paper | ours | where, command | verdict |\n" in section for _, section in SECTIONS)


@each_row
def test_a_row_has_a_verdict_that_is_explained(row):
    *cells, verdict = row
    assert len(cells) == 4 and cells[0] and cells[2]
    assert verdict in VERDICTS


@each_row
def test_sections_are_there_and_print_a_command(row):
    titles = re.findall(r"`([\w/.]+)`, ((?:\"[^\"]+\"(?: and )?)+)", row[3])
    for place, quoted in titles:
        for title in re.findall(r'"([^"]+)"', quoted):
            command = r"\./run\.sh|espnet-diverse |python \S*benchmarks/|--only"
            assert re.search(command, printed_by(place, title)), (place, title)
    if row[-1] != "not tried":
        assert titles or "`pytest " in row[3]


@each_row
def test_runs_and_tests_that_are_named_exist(row):
    for pattern in re.findall(r"--only '([^']+)'", row[3]):
        assert any(fnmatchcase(run, pattern) for run in RUNS), pattern
    for files in re.findall(r"`pytest ([^`]+)`", row[3]):
        assert all((ROOT / file).is_file() for file in files.split())
