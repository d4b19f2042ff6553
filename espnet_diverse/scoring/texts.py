"""References and the hypotheses of one or two systems, in the same order."""

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from espnet_diverse.conditions import base_language, language_tables
from espnet_diverse.corpora.shared.columns import COLUMNS
from espnet_diverse.corpora.shared.table_files import Row, read_table_file
from espnet_diverse.data.characters import SURROGATE, clean_text, id_fault
from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.data.lines import numbered_lines
from espnet_diverse.data.scripts import UNSPACED, language_of_script
from espnet_diverse.data.table_views import Joined, Same
from espnet_diverse.data.tables import LINES, pack_table, pack_texts
from espnet_diverse.errors import DataError, abridged

_TIME = r"\d+\.\d+"
_NIST = {
    "ctm": re.compile(rf"\S+\s+\S+\s+{_TIME}\s+{_TIME}\s+\S+(\s+\S+)?"),
    "stm": re.compile(rf"\S+\s+\S+\s+\S+\s+{_TIME}\s+{_TIME}(\s.*)?"),
}
"""Lines of sclite's formats with times."""
_TABLES = ("csv", "tsv", "jsonl", "json")
_SEEN = 20  # lines that show the format of a file


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
        more: Further references of the texts, in the order of `references`.
    """

    references: Mapping[str, str]
    system: System
    baseline: System | None = None
    languages: Mapping[str, str] = field(default_factory=dict)
    more: Sequence[Collection[str]] = ()

    def systems(self) -> list[System]:
        """The system and, if there is one, the baseline."""
        return [self.system, *([self.baseline] if self.baseline else [])]

    def language_list(self) -> list[str]:
        """Language of each reference, or "" if it is unknown; see `written_languages`."""
        return self._written

    @cached_property
    def _written(self) -> list[str]:
        languages = [sys.intern(self.languages.get(utterance, "")) for utterance in self.references]
        return written_languages(self.references.values(), languages)


def written_languages(texts: Iterable[str], languages: Sequence[str]) -> list[str]:
    """Language of each text for the units of metrics: its script decides, and the given code where several share one.

    Texts of one language are treated alike, by the script of most of them. Where the language is unknown, texts without
    spaces are in the language of their own script; the others are treated like most if these are two thirds.

    Args:
        texts: The texts.
        languages: Language code of each text, or "".

    Returns:
        For scripts without spaces and Hangul the given code or the one of `language_of_script`; for other scripts the
        given code, but "" if it belongs to the former.
    """
    scripts = [language_of_script(text) for text in texts]
    counts: dict[str, Counter[str]] = {language: Counter() for language in languages}
    for language, script in zip(languages, scripts, strict=True):
        if script is not None:
            counts[language][script] += 1
    return [
        _settled(language, _common(language, script, counts[language]))
        for language, script in zip(languages, scripts, strict=True)
    ]


def _common(language: str, script: str | None, counted: Counter[str]) -> str | None:
    """Script by which to treat a text: its own one or that of most texts of its language."""
    counted = counted.copy()
    if counted["ja"] and counted["zh"]:  # Japanese texts without kana, or Chinese ones with some
        majority, other = sorted(("ja", "zh"), key=counted.__getitem__, reverse=True)
        counted[majority] += counted.pop(other)
        script = majority if script == other else script
    if script and not language or not counted.total():
        return script
    common, count = counted.most_common(1)[0]
    return common if language or 3 * count >= 2 * counted.total() else script


def _settled(language: str, script: str | None) -> str:
    base = base_language(language)
    if script is None or base == script or {base, script} == {"zh", "ja"}:
        return language
    return script or ("" if base in UNSPACED or base == "ko" else language)


def read_files(paths: Sequence[Path], plain: bool = False) -> dict[Path, Mapping[str, str]]:
    """Read texts by utterance id, sorted, from each file.

    Args:
        paths: Tables with 'utterance text' a line; .trn; or csv, tsv and jsonl with columns id and text.
        plain: The files have one text a line, and the number of the line is its id. A blank line counts, also at the
            end, as in sacrebleu.

    Raises:
        DataError: A file is faulty or in another format, which is named, or plain files differ in the number of lines.
    """
    files = {path: pack_texts(path, LINES) if plain else _read_texts(path) for path in paths}
    first, expected = paths[0], len(files[paths[0]])
    for path, texts in files.items() if plain else ():
        if len(texts) != expected:
            longer = path if len(texts) > expected else first
            is_blank = not files[longer][max(files[longer])]
            todo = f"the last line of {longer} is blank: delete it" if is_blank else "find the line that one lacks"
            reason = f"has {len(texts)} lines, and {first} has {expected}; with --plain line N is compared with line N"
            raise DataError(f"{path}: {reason}; {todo}")
    return files


def further_references(first: Path, path: Path, files: Mapping[Path, Mapping[str, str]]) -> list[str]:
    """Texts of a further file of references, in the order of the first.

    Args:
        first, path: The first and the further file.
        files: Texts of the files by utterance id, from `read_files`.

    Raises:
        DataError: The files have different utterances.
    """
    lacking, odd = (
        [key for key in files[one] if key not in files[other]] for one, other in ((first, path), (path, first))
    )
    if lacking or odd:
        reason = f"lacks {abridged(lacking, separator=' ')}" if lacking else f"has {abridged(odd, separator=' ')} more"
        raise DataError(f"{path}: {reason}; files of references need the same utterances, and {first} is the first")
    return list(files[path].values())


def _read_texts(path: Path) -> Mapping[str, str]:
    suffix = Path(path.name.removesuffix(".gz")).suffix.removeprefix(".")
    if suffix in _TABLES:
        return _of_table(path)
    if form := suffix if suffix in _NIST else _nist_format(path):
        reason = "a line of a table is 'utterance text', of a .trn 'text (utterance)'"
        raise DataError(f"{path}: is in sclite's format {form}, which is aligned by times and not read; {reason}")
    return pack_texts(path, "reference")


def _nist_format(path: Path) -> str:
    lines = (line.strip() for _, line in numbered_lines(path, []))
    head = list(islice((line for line in lines if line and not line.startswith(";;")), _SEEN))
    return next((form for form, row in _NIST.items() if head and all(map(row.fullmatch, head))), "")


def _of_table(path: Path) -> dict[str, str]:
    """The texts of a csv, tsv or jsonl by id."""
    table = read_table_file(path)
    names = []
    for ours in ("id", "text"):
        matching = [name for name in table.columns if name.lower() in (ours, *COLUMNS[ours])]
        if len(matching) != 1:
            has = f"it has {', '.join(filter(None, table.columns)) or 'none'}"
            todo = f"name one column of {' '.join((ours, *COLUMNS[ours]))}"
            raise DataError(f"{path}: has {len(matching) or 'no'} columns {ours!r}; {has}: {todo}")
        names.append(matching[0])
    texts: dict[str, str] = {}
    for row in table.rows:
        key, text = (_cell(row, name) for name in names)
        twice = f"duplicate id {key!r}; ids must be unique" if key in texts else None
        reasons = ["has no id" if not key else id_fault(key), twice]
        table.faults += [Fault(str(path), row.where, reason) for reason in reasons if reason]
        texts[key] = text
    refuse(table.faults)
    return dict(sorted(texts.items()))


def _cell(row: Row, name: str) -> str:
    value = row.values.get(name)
    return clean_text(SURROGATE.sub("\ufffd", "" if value is None else str(value)))[0]


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
    if isinstance(references, dict) or isinstance(hypotheses, dict):
        texts = tuple(hypotheses.get(utterance, "") for utterance in references)
    else:  # tables of files are sorted, and are read as the texts are needed
        texts = Joined([Same(references, ""), hypotheses]).values()
    return System(name, texts, tuple(utterance for utterance in references if utterance not in hypotheses))


def languages_beside(texts: Path, tables: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> Joined[str]:
    """Language of each text of a file by utterance id, from the tables next to it, or from tables `tables` by name.

    Raises:
        DataError: A table is faulty.
    """
    names = language_tables(texts.name, (texts.parent / "src_text").is_file())
    present = [name for name in names if name in tables or (texts.parent / name).is_file()]
    return Joined([tables[name] if name in tables else pack_table(texts.parent / name) for name in present])
