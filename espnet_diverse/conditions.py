"""Conditions: what parts of a model may depend on besides their input, such as the language of an utterance.

This is the one table of them. Everywhere else a condition goes by its name here: it is the name of a tensor in a batch
and in the scope of a forward pass, and a key of `by` and `conditions` in a configuration.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Condition(NamedTuple):
    """One condition.

    Attributes:
        label: What it is called in messages and reports.
        argument: What it is called where a user gives its value: an argument of `Recognizer.transcribe`.
        help: What the help of a command says of its option.
    """

    label: str
    argument: str
    help: str

    @property
    def option(self) -> str:
        """The option of the command line that gives its value."""
        return f"--{self.argument}"


CONDITIONS: dict[str, Condition] = {
    "lang": Condition("language", "language", "language that is spoken"),
    "tgtlang": Condition("target language", "target_language", "language of the text (default: the language)"),
    "domain": Condition("domain", "domain", "domain of the recordings"),
}
"""Conditions by name. The values of `lang` are languages; a model numbers them in the order that its config.yaml
has."""

TABLES: tuple[str, ...] = tuple(f"utt2{name}" for name in CONDITIONS)
"""Tables of a Kaldi data directory, each of which gives the value of one condition for every utterance."""


def given(arguments: Mapping[str, str | None]) -> dict[str, str]:
    """Values by condition, of those that `arguments` (by `Condition.argument`) gives; None and "" give none."""
    values = {name: arguments.get(condition.argument) for name, condition in CONDITIONS.items()}
    return {name: value for name, value in values.items() if value}
