"""A report as a page and as Markdown."""

from matplotlib.figure import Figure

from espnet_diverse.contest.document import Document


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
