"""Conditions: properties of an utterance, such as its language, that parts of a model depend on besides their input.

A condition, such as `lang`, has values, such as `de`. This module has the table of all conditions. The name of a
condition is the name of its tensor in a batch and in the scope of a forward pass, and a key of `by` and `conditions` in
a configuration.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Condition(NamedTuple):
    """One condition.

    Attributes:
        label: Name of the condition in messages and reports.
        argument: Name of the argument that gives its value in Python, for example in `Recognizer.transcribe`.
        help: Description of its option in the help of a command.
    """

    label: str
    argument: str
    help: str

    @property
    def option(self) -> str:
        """Option of the command line that gives the value of the condition."""
        return f"--{self.argument}"


CONDITIONS: dict[str, Condition] = {
    "lang": Condition("language", "language", "language of the input: of the speech, or of the source text"),
    "tgtlang": Condition(
        "target language", "target_language", "language of the output text (default for asr: the input's)"
    ),
    "domain": Condition("domain", "domain", "domain of the recordings or texts"),
}
"""Conditions by name. A model numbers the values of a condition in the order in which its config.yaml lists them."""

TABLES: tuple[str, ...] = tuple(f"utt2{name}" for name in CONDITIONS)
"""Tables of a Kaldi data directory that give the value of one condition for every utterance."""


_TWO_LETTERS = {"aze": "az", "cmn": "zh", "jpn": "ja", "tur": "tr", "yue": "zh", "zho": "zh"}
"""ISO 639-1 codes, by ISO 639-3 code, of the languages whose texts are treated specially."""


def base_language(code: str) -> str:
    """The language of a code, without script and country: "zh" for zh-CN, zh_TW and cmn_hans_cn."""
    language = code.lower().replace("_", "-").partition("-")[0]
    return _TWO_LETTERS.get(language, language)


def values_by_condition(arguments: Mapping[str, str | None]) -> dict[str, str]:
    """Return the values of conditions among `arguments`, by condition.

    Args:
        arguments: Values by `Condition.argument`; None and "" mean that a condition is not given.
    """
    values = {name: arguments.get(condition.argument) for name, condition in CONDITIONS.items()}
    return {name: value for name, value in values.items() if value}


def as_arguments(values: Mapping[str, str]) -> dict[str, str]:
    """Return values by condition as keyword arguments of `Recognizer.transcribe` and `Translator.translate`."""
    return {CONDITIONS[name].argument: value for name, value in values.items()}


def language_tables(text: str = "text", translated: bool = False) -> tuple[str, ...]:
    """Tables among `TABLES` that give the language of a text; where an utterance is in several, the last counts.

    Args:
        text: Name of the table of the text; src_text is the text to translate.
        translated: Whether other texts are translations, whose language only utt2tgtlang gives.
    """
    if text == "src_text":
        return ("utt2lang",)
    return ("utt2tgtlang",) if translated else ("utt2lang", "utt2tgtlang")
