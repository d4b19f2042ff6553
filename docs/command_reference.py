"""A hook of mkdocs: makes a page commands/NAME.html for each command, from the parsers themselves."""

import argparse
import re
from pathlib import Path

from mkdocs.structure.files import File

OVERVIEW = Path(__file__).with_name("commands.md")
ROW = re.compile(
    r"^(\| [^|]+ \| \[(?P<title>[^]]+)\]\((?P<page>[^)]+)\) \| )(?P<names>`.+`) \|$",
    re.MULTILINE,
)


def on_config(config):
    """Add the pages to the navigation, below the overview."""
    from espnet_diverse.bin.main import COMMANDS

    (section,) = [section for title in config.nav for section in _sections(title) if section == [OVERVIEW.name]]
    section.extend({name: f"commands/{name}.md"} for name in COMMANDS)
    return config


def _sections(item) -> list[list]:
    """The lists of pages in an entry of the navigation, at any depth."""
    if not isinstance(item, dict):
        return []
    lists = [pages for pages in item.values() if isinstance(pages, list)]
    return [*lists, *(found for pages in lists for inner in pages for found in _sections(inner))]


def on_files(files, config, **_):
    """Add the pages to the files of the site."""
    from espnet_diverse.bin.main import COMMANDS

    guides = _guides(OVERVIEW.read_text(encoding="utf-8"))
    for name, (_, text) in COMMANDS.items():
        content = f"# {name}\n\n{_sentence(text)} Guide: {guides[name]}.\n\n```text\n{_help(name)}```\n"
        files.append(File.generated(config, f"commands/{name}.md", content=content))
    return files


def on_page_markdown(markdown: str, page, **_) -> str:
    """Link the names in the table of the overview, whose pages the repository does not have."""
    if page.file.src_uri != OVERVIEW.name:
        return markdown
    return ROW.sub(lambda row: row[1] + re.sub(r"`([\w-]+)`", r"[`\1`](commands/\1.md)", row["names"]) + " |", markdown)


def _guides(overview: str) -> dict[str, str]:
    """The link of each command's guide, from the table of the overview."""
    rows = ROW.finditer(overview)
    return {
        name: f"[{row['title']}](../{row['page']})" for row in rows for name in re.findall(r"`([\w-]+)`", row["names"])
    }


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _help(name: str) -> str:
    from espnet_diverse.bin.main import command_parser

    _, parser = command_parser(name)
    parser.formatter_class = _Formatter
    return parser.format_help()


class _Formatter(argparse.HelpFormatter):
    """Help of one width, whatever the terminal is."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=28, width=96)
