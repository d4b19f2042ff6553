"""Completion of commands and options in the shell, by argcomplete.

`eval "$(register-python-argcomplete espnet-diverse)"` in ~/.bashrc turns it on.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping


def complete(commands: Mapping[str, str], command_parser: Callable) -> None:
    """Answer the shell, which calls the program with its line in the environment, and exit.

    Args:
        commands: Description of each command by name.
        command_parser: `main.command_parser`; the options of a command are declared only if the line has it.
    """
    try:
        import argcomplete
    except ImportError:
        sys.exit(1)  # the shell would print a message in the middle of the line
    words = os.environ.get("COMP_LINE", "").split()
    parser = argparse.ArgumentParser(prog="espnet-diverse")
    choices = parser.add_subparsers()
    for name, text in commands.items():
        parents = [command_parser(name)[1]] if name in words[1:2] else []
        choices.add_parser(name, help=text, parents=parents, add_help=not parents)
    argcomplete.autocomplete(parser)
