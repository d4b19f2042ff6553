"""A report that is written twice at once: as a page of HTML with its pictures in it, and as Markdown beside them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from espnet_diverse.analysis.html_page import Page
from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.scoring.table import markdown_table


class Document:
    """A report, from top to bottom.

    Args:
        title: Its title.
        pictures: Name of the folder of the pictures, beside the report.
    """

    def __init__(self, title: str, pictures: str):
        self._page, self._lines, self._pictures = Page(title), [f"# {title}", ""], pictures

    def heading(self, text: str) -> None:
        """Begin a section."""
        self._page.heading(text)
        self._lines += [f"## {text}", ""]

    def paragraph(self, text: str) -> None:
        """Add a paragraph."""
        self._page.paragraph(text)
        self._lines += [text, ""]

    def terms(self, meanings: Sequence[tuple[str, str]]) -> None:
        """Add a list of terms and their meanings."""
        self._page.terms(meanings)
        self._lines += [f"- **{term}**: {meaning}" for term, meaning in meanings]
        self._lines.append("")

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table."""
        rows = list(rows)
        self._page.table(header, rows)
        self._lines.append(markdown_table(header, rows))

    def picture(self, path: Path, caption: str) -> None:
        """Add a PNG file of the folder of pictures."""
        self._page.picture(path, caption)
        title = caption.partition(".")[0]
        self._lines += [f"![{title}]({self._pictures}/{path.name})", "", caption, ""]

    def write(self, path: Path) -> None:
        """Write both, `path` with .html and with .md."""
        write_text(path.with_suffix(".md"), "\n".join(self._lines))
        self._page.write(path.with_suffix(".html"))
