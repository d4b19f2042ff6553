"""Pictures of score tables and of a RESULTS.md."""

from dataclasses import replace

from references.figures import assert_readable

from espnet_diverse.scoring.evaluate import Compared, Row
from espnet_diverse.scoring.figures.score_plots import draw_results, draw_scores
from espnet_diverse.scoring.texts import Corpus, System

ROWS = {"": Row("s", 5.0, (4.0, 6.0)), "de": Row("s", 4.5, (3.0, 6.5)), "AVG": Row("s", 4.6, (4.1, 5.1))}


def names(figure):
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def test_rows_are_drawn_beside_the_baseline(drawn, tmp_path):
    compared = {name: replace(row, baseline=Compared(7.0, (6.5, 8.0), -2, 0.1)) for name, row in ROWS.items()}
    corpus = Corpus({}, System("sdma/test", ()), System("softmax/test", ()))
    draw_scores(compared, corpus, "CER (← better)", tmp_path / "score.png")
    (axes,) = drawn[0].axes
    assert (names(drawn[0]), axes.get_xlabel()) == (["all", "de", "AVG"], "CER (← better)")
    points = [line.get_xdata()[0] for line in axes.get_lines() if line.get_marker() in "oD"]
    assert points == [5.0, 7.0, 4.5, 7.0, 4.6, 7.0]
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == ["sdma/test", "baseline: softmax/test"]
    assert_readable(drawn[0])


def test_one_score_has_no_picture_and_none_stays(tmp_path):
    path = tmp_path / "score.png"
    path.write_text("of a former call")
    draw_scores({"": ROWS[""]}, Corpus({}, System("a", ())), "CER", path)
    assert not path.exists()


def test_data_sets_of_results_are_drawn_once_there_are_two(drawn, tmp_path):
    results, path = tmp_path / "RESULTS.md", tmp_path / "RESULTS.cer.png"
    table = "### CER\n|dataset|Err|95 % interval|\n|---|---|---|\n|dev|5.0|4.0 to 6.0|\n"
    results.write_text(table)
    draw_results(results, "### CER", "Err", "CER", path)
    assert not path.exists()
    results.write_text(f"{table}|test|7.0|6.0 to 8.5|\n")
    draw_results(results, "### CER", "Err", "CER (← better)", path)
    assert path.exists() and names(drawn[0]) == ["dev", "test"]
    assert drawn[0].axes[0].get_title() == tmp_path.name
