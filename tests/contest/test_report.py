"""A report as a page and as Markdown."""

import pytest
from demo.pages import CHROMIUM, page_width
from matplotlib.figure import Figure

from espnet_diverse.contest.differences import Difference
from espnet_diverse.contest.report import Document, _difference_section


def test_both_have_everything(tmp_path):
    picture = tmp_path / "pictures" / "a.png"
    picture.parent.mkdir()
    Figure(figsize=(1, 1)).savefig(picture)
    document = Document("Title", "pictures")
    document.heading("Part")
    document.paragraph("It is 1 < 2.")
    document.terms([("t", "interval")])
    document.table(("a", "b"), iter([["x|y", "1"]]))
    document.picture(picture, "A picture. It shows nothing.")
    document.write(tmp_path / "report")
    assert (tmp_path / "report.md").read_text() == (
        "# Title\n\n## Part\n\nIt is 1 < 2.\n\n- **t**: interval\n\n| a | b |\n| --- | --- |\n| x&#124;y | 1 |\n\n"
        "![A picture](pictures/a.png)\n\nA picture. It shows nothing.\n"
    )
    page = (tmp_path / "report.html").read_text()
    for part in ("<h1>Title</h1>", ">Part</h2>", "It is 1 &lt; 2.", "<dt>t</dt>", "<td>x|y</td>", "data:image/png"):
        assert part in page


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_as_wide_as_the_screen(tmp_path, width):
    """Pictures shrink, long words break, and wide tables have a bar of their own."""
    pytest.importorskip("playwright.sync_api", reason="playwright, the extra `browser`, is not installed")
    picture = tmp_path / "a.png"
    Figure(figsize=(20, 1), dpi=100).savefig(picture)
    document = Document("model/mt_tiny,attention/sdma,losses/sdma_text_half", "pictures")
    document.heading("encoder_conf.attention.gamma_updates=0.1,decoder_conf.attention.gamma_updates=0.1")
    document.paragraph("/home/somebody/recipes/of/a/company/with/long/names/egs/multi30k/mt1/data/synthetic")
    document.table(["column"] * 12, [["a\u00a0long\u00a0cell"] * 12])
    document.picture(picture, "Far too wide.")
    document.write(tmp_path / "report")
    assert page_width(tmp_path / "report.html", width) == width


def test_columns_and_terms_of_intervals_that_nobody_has_are_left_out(tmp_path):
    base = Difference("softmax", {0: 90.0, 1: 91.0})
    gated = Difference("gated", {0: 88.0, 1: 88.96}, {0: -2.0, 1: -2.04}, (-4.0, -0.02))
    texts = []
    for others in ([gated], [gated, Difference("sdma", {0: 90.0, 1: 92.0}, {0: 0.0, 1: 1.0}, (-5, 6), (-1, 2), 0.3)]):
        document = Document("Title", "pictures")
        _difference_section(document, {"test": [base, *others]}, "word_perplexity", tmp_path)
        document.write(tmp_path / "report")
        texts.append((tmp_path / "report.md").read_text())
    assert "| test | difference | 95 % over seeds | word perplexity | seeds |" in texts[0]
    assert "sentences" not in texts[0].replace("over seeds", "")
    assert "| 95 % over sentences | p |" in texts[1] and "**interval over sentences**" in texts[1]
