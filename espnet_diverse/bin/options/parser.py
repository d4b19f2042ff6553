"""A parser of commands with errors of one line, which say how several values of an option are written.

Options take several values in three ways, which are easily mistaken for each other:

    --config a,b             joined by commas, where the name of the value in the help has a comma: A,B,C
    --set a=1 --set b=2      the option repeated
    --metric cer wer         separated by spaces
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NoReturn

from espnet_diverse.option_checks import nearest


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line and end the process with 1; argparse's own code, 2, means skipped items."""

    given: Sequence[str] = ()

    def parse_args(self, args=None, namespace=None):
        """Parse, and keep `args` for `advice`."""
        self.given = sys.argv[1:] if args is None else args
        return super().parse_args(args, namespace)

    def parse_intermixed_args(self, args=None, namespace=None):
        """Parse, and keep `args` for `advice`."""
        self.given = sys.argv[1:] if args is None else args
        return super().parse_intermixed_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the message and what to do, and exit."""
        self.exit(1, f"{self.prog}: error: {message}; {self.advice(message)}\n")

    def advice(self, message: str) -> str:
        """Advice about an error of argparse: how values or an option are written, or where all options are listed."""
        unknown = "unrecognized" in message or "required" in message  # a required option may be the one misspelt
        known = list(self._option_string_actions)
        for name in (word.partition("=")[0] for word in self.given if unknown and word.startswith("--")):
            if not any(option.startswith(name) for option in known):
                # All options begin with two dashes, which alone bring short names near the default similarity, 0.6.
                near = nearest(name, known, similarity=0.7)
                return f"{name}: did you mean {near}?" if near else f"{self.prog} --help lists the options"
        several = self.several(message, self._left_over() if unknown else ())
        return several or f"{self.prog} --help lists what is allowed"

    def several(self, message: str, extra: Sequence[str] = ()) -> str:
        """Advice on several values of an option that are in the form of another option; "" if there are none.

        Args:
            message: The error. Values that are joined by commas are wrong if they are in it.
            extra: Words of the command line that nothing takes.
        """
        for action, option, values, following in self._uses():
            if action.nargs is None and set(following) & set(extra):
                return _of_one_value(action, option, [*values, *takewhile(extra.__contains__, following)])
            joined = any("," in value and value in message for value in values)
            if action.nargs not in (None, 0, "?") and joined and "," not in _name(action):
                return f"separate the values by spaces: {option} {' '.join(values).replace(',', ' ')}"
        return ""

    def _uses(self) -> Iterator[tuple[argparse.Action, str, list[str], list[str]]]:
        """Options of the command line: what is declared, the name, its values, and the words after them."""
        for place, word in enumerate(self.given):
            option, has_value, value = word.partition("=")
            action = self._option_string_actions.get(option)
            if action is None:
                continue
            after = list(takewhile(lambda argument: not argument.startswith("--"), self.given[place + 1 :]))
            most = {None: 1, 0: 0, "?": 1}.get(action.nargs, len(after))
            values, following = ([value], after) if has_value else (after[:most], after[most:])
            yield action, option, values, following

    def _left_over(self) -> list[str]:
        """Words of the command line that nothing takes, whatever is missing."""
        wanted = [action for action in (*self._actions, *self._mutually_exclusive_groups) if action.required]
        try:
            self.exit_on_error = False
            for action in wanted:
                action.required = False
            return self.parse_known_intermixed_args(self.given)[1]
        except (argparse.ArgumentError, TypeError):  # TypeError: a positional argument takes all the rest
            return []
        finally:
            self.exit_on_error = True
            for action in wanted:
                action.required = True


def _name(action: argparse.Action) -> str:
    """Name of the value of an option in the help."""
    return action.metavar if isinstance(action.metavar, str) else ""


def _of_one_value(action: argparse.Action, option: str, values: Sequence[str]) -> str:
    """Advice on several values of an option that takes one at a time."""
    name = _name(action)
    if "=" in name and len(values) == 2 and "=" not in values[0]:
        return f"write key=value: {option} {'='.join(values)}"
    if "," in name:
        return f"join the values with a comma: {option} {','.join(values)}"
    if isinstance(action, argparse._AppendAction):
        return f"repeat the option: {' '.join(f'{option} {value}' for value in values)}"
    if action.type in (int, float) or action.choices:
        return f"{option} takes one value"
    return f"{option} takes one value; if it has spaces, write it in quotes: {option} '{' '.join(values)}'"
