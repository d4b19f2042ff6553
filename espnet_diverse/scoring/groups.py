"""Rows of a score table: parts of a corpus by language, direction or domain, and averages over them.

The name of a row consists of the values of its utterances in each table, joined by "-": "es" for utt2lang, "es-en" for
utt2lang and utt2tgtlang, "mtedx-es-en" for utt2domain, utt2lang and utt2tgtlang. An average is the unweighted mean of
the scores of rows, as in the tables of papers:

    AVG      all rows; if utt2domain is one of several tables, also the rows of each domain ("mtedx AVG")
    AVG-T    directions with training data        AVG-Z    zero-shot directions
    High     more training data than a limit      Low      at most that limit

No row has the name of an average, or "all", the name of the whole corpus in pictures and comparisons.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from pathlib import Path

from espnet_diverse.data.tables import read_table
from espnet_diverse.errors import DataError

DOMAIN = "utt2domain"
OVERALL = "all"
"""Name of the whole corpus."""
ABOVE = 1e7
"""Amount of training data above which a row counts as High."""


@dataclass
class Group:
    """The utterances of one row.

    Attributes:
        direction: Name of the row without the domain.
        domain: Domain if it is part of the name, otherwise "".
        indices: Indices of the sentences in the corpus.
    """

    direction: str
    domain: str = ""
    indices: list[int] = field(default_factory=list)


def groups(utterances: Sequence[str], tables: Mapping[str, Mapping[str, str]]) -> dict[str, Group]:
    """Group utterances into rows, sorted by name; without tables there are none.

    Args:
        utterances: Ids in the order of the corpus.
        tables: Tables from utterance id to value, by path; entries of other utterances are ignored.

    Raises:
        DataError: An utterance is not in a table, or different values give rows of one name.
    """
    stems = [path.rpartition("/")[2] for path in tables]
    for path, table in tables.items():
        if nameless := [utterance for utterance in utterances if utterance not in table]:
            raise DataError(
                f"{path}: {len(nameless)} of {len(utterances)} reference utterances have no entry, the first is "
                f"{nameless[0]!r}; add a line 'utterance value' for each"
            )
    rows: dict[str, Group] = {}
    values: dict[str, list[str]] = {}
    for index, utterance in enumerate(utterances if tables else ()):
        names = [table[utterance] for table in tables.values()]
        name = "-".join(names)
        if (before := values.setdefault(name, names)) != names:
            both = f"{' and '.join(before)}, and {' and '.join(names)}"
            raise DataError(f"{' '.join(tables)}: row {name!r} would have the utterances of {both}; rename a value")
        domain = names[stems.index(DOMAIN)] if DOMAIN in stems and len(stems) > 1 else ""
        direction = "-".join(name for stem, name in zip(stems, names, strict=True) if not domain or stem != DOMAIN)
        rows.setdefault(name, Group(direction, domain)).indices.append(index)
    return dict(sorted(rows.items()))


def averages(
    rows: Mapping[str, Group],
    zero_shot: Collection[str] = (),
    sizes: Mapping[str, float] | None = None,
    above: float = ABOVE,
) -> dict[str, list[str]]:
    """Names of the rows of each average, by name of the average; averages without rows are left out.

    Args:
        rows: Result of `groups`.
        zero_shot: Rows or directions without training data.
        sizes: Amount of training data of each row or direction.
        above: Limit of `sizes`, see `ABOVE`.

    Raises:
        DataError: A row is missing in `sizes`, or has the name of an average or of the whole corpus.
    """
    by_average: dict[str, list[str]] = {}
    for domain in ["", *sorted({group.domain for group in rows.values()} - {""})]:
        members = {name: group for name, group in rows.items() if domain in ("", group.domain)}
        kinds: dict[str, list[str]] = {"AVG": list(members)}
        for name, group in members.items() if zero_shot else ():
            kind = "AVG-Z" if {name, group.direction} & set(zero_shot) else "AVG-T"
            kinds.setdefault(kind, []).append(name)
        for name, group in members.items() if sizes is not None else ():
            kind = "High" if _size(name, group, sizes) > above else "Low"
            kinds.setdefault(kind, []).append(name)
        by_average |= {f"{domain} {kind}".strip(): kinds[kind] for kind in sorted(kinds)}
    if taken := {*by_average, OVERALL} & rows.keys():
        raise DataError(f"row {min(taken)!r} has the name of an average or of the whole corpus; rename it in its table")
    return by_average if rows else {}


def read_sizes(path: Path) -> dict[str, float]:
    """Read amounts of training data: lines of 'row amount', in any unit.

    Raises:
        DataError: The file cannot be read, or an amount is not a number from 0.
    """
    sizes = {}
    for name, amount in read_table(path, "sizes").items():
        try:
            sizes[name] = float(amount)
        except ValueError:
            sizes[name] = nan
        if not 0 <= sizes[name] < inf:
            raise DataError(f"{path}: {amount!r} of row {name!r} is not a number from 0; a line is: row amount")
    return sizes


def _size(name: str, group: Group, sizes: Mapping[str, float]) -> float:
    for key in (name, group.direction):
        if key in sizes:
            return sizes[key]
    raise DataError(f"row {name!r} has no size of its training data; known sizes: {' '.join(sizes)}")
