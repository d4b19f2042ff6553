"""References and the texts that one or several systems gave for them, in one order."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from espnet_diverse.errors import DataError


@dataclass(frozen=True)
class System:
    """What one system gave.

    Attributes:
        name: What its row is called.
        texts: One a reference, in the order of the references; "" where there is none.
        missing: Ids of the references without a text.
    """

    name: str
    texts: tuple[str, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Corpus:
    """References and systems.

    Attributes:
        references: Utterance id to expected text.
        system: The system to score.
        baseline: The one it is compared with, if any.
        languages: Language of the texts of each utterance, as far as it is known.
    """

    references: Mapping[str, str]
    system: System
    baseline: System | None = None
    languages: Mapping[str, str] = field(default_factory=dict)

    def systems(self) -> list[System]:
        """The system and, where there is one, the baseline."""
        return [self.system, *([self.baseline] if self.baseline else [])]

    def language_list(self) -> list[str]:
        """Language of each reference, "" where it is not known."""
        return [self.languages.get(utterance, "") for utterance in self.references]


def system_of(name: str, references: Mapping[str, str], hypotheses: Mapping[str, str]) -> System:
    """Put hypotheses into the order of the references.

    Args:
        name: What the system is called.
        references: Utterance id to expected text.
        hypotheses: Utterance id to text; an id that is absent counts as an empty text and is listed as missing.

    Raises:
        DataError: A hypothesis has no reference.
    """
    if strangers := [utterance for utterance in hypotheses if utterance not in references]:
        raise DataError(
            f"{name}: hypotheses without a reference ({len(strangers)}): {abridge(strangers)}; "
            "score against the text of the same data directory"
        )
    texts = tuple(hypotheses.get(utterance, "") for utterance in references)
    return System(name, texts, tuple(utterance for utterance in references if utterance not in hypotheses))


def abridge(names: Iterable[str], limit: int = 5) -> str:
    """The first names, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return " ".join(names[:limit]) + more
