"""Faults of data, collected and reported in one pass, and the action for each kind of fault.

`refuse`: the command ends with an error. `drop`: commands that write a directory (`prepare`, `validate --fix`) leave
the utterance out and list it in dropped.tsv; other commands (`stats`, `train`) refuse it. `warn`: one warning for the
kind.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from espnet_diverse.errors import ConfigError, DataError

NAMED = 3
_VALUES = re.compile(r"""'[^']*'|"[^"]*"|\S*/\S*|\S+\.\w{2,5}:|^\S+|[\d.]+|(?<=: )\S+(?=: )""")
_PATH = re.compile(r"\S*/\S*")
ACTIONS = {
    "table": "refuse",  # a table, or a line of it, cannot be read or has a value that is not allowed
    "missing": "refuse",  # an utterance is not in all tables
    "audio": "refuse",  # cannot be read, is truncated or damaged, or its header leaves samples out
    "rate": "refuse",  # another rate or more channels than the model reads, or a format that training does not read
    "short": "drop",
    "long": "warn",
    "silent": "drop",
    "offset": "warn",
    "clipped": "warn",
    "crowded": "drop",  # more text than the audio can hold
    "wordless": "drop",  # a transcript of punctuation alone
    "entity": "warn",
    "compatibility": "warn",  # a ligature, full-width letter or fraction, each a separate token
    "format": "warn",  # several rates, several channels, or files that must be converted
    "same_audio": "warn",
    "same_text": "warn",
    "case": "warn",  # ids that differ in case alone
    "shared_speaker": "warn",
    "shared_text": "warn",
}
"""The default action for each kind of fault."""
CHOICES = ("refuse", "drop", "warn")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fault:
    """A fault in a file.

    Attributes:
        file: The file or table.
        where: A line number (from 1), or the id of an utterance or recording; None for the file as a whole.
        what: What is wrong and, unless obvious, what to do.
        kind: A key of `ACTIONS`.
        entry: Id of the row with the fault, which can be left out; "" if the file as a whole is faulty.
    """

    file: str
    where: int | str | None
    what: str
    kind: str = "table"
    entry: str = field(default="", compare=False)

    @property
    def reason(self) -> str:
        """The fault as a reason to leave an utterance out: the line, if there is one, and what is wrong with it."""
        return f"{Path(self.file).name}:{self.where}: {self.what}" if isinstance(self.where, int) else self.what

    def __str__(self) -> str:
        if self.where is None:
            return f"{self.file}: {self.what}"
        space = "" if isinstance(self.where, int) else " "
        return f"{self.file}:{space}{self.where}: {self.what}"


class FaultsError(DataError):
    """Several faults: the message lists the first few and counts the rest, the attribute `faults` has all.

    Of a fault that differs from an earlier one in its place and paths alone, the message has only the place.

    Args:
        faults: The faults.
        listed: A place that lists all of them, for the message; needed where the message does not have all.
    """

    def __init__(self, faults: Sequence[Fault], listed: str = ""):
        self.faults, self._listed = list(faults), listed
        named = "; ".join(_named(self.faults[:NAMED]))
        remaining = len(self.faults) - NAMED
        where = f" ({listed})" if listed else ""
        suffix = f"; and {remaining} more{where}" if remaining > 0 else ""
        super().__init__(f"{len(self.faults)} faults: {named}{suffix}" if len(self.faults) > 1 else named)

    def __reduce__(self):
        return type(self), (self.faults, self._listed)


def _named(faults: Iterable[Fault]) -> Iterator[str]:
    """The faults for a message; the same fault at another place of a file as `also` and the place."""
    seen = set()
    for fault in faults:
        alike = fault.where is not None and (fault.file, _PATH.sub("", fault.what))
        line = "line " if isinstance(fault.where, int) else ""
        yield f"also {line}{fault.where}" if alike in seen else str(fault)
        if alike:
            seen.add(alike)


def refuse(faults: Sequence[Fault], listed: str = "") -> None:
    """Raise one `FaultsError` for all `faults`, with its argument `listed`; return if there are no faults."""
    if faults:
        raise FaultsError(faults, listed)


def alike_once(lines: Iterable[str], most: int = NAMED, listed: str = "") -> list[str]:
    """At most `most` of the lines that differ only in ids, paths and numbers, and the number of the others.

    Args:
        lines: The lines.
        most: Number of lines that are kept of each kind.
        listed: A place that lists all of them, for the line with the number.
    """
    lines = list(lines)
    kinds = [_VALUES.sub("", line) for line in lines]
    total, seen, selected = Counter(kinds), Counter(), []
    for line, kind in zip(lines, kinds, strict=True):
        seen[kind] += 1
        if seen[kind] <= most:
            selected.append(line)
        if seen[kind] == most < total[kind]:
            selected.append(f"and {total[kind] - most} more like the last{listed and f'; {listed}'}")
    return selected


def parse_actions(words: Iterable[str]) -> dict[str, str]:
    """The actions by kind, with changes such as "silent=warn".

    Raises:
        ConfigError: A kind or an action is unknown.
    """
    actions = dict(ACTIONS)
    for word in words:
        kind, _, action = word.partition("=")
        if kind not in ACTIONS or action not in CHOICES:
            known = f"kinds are {' '.join(ACTIONS)}; actions are {' '.join(CHOICES)}"
            raise ConfigError(f"{word!r}: must be KIND=ACTION; {known}")
        actions[kind] = action
    return actions


def decisive(faults: Iterable[Fault], actions: Mapping[str, str] = ACTIONS) -> list[Fault]:
    """The faults that are refused or dropped; the others are logged, with one line for each file and kind."""
    remaining: list[Fault] = []
    warned: dict[tuple[str, str], list[Fault]] = {}
    for fault in faults:
        if actions[fault.kind] == "warn":
            warned.setdefault((fault.file, fault.kind), []).append(fault)
        else:
            remaining.append(fault)
    for (_, kind), group in warned.items():
        suffix = f" (and {len(group) - 1} more of this kind, {kind})" if group[1:] else ""
        log.warning("notice: %s%s", group[0], suffix)
    return remaining
