"""References and the hypotheses of one or two systems, in the same order."""

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from espnet_diverse.conditions import language_tables
from espnet_diverse.data.table_views import Joined, Same
from espnet_diverse.data.tables import pack_table
from espnet_diverse.errors import DataError, abridged


@dataclass(frozen=True)
class System:
    """Hypotheses of a system.

    Attributes:
        name: Name of the system, which is its row name.
        texts: Hypothesis for each reference, in the order of the references; "" if it is missing.
        missing: Ids of the references without a hypothesis.
    """

    name: str
    texts: Collection[str]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Corpus:
    """References and systems.

    Attributes:
        references: Reference texts by utterance id.
        system: System to score.
        baseline: System to compare with, if any.
        languages: Language of the text by utterance id; may be incomplete.
    """

    references: Mapping[str, str]
    system: System
    baseline: System | None = None
    languages: Mapping[str, str] = field(default_factory=dict)

    def systems(self) -> list[System]:
        """The system and, if there is one, the baseline."""
        return [self.system, *([self.baseline] if self.baseline else [])]

    def language_list(self) -> list[str]:
        """Language of each reference, or "" if it is unknown."""
        return [sys.intern(self.languages.get(utterance, "")) for utterance in self.references]


def system_of(name: str, references: Mapping[str, str], hypotheses: Mapping[str, str]) -> System:
    """Bring hypotheses into the order of the references.

    Args:
        name: Name of the system.
        references: Reference texts by utterance id.
        hypotheses: Hypotheses by utterance id; absent ids count as empty texts and are listed as missing.

    Raises:
        DataError: A hypothesis has no reference.
    """
    if strangers := [utterance for utterance in hypotheses if utterance not in references]:
        source, listed = getattr(hypotheses, "path", name), abridged(strangers, separator=" ")
        raise DataError(
            f"{source}: hypotheses without a reference ({len(strangers)}): {listed}; "
            "score against the text of the same data directory"
        )
    texts: Collection[str]
    if isinstance(references, dict):
        texts = tuple(hypotheses.get(utterance, "") for utterance in references)
    else:  # tables of files are sorted, and are read as the texts are needed
        texts = Joined([Same(references, ""), hypotheses]).values()
    return System(name, texts, tuple(utterance for utterance in references if utterance not in hypotheses))


def languages_beside(texts: Path, given: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> Joined[str]:
    """Language of each text of a file by utterance id, from the tables next to it, or from tables `given` by name.

    Raises:
        DataError: A table is faulty.
    """
    names = language_tables(texts.name, (texts.parent / "src_text").is_file())
    there = [name for name in names if name in given or (texts.parent / name).is_file()]
    return Joined([given[name] if name in given else pack_table(texts.parent / name) for name in there])
