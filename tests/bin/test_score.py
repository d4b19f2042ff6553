"""`espnet-diverse score`: the table, the three reports, the exit codes."""

import json

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.scoring.table import HEADER


@pytest.fixture
def score(tmp_path):
    """Write both texts, run the command and return its exit code; reports go to tmp_path / "out"."""

    def run(reference, hypothesis, *options):
        hypotheses = tmp_path / "exp" / "decode" / "test" / "text"
        hypotheses.parent.mkdir(parents=True, exist_ok=True)
        hypotheses.write_text(hypothesis, encoding="utf-8")
        (tmp_path / "reference").write_text(reference, encoding="utf-8")
        paths = ["--reference", str(tmp_path / "reference"), "--hypothesis", str(hypotheses)]
        return main(["score", *paths, "--output_dir", str(tmp_path / "out"), *options])

    return run


def test_reports(score, tmp_path, capsys):
    assert score("a 广州市\nb 天 气\n", "a 广州\nb 天气\n") == 0
    expected = f"{HEADER}\n|---|---|---|---|---|---|---|---|---|\n|decode/test|2|5|80.0|0.0|20.0|0.0|20.0|50.0|\n"
    printed = capsys.readouterr()
    assert printed.out == expected
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == ["alignment.txt", "score.json", "score.md"]
    assert (out / "score.md").read_text() == f"{expected}\n{printed.err}"
    assert printed.err.startswith("CER|spaces:ignored|")
    summary = json.loads((out / "score.json").read_text())
    assert (summary["name"], summary["rate"], summary["missing"]) == ("decode/test", 0.2, [])
    assert (out / "alignment.txt").read_text(encoding="utf-8").split("\n\n")[1].startswith("id: b\n")


def test_results_of_a_run_gather_in_one_table(score, tmp_path):
    results = tmp_path / "RESULTS.md"
    for name in ("dev", "test", "test"):
        assert score("a 广州市\n", "a 广州\n", "--results", str(results), "--name", name) == 0
    rows = [line.split("|")[1] for line in results.read_text().splitlines() if line.startswith("|")]
    assert rows == ["dataset", "---", "dev", "test"]
    assert "### CER" in results.read_text()


def test_missing_hypotheses_are_named_and_change_the_exit_code(score, tmp_path, capsys):
    reference = "".join(f"utt{n} ab\n" for n in range(8))
    assert score(reference, "utt0 ab\nutt1\n") == 2
    assert "|decode/test|8|16|12.5|0.0|87.5|0.0|87.5|87.5|" in capsys.readouterr().out
    note = "6 of 8 references have no hypothesis and count as deleted: utt2 utt3 utt4 utt5 utt6 and 1 more"
    assert note in (tmp_path / "out" / "score.md").read_text()
    assert json.loads((tmp_path / "out" / "score.json").read_text())["missing"] == [f"utt{n}" for n in range(2, 8)]


def test_words_named(score, capsys):
    assert score("a the cat\n", "a a <unk> cat\n", "--unit", "word", "--name", "mine") == 0
    assert "|mine|1|2|50.0|50.0|0.0|50.0|100.0|100.0|" in capsys.readouterr().out


def test_counted_spaces(score, capsys):
    assert score("a x y\n", "a xy\n", "--count_spaces") == 0
    assert "|decode/test|1|3|66.7|0.0|33.3|0.0|33.3|100.0|" in capsys.readouterr().out


def test_an_empty_reference_line_is_scored(score, capsys):
    assert score("a\nb xy\n", "a z\nb xy\n") == 0
    assert "|decode/test|2|2|100.0|0.0|0.0|50.0|50.0|50.0|" in capsys.readouterr().out


@pytest.mark.parametrize(
    "reference, hypothesis, options, message",
    [
        ("", "a x\n", "", "reference: is empty"),
        ("a x\n", "", "", "text: is empty"),
        ("a x\na y\n", "a x\n", "", "reference:2: duplicate id 'a'"),
        ("a x\n", "a x\na x\n", "", "text:2: duplicate id 'a'"),
        ("a x\n", "a x\nb x\n", "", "hypotheses without a reference (1): b; score against"),
        ("a\n", "a x\n", "", "the references (1) hold no char at all"),
        ("a x\n", "a x\n", "--unit phone", "unknown unit 'phone'; choose one of char, word"),
        ("a x\n", "a x\n", "--unit word --count_spaces", "spaces can be counted with unit char only"),
        ("a x\n", "a x\n", "--name a|b", "data set name 'a|b' does not fit a table cell"),
    ],
)
def test_mistakes_get_one_line_and_leave_no_reports(reference, hypothesis, options, message, score, tmp_path, capsys):
    assert score(reference, hypothesis, *options.split()) == 1
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 1
    assert error[0].startswith("espnet-diverse score: error: ")
    assert message in error[0]
    assert not (tmp_path / "out").exists()
