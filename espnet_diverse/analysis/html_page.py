"""A self-contained HTML page: pictures are embedded; there are no scripts, and no references except links to audio."""

import base64
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from espnet_diverse.data.files.atomic_files import write_text
from espnet_diverse.untrusted.shown_text import escaped
from espnet_diverse.untrusted.whole_files import read_bytes

_LONG = 40
_STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #555; --line: #ddd; --paper: #fff; --look: #f2f5f9; }
body { font: 16px/1.5 sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
body { color: var(--ink); background: var(--paper); overflow-wrap: anywhere; } table { overflow-wrap: normal; }
p, dl { max-width: 60rem; } dd { margin-bottom: .5rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
h3 { margin: 2rem 0 0; } audio { height: 2.2rem; width: 15rem; vertical-align: middle; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child, .words { text-align: left; }
td.text { white-space: normal; min-width: 14rem; text-align: left; }
figure { margin: 1.5rem 0; display: grid; grid-template-columns: minmax(0, 1fr) 19rem; gap: 1.5rem; }
figure { align-items: start; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
figure img { max-width: 100%; height: auto; background: #fff; border-radius: 6px; box-shadow: 0 0 0 1px var(--line); }
.pictures img:not(:only-child) { flex: 1 1 16rem; min-width: 0; max-width: 26rem; }
figcaption { color: var(--soft); } figcaption p { margin: 0 0 .7rem; }
.look { background: var(--look); color: var(--ink); padding: .5rem .7rem; border-radius: 6px; }
dt { font-weight: bold; } .wide { overflow-x: auto; } nav li { margin: .2rem 0; } a { color: inherit; }
@media (max-width: 60rem) { figure { display: block; } figcaption { margin-top: .7rem; } audio { width: 9rem; } }
@media (max-width: 40rem) {
th, td { padding: .25rem .35rem; font-size: .8rem; } th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--paper); }
dd { margin-left: 1rem; }
}
@media (prefers-color-scheme: dark) {
:root { --ink: #e2e2e2; --soft: #aaa; --line: #444; --paper: #17181a; --look: #23272d; }
figure img { filter: brightness(.88); }
}
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
        self._body.append(f'<h2 id="{len(self._headings)}">{escaped(text)}</h2>')

    def subheading(self, text: str) -> None:
        """Begin a part of a section."""
        self._body.append(f"<h3>{escaped(text)}</h3>")

    def paragraph(self, text: str) -> None:
        """Add a paragraph."""
        self._body.append(f"<p>{escaped(text)}</p>")

    def terms(self, meanings: Iterable[tuple[str, str]]) -> None:
        """Add a list of terms and their meanings."""
        items = "".join(f"<dt>{escaped(term)}</dt><dd>{escaped(meaning)}</dd>" for term, meaning in meanings)
        self._body.append(f"<dl>{items}</dl>")

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]], audio: Sequence[str | None] = ()) -> None:
        """Add a table; cells of more than `_LONG` characters break into lines.

        Args:
            header: Headings of the columns.
            rows: Cells of each row.
            audio: Address of the audio of each row, None for none; if there is any, players are the second column.
        """
        rows = [list(row) for row in rows]
        words = [any(_is_text(row[column]) for row in rows) for column in range(1, len(header))]
        lines = [_cells("th", header, words), *(_cells("td", row, words) for row in rows)]
        if any(audio):
            for line, player in zip(lines, ['<th class="words">audio</th>', *map(_player, audio)], strict=True):
                line.insert(1, player)
        head, *body = (f"<tr>{''.join(line)}</tr>" for line in lines)
        table = f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>"
        self._body.append(f'<div class="wide">{table}</div>')

    def picture(self, path: Path, caption: str, look: str = "") -> None:
        """Add a PNG file with a caption next to it, and what a reader should look for."""
        self.pictures([path], caption, look)

    def pictures(self, paths: Sequence[Path], caption: str, look: str = "") -> None:
        """Add PNG files that share a caption, which stands next to them."""
        encoded = (base64.b64encode(read_bytes(path)).decode("ascii") for path in paths)
        images = "".join(f'<img src="data:image/png;base64,{data}" alt="{escaped(caption)}">' for data in encoded)
        words = f"<p>{escaped(caption)}</p>"
        if look:
            words += f'<p class="look"><b>Look for</b> {escaped(look)}</p>'
        self._body.append(f'<figure><div class="pictures">{images}</div><figcaption>{words}</figcaption></figure>')

    def write(self, path: Path) -> None:
        """Write the page."""
        meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        head = f"{meta}<title>{escaped(self.title)}</title><style>{_STYLE}</style>"
        listed = (f'<li><a href="#{i}">{escaped(text)}</a></li>' for i, text in enumerate(self._headings, 1))
        contents = f'<nav aria-label="Contents"><ol>{"".join(listed)}</ol></nav>' if self._headings else ""
        body = "\n".join([f"<h1>{escaped(self.title)}</h1>", contents, *self._body])
        write_text(path, f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n')


def _player(address: str | None) -> str:
    return f'<td><audio controls preload="none" src="{escaped(address)}"></audio></td>' if address else "<td></td>"


def _is_text(cell: str) -> bool:
    """Return whether a cell does not begin like a number."""
    return not re.match(r"[-+−–(]?\d|[–-]?$", cell)


def _cells(tag: str, row: Sequence[str], words: Sequence[bool]) -> list[str]:
    """Cells of a row; `words` states for the columns after the first whether they hold text."""
    return [_cell(tag, cell, is_text) for cell, is_text in zip(row, [False, *words], strict=True)]


def _cell(tag: str, cell: str, is_text: bool) -> str:
    kind = "text" if tag == "td" and len(cell) > _LONG else "words" if is_text else ""
    return f'<{tag} class="{kind}">{escaped(cell)}</{tag}>' if kind else f"<{tag}>{escaped(cell)}</{tag}>"
