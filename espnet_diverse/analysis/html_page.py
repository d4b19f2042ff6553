"""A self-contained HTML page: pictures are embedded, and there are no scripts and no references to other files."""

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.untrusted.whole_files import read_bytes

_STYLE = """
body { font: 16px/1.5 sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff; }
body { overflow-wrap: anywhere; } table { overflow-wrap: normal; }
p, dl, figcaption { max-width: 60rem; } dd { margin-bottom: .5rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 3rem; border-bottom: 1px solid #ccc; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border-bottom: 1px solid #ddd; padding: .3rem .8rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; border: 1px solid #ddd; }
figcaption { color: #444; } dt { font-weight: bold; }
.wide { overflow-x: auto; } nav li { margin: .2rem 0; }
"""


class Page:
    """A page that is written from top to bottom; all text is escaped.

    Args:
        title: Title of the page and text of its first heading.
    """

    def __init__(self, title: str):
        self.title = title
        self._headings: list[str] = []
        self._body: list[str] = []

    def heading(self, text: str) -> None:
        """Begin a section with a heading, which the table of contents lists."""
        self._headings.append(text)
        self._body.append(f'<h2 id="{len(self._headings)}">{escape(text)}</h2>')

    def paragraph(self, text: str) -> None:
        """Add a paragraph."""
        self._body.append(f"<p>{escape(text)}</p>")

    def terms(self, meanings: Iterable[tuple[str, str]]) -> None:
        """Add a list of terms and their meanings."""
        items = "".join(f"<dt>{escape(term)}</dt><dd>{escape(meaning)}</dd>" for term, meaning in meanings)
        self._body.append(f"<dl>{items}</dl>")

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table."""
        body = "".join(_row("td", cells) for cells in rows)
        table = f"<table><thead>{_row('th', header)}</thead><tbody>{body}</tbody></table>"
        self._body.append(f'<div class="wide">{table}</div>')

    def picture(self, path: Path, caption: str) -> None:
        """Add a PNG file with a caption."""
        data = base64.b64encode(read_bytes(path)).decode("ascii")
        image = f'<img src="data:image/png;base64,{data}" alt="{escape(caption)}">'
        self._body.append(f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>")

    def write(self, path: Path) -> None:
        """Write the page."""
        meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        head = f"{meta}<title>{escape(self.title)}</title><style>{_STYLE}</style>"
        listed = (f'<li><a href="#{i}">{escape(text)}</a></li>' for i, text in enumerate(self._headings, 1))
        contents = f'<nav aria-label="Contents"><ol>{"".join(listed)}</ol></nav>' if self._headings else ""
        body = "\n".join([f"<h1>{escape(self.title)}</h1>", contents, *self._body])
        write_text(path, f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n')


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
