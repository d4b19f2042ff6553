"""A hook of mkdocs: puts the help of every command into the page commands.md, from the parsers themselves."""

import argparse

MARK = "<!-- reference -->"


def on_page_markdown(markdown: str, page, **_) -> str:
    """Replace the mark in commands.md by the reference; other pages stay as they are."""
    return markdown.replace(MARK, reference()) if page.file.src_uri == "commands.md" else markdown


def reference() -> str:
    """A section for each command: what it does, and its help."""
    from espnet_diverse.bin.main import COMMANDS

    return "\n".join(
        f"### {name}\n\n{_sentence(text)}\n\n```text\n{_help(name)}```\n" for name, (_, text) in COMMANDS.items()
    )


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
